# SPDX-License-Identifier: Apache-2.0
"""A fake Job controller and kubelet: pods are numbers in the status of a Job."""

from __future__ import annotations

import asyncio

from control.fake_api import FakeApi
from kuota.api.base import Json, Key
from kuota.kube.errors import KubeError, NotFound
from kuota.kube.resources import JOBS, key_of


class Kubelet:
    """Pods run from the moment that a Job is released, and end when told, or some time after it
    was suspended. `ready` says whether new pods become ready, `grace_s` how long they take to go.
    """

    def __init__(self, api: FakeApi) -> None:
        self.ready = True
        self.grace_s = 0.0
        self.most_pods = 0
        """The most pods that ever were there at once, those on their way out included."""
        self._api = api
        self._leaving: set[Key] = set()

    async def run(self) -> None:
        async with asyncio.TaskGroup() as group:
            async for event in self._api.watch(JOBS, since="0"):
                if event.type != "DELETED":
                    await self._sync(group, key_of(event.object))

    async def _sync(self, group: asyncio.TaskGroup, key: Key) -> None:
        job = self._api.find(JOBS, key.name, key.namespace)
        if job is None or _over(job):
            return
        status = job.get("status") or {}
        there = status.get("active", 0)
        if job["spec"].get("suspend"):
            if there and key not in self._leaving:
                self._leaving.add(key)
                await self.status(key, ready=0)
                group.create_task(self._leave(key))
            return
        left = _completions(job) - status.get("succeeded", 0)
        wanted = min(job["spec"].get("parallelism", 1), left)
        if there < wanted and key not in self._leaving:
            now = self._api.clock.now().replace(microsecond=0).isoformat().replace("+00:00", "Z")
            ready = wanted if self.ready else 0
            await self.status(key, active=wanted, ready=ready, startTime=now)

    async def _leave(self, key: Key) -> None:
        await asyncio.sleep(self.grace_s)
        self._leaving.discard(key)
        await self.status(key, active=0)

    async def status(self, key: Key, **fields: object) -> None:
        """Write some of a Job's status, trying again when refused; one that is gone needs none."""
        while True:
            try:
                await self._api.patch(JOBS, key, {"status": fields}, subresource="status")
            except NotFound:
                return
            except KubeError:
                continue  # refusals are planned one by one, so they come to an end
            break
        self.most_pods = max(self.most_pods, self._api.total(JOBS, _pods))

    async def succeed(self, name: str, pods: int = 1, namespace: str = "team") -> None:
        """Let some pods of a Job do their work; the Job is complete with the last."""
        key = Key(namespace, name)
        job = self._api.find(JOBS, name, namespace)
        assert job is not None
        done = job["status"].get("succeeded", 0) + pods
        left = max(0, job["status"].get("active", 0) - pods)
        more = min(_completions(job) - done, job["spec"].get("parallelism", 1))
        await self.status(key, succeeded=done, active=max(left, more), ready=max(left, more))
        if done >= _completions(job):
            await self.end(name, "Complete", namespace)

    async def end(self, name: str, how: str, namespace: str = "team") -> None:
        over = {"type": how, "status": "True", "reason": how, "message": f"the job is {how}"}
        await self.status(Key(namespace, name), active=0, ready=0, conditions=[over])


def _over(job: Json) -> bool:
    conditions = (job.get("status") or {}).get("conditions") or ()
    return any(each["type"] in ("Complete", "Failed") for each in conditions)


def _completions(job: Json) -> int:
    spec = job["spec"]
    return int(spec.get("completions", spec.get("parallelism", 1)))


def _pods(job: Json) -> int:
    return int((job.get("status") or {}).get("active", 0))
