# SPDX-License-Identifier: Apache-2.0
"""Submits the Job of `kuota run`, follows it, and does as told when interrupted."""

from __future__ import annotations

import asyncio
import signal
import sys
from contextlib import suppress

import click

from kuota.api.base import Json, Key
from kuota.kube.errors import NotFound
from kuota.kube.requests import LogOptions
from kuota.kube.resources import (
    JOBS,
    LOCAL_QUEUES,
    PRIORITY_CLASSES,
    WORKLOAD_PRIORITY_CLASSES,
    Resource,
    key_of,
)
from kuota.view.live import condition

from . import output
from .absent import elsewhere
from .connect import INTERRUPTED, Failed
from .job_follow import JobFollow, outcome
from .output import name_text
from .progress import Progress
from .question import answer
from .run_job import CLASSES, Asked, job_of
from .session import Session

_SIGNALS = (signal.SIGINT, signal.SIGTERM)
_QUESTION = "[l]eave it running, [c]ancel it, or go [b]ack? [l]: "
_ANSWERS = {"l": "leave", "c": "cancel", "b": "back"}


class Running:
    """One run of `kuota run`."""

    def __init__(self, session: Session, *, quiet: bool, on_interrupt: str) -> None:
        self._session = session
        self._progress = Progress(quiet=quiet)
        self._on_interrupt = on_interrupt

    async def preview(self, asked: Asked) -> int:
        output.show(await self._manifest(asked), "yaml")
        return 0

    async def run(self, asked: Asked, *, detach: bool) -> int:
        """Submit and follow; returns the exit status."""
        manifest = await self._manifest(asked)
        job = await self._session.client.create(JOBS, manifest, validation="Strict")
        name = name_text(JOBS, job)
        if detach:
            click.echo(name)
            return 0
        where = f" in queue {asked.queue}" if asked.queue else ""
        self._progress.say(f"{name} submitted{where}")
        return await self._followed(job)

    async def _manifest(self, asked: Asked) -> Json:
        await self._check_queue(asked.queue)
        kind = await self._priority_kind(asked.priority) if asked.priority else CLASSES[0]
        return job_of(asked, self._session.namespace, kind)

    async def _check_queue(self, queue: str) -> None:
        """Raises Failed for a queue that is not there: the Job would wait for ever."""
        if not queue:
            return
        namespace = self._session.namespace
        try:
            await self._session.client.get(LOCAL_QUEUES, Key(namespace, queue))
        except NotFound:
            known = await elsewhere(self._session, LOCAL_QUEUES, queue)
            known = known or f"; {await self._names(LOCAL_QUEUES, namespace)}"
            raise Failed(
                f"there is no LocalQueue {queue} in namespace {namespace}{known}"
            ) from None

    async def _priority_kind(self, name: str) -> str:
        """Which kind of priority class has that name; Kueue's own goes first."""
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
        return f"there are: {', '.join(names)}" if names else f"there are no {resource.plural} yet"

    async def _followed(self, job: Json) -> int:
        """Follow to the end, or to an interrupt; "back" at the question goes on.

        What a cancelled Job still writes is shown; another interrupt ends that too.
        """
        follow = JobFollow(self._session, job, LogOptions(follow=True), self._progress)
        task = asyncio.create_task(follow.run())
        try:
            while True:
                interrupt = await _interrupt(task)
                if interrupt is None:
                    return await self._ended(job, await task)
                decision = self._decision(job, interrupt)
                if decision == "cancel":
                    await self._cancel(job)
                    await _interrupt(task)
                if decision != "back":
                    return INTERRUPTED
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    async def _ended(self, job: Json, ended: Json | None) -> int:
        name = name_text(JOBS, job)
        if ended is None:
            raise Failed(f"{name} was deleted before it ended")
        status, words = await outcome(self._session, ended)
        failed = condition(ended, "Failed")
        if status and failed is not None:
            spent = failed.get("reason") == "BackoffLimitExceeded"
            why = words or ("" if spent else failed.get("message") or failed.get("reason"))
            self._progress.say(
                f"{name} failed with exit status {status}{f': {why}' if why else ''}"
            )
        elif not status:
            self._progress.say(f"{name} succeeded")
        return status

    def _decision(self, job: Json, interrupt: signal.Signals) -> str:
        """What the user wants of the Job: "leave", "cancel" or "back"."""
        decision = self._on_interrupt
        name = name_text(JOBS, job)
        if decision == "ask":
            can_ask = interrupt is signal.SIGINT and sys.stdin.isatty() and sys.stderr.isatty()
            decision = answer(f"\n{name}: {_QUESTION}", _ANSWERS, "leave") if can_ask else "leave"
        if decision == "leave":
            here, bare = self._session.here, job["metadata"]["name"]
            self._progress.say(
                f"\n{name} goes on. See it: kuota logs -f {here}job/{bare}; "
                f"end it: kuota delete {here}job {bare}"
            )
        return decision

    async def _cancel(self, job: Json) -> None:
        with suppress(NotFound):
            await self._session.client.delete(
                JOBS, key_of(job), propagation="Background", uid=job["metadata"]["uid"]
            )
        self._progress.say(f"{name_text(JOBS, job)} cancelled")


async def _interrupt(task: asyncio.Task[Json | None]) -> signal.Signals | None:
    """Wait for the task, or for Ctrl-C or TERM: the signal that came, None at the end."""
    loop = asyncio.get_running_loop()
    came: asyncio.Future[signal.Signals] = loop.create_future()

    def take(each: signal.Signals) -> None:
        if not came.done():
            came.set_result(each)

    for each in _SIGNALS:
        loop.add_signal_handler(each, take, each)
    try:
        await asyncio.wait((task, came), return_when=asyncio.FIRST_COMPLETED)
    finally:
        # Python's own handlers are back before anyone is asked a question.
        for each in _SIGNALS:
            loop.remove_signal_handler(each)
    return None if task.done() else came.result()
