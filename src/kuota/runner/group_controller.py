# SPDX-License-Identifier: Apache-2.0
"""Runs objects of one kind as Jobs, as the rules of the kind decide."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from functools import partial

from kuota.api.base import Json, Key
from kuota.bridge.jobs.ancestor import Lookup
from kuota.bridge.jobs.kind import JobKind, resolved
from kuota.bridge.jobs.registry import ALL
from kuota.kube.client import Client
from kuota.kube.clock import Clock
from kuota.kube.errors import AlreadyExists, ApiError, NotFound
from kuota.kube.events import Recorder
from kuota.kube.informer import Informer
from kuota.kube.resources import JOBS, key_of
from kuota.kube.workqueue import serve

from .child_jobs import GroupStep
from .controller import RunnerController
from .cron_controller import OWNER, owner_uids
from .job_set_rules import job_set_step
from .loopback_ports import PORT, Taken, port_of
from .train_job_rules import train_job_step
from .training_rules import JAX_JOB, PYTORCH_JOB

Rules = Callable[[Json, Sequence[Json], float, Taken], GroupStep]
"""Returns the next step of an object, given the Jobs that it controls and the time."""
Resolve = Callable[[Json], Json]
"""Returns an object with what its rules need of others."""
RULES: Mapping[tuple[str, str], Rules] = {
    ("jobset.x-k8s.io", "JobSet"): job_set_step,
    ("kubeflow.org", "PyTorchJob"): PYTORCH_JOB,
    ("kubeflow.org", "JAXJob"): JAX_JOB,
    ("trainer.kubeflow.org", "TrainJob"): train_job_step,
}
"""The kinds that run as Jobs."""
_ROUNDS = 3


class GroupController(RunnerController):
    """Reconciles the objects of one informer with their Jobs while `run` runs.

    The caller must run both informers.
    """

    def __init__(
        self,
        client: Client,
        objects: Informer[Json],
        jobs: Informer[Json],
        rules: Rules,
        *,
        clock: Clock | None = None,
        recorder: Recorder | None = None,
        resolve: Resolve = lambda obj: obj,
    ) -> None:
        self._kind = objects.resource.kind
        super().__init__(f"{self._kind.lower()}-controller", client, objects, clock, recorder)
        self._jobs = jobs
        jobs.add_index(OWNER, owner_uids)
        jobs.add_index(PORT, _ports)
        self._rules = rules
        self._resolve = resolve

    async def run(self) -> None:
        """Reconcile until cancelled."""
        await asyncio.gather(self._objects.synced.wait(), self._jobs.synced.wait())
        self._objects.observe(self._object_changed)
        self._jobs.observe(partial(self._owned_changed, self._kind))
        await serve(self._queue, self.reconcile, stuck=self._stuck)

    async def reconcile(self, key: Key) -> float | None:
        """Reconcile one object. Returns the seconds until the next check."""
        parent = self._objects.get(key)
        if parent is None:
            return None
        for _ in range(_ROUNDS):
            step = self._rules(
                self._resolve(parent), self._jobs_of(parent), self._now(), self._is_taken
            )
            if not (step.suspend or step.resume or step.delete or step.create):
                break
            await self._change_jobs(parent, step)
        if step.status is not None:
            await self._write_status(parent, step.status)
        for event in step.events:
            self._say(parent, event.reason, event.message, warning=event.warning)
        if step.remove:
            await self._delete_object(parent)
        return None if step.retry_at is None else max(0.0, step.retry_at - self._now())

    def _is_taken(self, port: int) -> bool:
        return bool(self._jobs.indexed(PORT, str(port)))

    def _jobs_of(self, parent: Json) -> list[Json]:
        namespace = key_of(parent).namespace
        found = self._jobs.indexed(OWNER, parent["metadata"]["uid"])
        return [each for each in found if key_of(each).namespace == namespace]

    async def _change_jobs(self, parent: Json, step: GroupStep) -> None:
        for jobs, value in ((step.suspend, True), (step.resume, False)):
            for job in jobs:
                await self._patch(job, {"spec": {"suspend": value}})
        for job in step.delete:
            if await self._delete_job(job):
                self._say(parent, "SuccessfulDelete", f"Deleted job {job['metadata']['name']}")
        for job in step.create:
            await self._create(parent, job)

    async def _patch(self, job: Json, body: Json) -> None:
        meta = {
            "uid": job["metadata"]["uid"],
            "resourceVersion": job["metadata"]["resourceVersion"],
        }
        try:
            answer = await self._client.patch(JOBS, key_of(job), body | {"metadata": meta})
        except NotFound:
            return
        self._jobs.wrote(answer)

    async def _create(self, parent: Json, job: Json) -> None:
        name = job["metadata"]["name"]
        try:
            made = await self._client.create(JOBS, job)
        except AlreadyExists:
            words = f"Job {name} exists already and is not one of this {self._kind}; delete it"
            self._say(parent, "JobCreationFailed", words, warning=True)
            raise
        except ApiError as error:
            self._say(parent, "JobCreationFailed", f"Job {name}: {error.message}", warning=True)
            raise
        self._jobs.wrote(made)
        self._say(parent, "SuccessfulCreate", f"Created job {name}")

    async def _delete_object(self, obj: Json) -> None:
        try:
            await self._client.delete(
                self._objects.resource,
                key_of(obj),
                propagation="Background",
                uid=obj["metadata"]["uid"],
            )
        except NotFound:
            return


def _ports(job: Json) -> list[str]:
    port = port_of(job)
    return [] if port is None else [str(port)]


def group_controllers(
    client: Client,
    jobs: Informer[Json],
    others: Mapping[tuple[str, str], Informer[Json]],
    clock: Clock,
    recorder: Recorder | None,
    look_up: Lookup,
) -> list[GroupController]:
    """The controllers of those job kinds that can run as Jobs."""
    return [
        GroupController(
            client,
            objects,
            jobs,
            RULES[kind],
            clock=clock,
            recorder=recorder,
            resolve=partial(_resolved, ALL.kind(kind), look_up),
        )
        for kind, objects in others.items()
        if kind in RULES
    ]


def _resolved(kind: JobKind, look_up: Lookup, obj: Json) -> Json:
    return resolved(kind, obj, look_up)
