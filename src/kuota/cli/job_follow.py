# SPDX-License-Identifier: Apache-2.0
"""Follows one Job to its end: says why it waits, and writes the logs of its pods as they come.

Preemption is no end: the pods go, and those of the next start are followed too.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterable
from typing import TYPE_CHECKING

from kuota.api.base import Json, Key
from kuota.api.rules.job_common import QUEUE_NAME
from kuota.failures import alongside
from kuota.kube.errors import ApiError, NotFound, Unreachable
from kuota.kube.informer import Informer
from kuota.kube.requests import LogOptions
from kuota.kube.resources import JOBS, PODS, WORKLOADS, Resource, key_of
from kuota.view.live import gets, holds, pod_why, state, way_out, why
from kuota.view.plan import State

from .log_lines import Copying, Writer, begun
from .progress import Progress

if TYPE_CHECKING:
    from .session import Session

JOB_NAME = "batch.kubernetes.io/job-name"
PATIENCE_S = 30.0
"""How long a server may be out of reach before we give up on it."""
_TICK_S = 1.0
_UNTAKEN_S = 3.0
_LAST_WORDS_S = 10.0


class JobFollow:
    """One Job, its Workload and its pods, as they change."""

    def __init__(
        self, session: Session, job: Json, options: LogOptions, progress: Progress
    ) -> None:
        self._session = session
        self._key = key_of(job)
        self._uid = str(job["metadata"].get("uid") or "")
        self._options = options
        self._progress = progress
        self._prefixed = int((job.get("spec") or {}).get("parallelism") or 1) > 1
        self._changed = asyncio.Event()
        self._logs: dict[str, asyncio.Task[None]] = {}
        self._state: State | None = None
        self._begun_at = self._reached_at = time.monotonic()
        where, client = self._key.namespace, session.client
        self._jobs: Informer[Json] = Informer(
            client, JOBS, where, field_selector=f"metadata.name={self._key.name}"
        )
        self._pods: Informer[Json] = Informer(
            client, PODS, where, label_selector=f"{JOB_NAME}={self._key.name}"
        )
        self._workloads: Informer[Json] = Informer(client, WORKLOADS, where)

    async def run(self) -> Json | None:
        """The Job when it has finished, None if it was deleted. Raises Unreachable."""
        informers = (self._jobs, self._pods, self._workloads)
        for each in informers:
            each.observe(lambda old, new: self._changed.set())
        try:
            async with alongside(*(each.run() for each in informers)):
                job = await self._end()
                await self._last_words(job)
            return job
        finally:
            self._progress.clear()
            for task in self._logs.values():
                task.cancel()
            await asyncio.gather(*self._logs.values(), return_exceptions=True)

    async def _end(self) -> Json | None:
        while True:
            self._changed.clear()
            self._follow_pods(self._pods.values())
            job = self._jobs.get(self._key)
            if self._jobs.synced.is_set():
                if job is None or self._other(job):
                    return None
                if finished(job):
                    return job
                self._tell(job)
            self._check_reach()
            try:
                async with asyncio.timeout(_TICK_S):
                    await self._changed.wait()
            except TimeoutError:
                self._progress.refresh()

    def _other(self, job: Json) -> bool:
        """Whether this is another Job of the same name."""
        return bool(self._uid) and job["metadata"].get("uid") != self._uid

    def _check_reach(self) -> None:
        error = self._jobs.error
        now = time.monotonic()
        if not isinstance(error, Unreachable):
            self._reached_at = now
            return
        self._progress.show("the server does not answer; trying again")
        if now - self._reached_at > PATIENCE_S:
            raise Unreachable(f"{error}; the Job goes on without us")

    def _follow_pods(self, pods: Iterable[Json]) -> None:
        """Begin to write the log of every pod that has begun. One that ends is not begun again."""
        for pod in pods:
            uid = str(pod["metadata"].get("uid"))
            untold = uid not in self._logs and begun(pod, self._options.container)
            if untold and self._is_mine(pod):
                self._progress.show("")
                self._logs[uid] = asyncio.create_task(self._log(key_of(pod)))

    async def _log(self, key: Key) -> None:
        writer = Writer(f"[{key.name}] " if self._prefixed else "")
        try:
            await Copying(self._session, key, self._options, writer).run()
        except (ApiError, Unreachable) as error:
            if not isinstance(error, NotFound):
                self._progress.say(f"the log of pod {key.name} broke off: {error}")

    async def _last_words(self, job: Json | None) -> None:
        """Write what is left of the logs, also of pods that came and went between two looks.

        The processes of a deleted Job are still ending, and may have to say what they saved.
        """
        patience_s = _LAST_WORDS_S
        if job is None:
            graces = [_grace_s(each) for each in self._pods.values() if self._is_mine(each)]
            patience_s += max(graces, default=0.0)
        else:
            selector = f"{JOB_NAME}={self._key.name}"
            where = self._key.namespace
            listed = await self._session.client.list(PODS, where, label_selector=selector)
            self._follow_pods(listed.items)
        if self._logs:
            await asyncio.wait(self._logs.values(), timeout=patience_s)

    def _is_mine(self, pod: Json) -> bool:
        return not self._uid or self._uid in owners(pod)

    def _tell(self, job: Json) -> None:
        """Say where the Job stands, if that is not what was said before."""
        workload = next(
            (each for each in self._workloads.values() if self._uid in owners(each)), None
        )
        if workload is None:
            untaken = time.monotonic() - self._begun_at > _UNTAKEN_S
            queued = QUEUE_NAME in (job["metadata"].get("labels") or {})
            if not (job.get("spec") or {}).get("suspend"):
                # Of a Job that was queued it is told first by whom it was admitted.
                if not queued or untaken:
                    self._tell_start("")
            elif untaken:
                self._progress.show("waiting for a controller to take the Job up")
            return
        now = state(workload)
        if now is State.ADMITTED:
            if self._state is not State.ADMITTED:
                queue = workload["status"].get("admission", {}).get("clusterQueue", "")
                given = gets(workload)
                self._progress.say(
                    f"admitted by ClusterQueue {queue}{f': {given}' if given else ''}"
                )
            self._tell_start("starting")
        elif now in (State.PREEMPTED, State.DEACTIVATED, State.RESERVED, State.WAITING):
            word = "waiting" if now in (State.RESERVED, State.WAITING) else str(now)
            reason = why(workload, self._workloads.values())
            out = way_out(workload)
            self._progress.show(f"{word}: {reason}; {out}" if out else f"{word}: {reason}")
        self._state = now

    def _tell_start(self, word: str) -> None:
        """Say why pods do not start, or the word; nothing once one has begun."""
        if self._logs:
            return
        mine = [pod_why(each) for each in self._pods.values() if self._is_mine(each)]
        reason = next(filter(None, mine), "")
        self._progress.show(f"starting: {reason}" if reason else word)


def _grace_s(pod: Json) -> float:
    given = pod["metadata"].get("deletionGracePeriodSeconds")
    if given is None:
        given = (pod.get("spec") or {}).get("terminationGracePeriodSeconds")
    return float(given or 0)


def owners(obj: Json) -> list[str]:
    """The uids of what the object belongs to."""
    return [str(each.get("uid")) for each in obj["metadata"].get("ownerReferences") or ()]


async def workload_of(session: Session, resource: Resource, obj: Json) -> Json | None:
    """The workload that the object is or has, if any."""
    if resource == WORKLOADS:
        return obj
    if resource != JOBS and QUEUE_NAME not in (obj["metadata"].get("labels") or {}):
        return None
    try:
        listed = await session.client.list(WORKLOADS, obj["metadata"].get("namespace"))
    except ApiError:
        return None
    mine = [each for each in listed.items if obj["metadata"]["uid"] in owners(each)]
    return mine[-1] if mine else None


async def pods_of(session: Session, job: Json) -> list[Json]:
    """The pods of the Job so far, the oldest first. Those of another Job of its name are not."""
    key, uid = key_of(job), job["metadata"]["uid"]
    listed = await session.client.list(PODS, key.namespace, label_selector=f"{JOB_NAME}={key.name}")
    mine = [each for each in listed.items if uid in owners(each)]
    return sorted(mine, key=lambda each: str(each["metadata"].get("creationTimestamp")))


def finished(job: Json) -> bool:
    return holds(job, "Complete") or holds(job, "Failed")


async def outcome(session: Session, job: Json) -> tuple[int, str]:
    """The exit status of a finished Job, and what its pods say of it.

    0 for one that succeeded, else the latest exit code that was not 0, else 1.
    """
    if holds(job, "Complete"):
        return 0, ""
    failures = [each for pod in await pods_of(session, job) for each in _failures(pod)]
    if not failures:
        return 1, ""
    last = failures[-1]
    return int(last["exitCode"]), str(last.get("message") or "")


def _failures(pod: Json) -> list[Json]:
    """How the containers of the pod ended that did not end well."""
    status = pod.get("status") or {}
    fields = ("initContainerStatuses", "containerStatuses")
    statuses = [each for field in fields for each in status.get(field) or ()]
    ended = [(each.get("state") or {}).get("terminated") or {} for each in statuses]
    return [each for each in ended if each.get("exitCode")]
