# SPDX-License-Identifier: Apache-2.0
"""Watches Jobs through the API, and lets the demo wait for events."""

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
    DemoEvent,
    EventType,
    Expectation,
    TimedEvent,
    job_events,
    owner,
    queue_events,
    repeated,
    workload_events,
)

Changes = Callable[[Json | None, Json | None], Iterator[DemoEvent]]


class EventLog:
    """Everything that happened so far, passed to `report` as it happens.

    `logged_jobs` names the Jobs whose log lines are events.
    """

    def __init__(
        self,
        client: Client,
        report: Callable[[TimedEvent], None],
        logged_jobs: Iterable[str],
        start: float,
    ) -> None:
        self.events: list[TimedEvent] = []
        self._client = client
        self._report = report
        self._logged_jobs = frozenset(logged_jobs)
        self._start = start
        self._arrived = asyncio.Event()
        self._tasks: asyncio.TaskGroup | None = None

    async def run(self) -> None:
        """Watch until cancelled."""
        async with asyncio.TaskGroup() as self._tasks:
            for resource, changes in (
                (WORKLOADS, workload_events),
                (JOBS, job_events),
                (CLUSTER_QUEUES, queue_events),
                (PODS, self._pod_events),
            ):
                self._tasks.create_task(self._informer(resource, changes).run())

    async def until(self, expectation: Expectation) -> None:
        """Wait until the expected event has occurred; events of the past count."""
        while not any(expectation.matches(each.event) for each in self.events):
            self._arrived.clear()
            await self._arrived.wait()

    def _informer(self, resource: Resource, changes: Changes) -> Informer[Json]:
        def observe(old: Json | None, new: Json | None) -> None:
            self._add(changes(old, new))

        informer: Informer[Json] = Informer(self._client, resource)
        informer.observe(observe)
        return informer

    def _add(self, changes: Iterable[DemoEvent]) -> None:
        for each in changes:
            if repeated(self.events, each):
                continue
            timed = TimedEvent(time.monotonic() - self._start, each)
            self.events.append(timed)
            self._report(timed)
            self._arrived.set()

    def _pod_events(self, old: Json | None, new: Json | None) -> Iterator[DemoEvent]:
        """Yields no events, but starts to follow the log of a pod that begins to run."""
        if (
            new is not None
            and _running(new)
            and not _running(old)
            and owner(new) in self._logged_jobs
        ):
            assert self._tasks is not None
            self._tasks.create_task(self._listen(new))
        return iter(())

    async def _listen(self, pod: Json) -> None:
        rest = b""
        with suppress(KubeError):
            async with aclosing(self._client.log(key_of(pod), LogOptions(follow=True))) as chunks:
                async for chunk in chunks:
                    *lines, rest = (rest + chunk).split(b"\n")
                    self._add(
                        DemoEvent(owner(pod), EventType.SAYS, each.decode()) for each in lines
                    )


def _running(pod: Json | None) -> bool:
    return ((pod or {}).get("status") or {}).get("phase") == "Running"
