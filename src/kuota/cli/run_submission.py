# SPDX-License-Identifier: Apache-2.0
"""Submits the Job of `kuota run`, unless it would wait for ever."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from kuota.api.base import Json, Key
from kuota.kube.errors import AlreadyExists, NotFound
from kuota.kube.requests import WriteOptions, creation
from kuota.kube.resources import (
    JOBS,
    LOCAL_QUEUES,
    PRIORITY_CLASSES,
    WORKLOAD_PRIORITY_CLASSES,
    Resource,
)

from .connect import MANAGER, Failed
from .kinds import elsewhere, missing_namespace
from .run_job import CLASSES, RunRequest, is_queued, job_of

if TYPE_CHECKING:
    from .session import Session


class JobSubmitter:
    """Makes and creates the Job in the selected namespace."""

    def __init__(self, session: Session) -> None:
        self._session = session

    async def create(self, manifest: Json) -> Json:
        """Create the Job. Raises Failed if it exists, or needs a queue and would wait for ever."""
        options = WriteOptions(manager=MANAGER, validation="Strict")
        try:
            if not is_queued(manifest):
                trial = creation(JOBS, manifest, options | WriteOptions(dry_run=True))
                await self._check_unqueued((await self._session.answer(trial))[0])
            job, warnings = await self._session.answer(creation(JOBS, manifest, options))
        except AlreadyExists as error:
            name, here = manifest["metadata"]["name"], self._session.here
            raise Failed(
                f"{error.message}; choose another --name, omit it, or delete the Job: "
                f"kuota delete {here}job {name}"
            ) from None
        for each in warnings:
            click.echo(f"Warning: {each}", err=True)
        return job

    async def _check_unqueued(self, job: Json) -> None:
        """Raise Failed if the server suspends the Job, and puts it into no queue."""
        if is_queued(job) or not job["spec"].get("suspend"):
            return
        place = self._session.namespace
        known = await self._names(LOCAL_QUEUES, place)
        raise Failed(f"jobs in namespace {place} need a queue; choose one with -q NAME: {known}")

    async def manifest(self, asked: RunRequest) -> Json:
        """Return the Job. Raises Failed if its queue or its priority class does not exist."""
        if asked.queue:
            await self._check_queue(asked.queue)
        kind = await self._priority_kind(asked.priority) if asked.priority else CLASSES[0]
        return job_of(asked, self._session.namespace, kind)

    async def _check_queue(self, queue: str) -> None:
        """Raise Failed if the queue does not exist: the Job would wait forever."""
        namespace = self._session.namespace
        try:
            await self._session.client.get(LOCAL_QUEUES, Key(namespace, queue))
        except NotFound:
            missing = await missing_namespace(self._session)
            if missing:
                raise Failed(missing) from None
            known = await elsewhere(self._session, LOCAL_QUEUES, queue)
            known = known or f"; {await self._names(LOCAL_QUEUES, namespace)}"
            create = f"kuota create localqueue {queue} -n {namespace} -c CLUSTERQUEUE"
            raise Failed(
                f"there is no LocalQueue {queue} in namespace {namespace}{known}\n"
                f"To create it: {create}"
            ) from None

    async def _priority_kind(self, name: str) -> str:
        """The kind of priority class with that name; Kueue's own takes precedence."""
        for kind, resource in zip(
            CLASSES, (WORKLOAD_PRIORITY_CLASSES, PRIORITY_CLASSES), strict=True
        ):
            try:
                await self._session.client.get(resource, Key("", name))
            except NotFound:
                continue
            return kind
        known = await self._names(WORKLOAD_PRIORITY_CLASSES, None)
        raise Failed(f"there is no WorkloadPriorityClass and no PriorityClass {name}; {known}")

    async def _names(self, resource: Resource, namespace: str | None) -> str:
        listed = await self._session.client.list(resource, namespace)
        names = [each["metadata"]["name"] for each in listed.items]
        return f"there are: {', '.join(names)}" if names else f"there is no {resource.kind} yet"
