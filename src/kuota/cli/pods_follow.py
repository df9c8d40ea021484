# SPDX-License-Identifier: Apache-2.0
"""Follows all pods of a job at once: those of a JobSet, a Deployment or a pod group.

The pods of a job are those that it owns, those of the Jobs that it owns, or the members of a group.
Pods that are created later, for example after a preemption, are followed, too.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from kuota.api.base import Json, Key
from kuota.api.core import GROUP_NAME, is_terminated
from kuota.bridge.jobs.registry import ALL
from kuota.failures import alongside
from kuota.kube.errors import ApiError, NotFound, Unreachable
from kuota.kube.informer import Informer
from kuota.kube.requests import LogOptions
from kuota.kube.resources import JOBS, PODS, WORKLOADS, Resource, key_of
from kuota.view.workload_state import LiveState, pod_why, state, why

from .job_objects import owners
from .log_lines import Copying, Writer, begun
from .progress import Progress
from .remote_pods import RemoteFollow

if TYPE_CHECKING:
    from .session import Session

POD_GROUP = "podgroup"
"""The word for a pod group on the command line; there is no such object."""
_LAST_WORDS_S = 10.0


def group_of(pod: Json) -> str:
    """Return the name of the group of a pod; "" if it belongs to none."""
    meta = pod["metadata"]
    for field in ("annotations", "labels"):
        name = (meta.get(field) or {}).get(GROUP_NAME)
        if name:
            return str(name)
    return ""


async def pods_of_group(session: Session, key: Key) -> list[Json]:
    """Return the pods of a group, oldest first."""
    listed = await session.client.list(PODS, key.namespace)
    mine = [each for each in listed.items if group_of(each) == key.name]
    return sorted(mine, key=lambda each: str(each["metadata"].get("creationTimestamp")))


class PodsFollow:
    """The pods of one job, as they change. Without `job`, `key` names a pod group."""

    def __init__(
        self,
        session: Session,
        key: Key,
        options: LogOptions,
        progress: Progress,
        job: tuple[Resource, Json] | None = None,
    ) -> None:
        self._session = session
        self._key = key
        self._options = options
        self._progress = progress
        self._uid = "" if job is None else str(job[1]["metadata"]["uid"])
        self._changed = asyncio.Event()
        self._logs: dict[str, asyncio.Task[None]] = {}
        self._job_uids: set[str] = set()
        client, where = session.client, key.namespace
        self._pods: Informer[Json] = Informer(client, PODS, where)
        self._jobs: Informer[Json] = Informer(client, JOBS, where)
        self._workloads: Informer[Json] = Informer(client, WORKLOADS, where)
        self._objects: Informer[Json] | None = None
        if job is not None:
            self._kind = ALL.get((job[0].group, job[0].kind))
            selector = f"metadata.name={key.name}"
            self._objects = Informer(client, job[0], where, field_selector=selector)
        self._remote = RemoteFollow(
            session, options, progress, self._own_workloads, self._logs, prefixed=True
        )

    async def run(self) -> None:
        """Copy logs until the job has ended or was deleted."""
        informers = [self._pods, self._jobs, self._workloads]
        informers += [] if self._objects is None else [self._objects]
        for each in informers:
            each.observe(lambda old, new: self._changed.set())
        self._workloads.observe(lambda old, new: self._remote.wake())
        try:
            async with alongside(*(each.run() for each in informers), self._remote.run()):
                await asyncio.gather(*(each.synced.wait() for each in informers))
                while not self._ended():
                    self._changed.clear()
                    self._follow()
                    self._tell()
                    await self._changed.wait()
                self._follow()
                await self._remote.last()
                if self._logs:
                    await asyncio.wait(self._logs.values(), timeout=_LAST_WORDS_S)
        finally:
            self._progress.clear()
            for task in self._logs.values():
                task.cancel()
            await asyncio.gather(*self._logs.values(), return_exceptions=True)

    def _mine(self) -> list[Json]:
        if self._objects is None:
            return [each for each in self._pods.values() if group_of(each) == self._key.name]
        for job in self._jobs.values():
            if self._uid in owners(job):
                self._job_uids.add(str(job["metadata"]["uid"]))
        known = {self._uid, *self._job_uids}
        return [each for each in self._pods.values() if known.intersection(owners(each))]

    def _own_workloads(self) -> list[Json]:
        """Return the Workloads of the job, or of its pods."""
        uids = {self._uid, *(str(each["metadata"]["uid"]) for each in self._mine())}
        return [each for each in self._workloads.values() if uids.intersection(owners(each))]

    def _ended(self) -> bool:
        if self._objects is None:
            return all(map(is_terminated, self._mine()))
        found = self._objects.get(self._key)
        if found is None or found["metadata"].get("uid") != self._uid:
            return True
        return self._kind is not None and self._kind.end(found) is not None

    def _follow(self) -> None:
        """Start copying the log of each pod that has started. Each pod is copied once."""
        for pod in self._mine():
            uid = str(pod["metadata"].get("uid"))
            if uid not in self._logs and begun(pod, self._options.container):
                self._progress.show("")
                self._logs[uid] = asyncio.create_task(self._log(key_of(pod)))

    async def _log(self, key: Key) -> None:
        try:
            writer = Writer(f"[{key.name}] ")
            await Copying(self._session, key, self._options, writer).run()
        except (ApiError, Unreachable) as error:
            if not isinstance(error, NotFound):
                self._progress.say(f"the log of pod {key.name} broke off: {error}")

    def _tell(self) -> None:
        """Report why nothing runs, as long as no pod has started."""
        if self._logs:
            return
        for each in self._own_workloads():
            if state(each) is not LiveState.ADMITTED:
                self._progress.show(f"{state(each)}: {why(each, self._workloads.values())}")
                return
        reason = next(filter(None, map(pod_why, self._mine())), "")
        self._progress.show(f"starting: {reason}" if reason else "waiting for pods")
