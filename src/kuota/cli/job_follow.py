# SPDX-License-Identifier: Apache-2.0
"""Follows one Job to its end: reports why it waits, and copies the logs of its pods.

A preempted Job has not ended: its pods are deleted, and the pods of its next run are followed too.
Neither has a Job whose queue is stopped, which continues when the queue does.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterable
from typing import TYPE_CHECKING

from kuota.api.base import Json, Key
from kuota.api.rules.job_common import QUEUE_NAME
from kuota.failures import alongside
from kuota.kube.errors import ApiError, Forbidden, NotFound, Unauthorized, Unreachable
from kuota.kube.informer import Informer
from kuota.kube.requests import LogOptions
from kuota.kube.resources import JOBS, LOCAL_QUEUES, PODS, WORKLOADS, key_of
from kuota.view.conditions import condition
from kuota.view.endings import Ending, Result, deactivation, job_ending
from kuota.view.live import gets
from kuota.view.workload_state import WAITING, LiveState, pod_why, state, way_out, why

from .connect import Failed
from .job_objects import JOB_NAME, owners, pods_of
from .log_lines import Copying, Writer, begun
from .progress import Progress
from .remote_pods import RemoteFollow

if TYPE_CHECKING:
    from .session import Session

PATIENCE_S = 30.0
"""How long a server may be unreachable before we give up."""
QUEUE_ABSENT_S = 5.0
"""How long a queue may be missing before we give up; a queue may be deleted and created again."""
_TICK_S = 1.0
_UNTAKEN_S = 3.0
_LAST_WORDS_S = 10.0
_DELETED = Ending(result=Result.DELETED)


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
        self._finished: Json | None = None
        self._deactivated: Ending | None = None
        self._logs: dict[str, asyncio.Task[None]] = {}
        self._state: LiveState | None = None
        self._begun_at = self._reached_at = self._queue_seen_at = time.monotonic()
        where, client = self._key.namespace, session.client
        self._jobs: Informer[Json] = Informer(
            client, JOBS, where, field_selector=f"metadata.name={self._key.name}"
        )
        self._pods: Informer[Json] = Informer(
            client, PODS, where, label_selector=f"{JOB_NAME}={self._key.name}"
        )
        self._workloads: Informer[Json] = Informer(client, WORKLOADS, where)
        self._remote = RemoteFollow(
            session, options, progress, self._mine, self._logs, prefixed=self._prefixed
        )

    async def run(self) -> Ending:
        """Return how the Job ended.

        Raises Unreachable when the server does not answer for PATIENCE_S, Unauthorized or Forbidden
        when it no longer accepts the credentials, and Failed when the Job's queue was deleted.
        """
        informers = (self._jobs, self._pods, self._workloads)
        self._jobs.observe(self._job_changed)
        self._workloads.observe(self._workload_changed)
        self._pods.observe(lambda old, new: self._changed.set())
        try:
            async with alongside(*(each.run() for each in informers), self._remote.run()):
                ending = await self._end()
                await self._last_words(ending)
            return await self._with_cause(ending)
        finally:
            self._progress.clear()
            for task in self._logs.values():
                task.cancel()
            await asyncio.gather(*self._logs.values(), return_exceptions=True)

    def _job_changed(self, old: Json | None, new: Json | None) -> None:
        """Record how the Job finished: a short TTL may delete it before the next check."""
        if new is not None and self._is_job(new) and job_ending(new, ()) is not None:
            self._finished = new
        self._changed.set()

    def _workload_changed(self, old: Json | None, new: Json | None) -> None:
        """Record a deactivation: a retention policy may delete the Workload at any time."""
        if new is not None and self._uid in owners(new):
            self._deactivated = deactivation(new)
            self._remote.wake()
        self._changed.set()

    async def _end(self) -> Ending:
        """Report progress until the Job ends, and return the ending as far as it is known."""
        while True:
            self._changed.clear()
            self._follow_pods(self._pods.values())
            job = self._jobs.get(self._key)
            if self._finished is not None:
                return job_ending(self._finished, ()) or _DELETED
            if self._deactivated is not None:
                return self._deactivated
            if self._jobs.synced.is_set():
                if job is None or not self._is_job(job):
                    return _DELETED
                self._tell(job)
                await self._check_queue()
            self._check_reach()
            try:
                async with asyncio.timeout(_TICK_S):
                    await self._changed.wait()
            except TimeoutError:
                self._progress.refresh()

    def _is_job(self, job: Json) -> bool:
        """Whether this is the Job that is followed, and not a later one of the same name."""
        return not self._uid or job["metadata"].get("uid") == self._uid

    def _check_reach(self) -> None:
        error = self._jobs.error
        now = time.monotonic()
        if isinstance(error, Unauthorized | Forbidden):
            raise error
        if not isinstance(error, Unreachable):
            self._reached_at = now
            return
        self._progress.show("the server does not answer; trying again")
        if now - self._reached_at > PATIENCE_S:
            raise Unreachable(f"{error}; the Job continues without this command")

    async def _check_queue(self) -> None:
        """Raise Failed when the Job waits for a LocalQueue that was deleted."""
        workload = self._workload()
        waits = condition(workload, "QuotaReserved") if workload is not None else None
        if workload is None or (waits or {}).get("reason") != "Misconfigured":
            self._queue_seen_at = time.monotonic()
            return
        queue = str((workload.get("spec") or {}).get("queueName") or "")
        if not queue:
            return  # The Job names no queue, which is no deleted one.
        try:
            await self._session.client.get(LOCAL_QUEUES, Key(self._key.namespace, queue))
        except NotFound:
            if time.monotonic() - self._queue_seen_at < QUEUE_ABSENT_S:
                return
            raise Failed(
                f"job.batch/{self._key.name} waits for LocalQueue {queue}, which was deleted. "
                f"It starts when the queue exists again; to remove it, run "
                f"`kuota delete {self._session.here}job {self._key.name}`"
            ) from None
        except (ApiError, Unreachable):
            pass
        self._queue_seen_at = time.monotonic()

    def _follow_pods(self, pods: Iterable[Json]) -> None:
        """Start copying the log of each pod that has started. Each pod is copied once."""
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

    async def _last_words(self, ending: Ending) -> None:
        """Copy the rest of the logs, including those of pods created since the last check.

        The processes of a deleted or deactivated Job are still terminating, and may report what
        they saved.
        """
        patience_s = _LAST_WORDS_S
        if self._finished is None:
            graces = [_grace_s(each) for each in self._pods.values() if self._is_mine(each)]
            patience_s += max(graces, default=0.0)
        else:
            self._follow_pods(await pods_of(self._session, self._finished))
            await self._remote.last()
        if self._logs:
            await asyncio.wait(self._logs.values(), timeout=patience_s)

    async def _with_cause(self, ending: Ending) -> Ending:
        """Return the ending of a finished Job, with the cause that its pods report."""
        if self._finished is None:
            return ending
        pods = await pods_of(self._session, self._finished)
        return job_ending(self._finished, pods) or ending

    def _is_mine(self, pod: Json) -> bool:
        return not self._uid or self._uid in owners(pod)

    def _mine(self) -> list[Json]:
        """Return the Workloads of the Job."""
        return [each for each in self._workloads.values() if self._uid in owners(each)]

    def _workload(self) -> Json | None:
        return next(iter(self._mine()), None)

    def _tell(self, job: Json) -> None:
        """Report the Job's state if it differs from the one reported last."""
        workload = self._workload()
        if workload is None:
            self._tell_unqueued(job)
            return
        now = state(workload)
        if now is LiveState.ADMITTED:
            if self._state is not LiveState.ADMITTED:
                queue = workload["status"].get("admission", {}).get("clusterQueue", "")
                given = gets(workload)
                self._progress.say(
                    f"admitted by ClusterQueue {queue}{f': {given}' if given else ''}"
                )
            self._tell_start("starting")
        elif now in (*WAITING, LiveState.QUOTARESERVED):
            reason = why(workload, self._workloads.values())
            out = way_out(workload)
            words = "; ".join(filter(None, (reason, out)))
            self._progress.show(f"{now}: {words}" if words else str(now))
        self._state = now

    def _tell_unqueued(self, job: Json) -> None:
        """Report on a Job that has no Workload, at least not yet."""
        untaken = time.monotonic() - self._begun_at > _UNTAKEN_S
        queued = QUEUE_NAME in (job["metadata"].get("labels") or {})
        if not (job.get("spec") or {}).get("suspend"):
            # A queued Job will get a Workload, which names the queue that admitted it.
            if not queued or untaken:
                self._tell_start("")
        elif untaken:
            self._progress.show("waiting for a controller to create the Job's Workload")

    def _tell_start(self, word: str) -> None:
        """Report why pods do not start, or else `word`. Does nothing once a pod has started."""
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
