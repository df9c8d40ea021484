# SPDX-License-Identifier: Apache-2.0
"""Watches Jobs through the API, and lets a story wait for what it sees."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import aclosing, suppress

from kuota.api.base import Json
from kuota.kube.client import Client
from kuota.kube.errors import KubeError
from kuota.kube.informer import Informer
from kuota.kube.requests import LogOptions
from kuota.kube.resources import CLUSTER_QUEUES, JOBS, PODS, WORKLOADS, Resource, key_of

from .demo import (
    Awaited,
    Seen,
    Sight,
    What,
    job_sights,
    owner,
    queue_sights,
    repeated,
    workload_sights,
)

Sights = Callable[[Json | None, Json | None], Iterator[Sight]]


class Stage:
    """Everything seen so far, told to `tell` as it happens. `told` names Jobs whose logs count."""

    def __init__(
        self, client: Client, tell: Callable[[Seen], None], told: Iterable[str], start: float
    ) -> None:
        self.seen: list[Seen] = []
        self._client = client
        self._tell = tell
        self._told = frozenset(told)
        self._start = start
        self._news = asyncio.Event()
        self._tasks: asyncio.TaskGroup | None = None

    async def run(self) -> None:
        """Watch until cancelled."""
        async with asyncio.TaskGroup() as self._tasks:
            for resource, sights in (
                (WORKLOADS, workload_sights),
                (JOBS, job_sights),
                (CLUSTER_QUEUES, queue_sights),
                (PODS, self._pod_sights),
            ):
                self._tasks.create_task(self._informer(resource, sights).run())

    async def until(self, awaited: Awaited) -> None:
        """Wait until that has been seen, ever."""
        while not any(awaited.matches(each.sight) for each in self.seen):
            self._news.clear()
            await self._news.wait()

    def _informer(self, resource: Resource, sights: Sights) -> Informer[Json]:
        def observe(old: Json | None, new: Json | None) -> None:
            self._see(sights(old, new))

        informer: Informer[Json] = Informer(self._client, resource)
        informer.observe(observe)
        return informer

    def _see(self, sights: Iterable[Sight]) -> None:
        for each in sights:
            if repeated(self.seen, each):
                continue
            seen = Seen(time.monotonic() - self._start, each)
            self.seen.append(seen)
            self._tell(seen)
            self._news.set()

    def _pod_sights(self, old: Json | None, new: Json | None) -> Iterator[Sight]:
        """Nothing yet: a pod that begins to run is listened to from then on."""
        if new is not None and _running(new) and not _running(old) and owner(new) in self._told:
            assert self._tasks is not None
            self._tasks.create_task(self._listen(new))
        return iter(())

    async def _listen(self, pod: Json) -> None:
        rest = b""
        with suppress(KubeError):
            async with aclosing(self._client.log(key_of(pod), LogOptions(follow=True))) as chunks:
                async for chunk in chunks:
                    *lines, rest = (rest + chunk).split(b"\n")
                    self._see(Sight(owner(pod), What.SAYS, each.decode()) for each in lines)


def _running(pod: Json | None) -> bool:
    return ((pod or {}).get("status") or {}).get("phase") == "Running"
