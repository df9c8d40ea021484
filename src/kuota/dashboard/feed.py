# SPDX-License-Identifier: Apache-2.0
"""Follows the objects of the server while somebody views them, and counts their changes in ticks.

All viewers share one set of informers, which starts with the first viewer and stops some time after
the last one. Changes are collected for a fifth of a second. Such a tick records which Workloads
look different, so that a viewer who has seen all ticks up to one needs only the rows since then: no
viewer has a queue of its own, and a slow one skips intermediate states.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager

import msgspec

from kuota.api.base import Json, Key
from kuota.failures import retried, tolerated
from kuota.kube.client import Client
from kuota.kube.informer import Informer
from kuota.kube.resources import (
    ADMISSION_CHECKS,
    CLUSTER_QUEUES,
    COHORTS,
    LOCAL_QUEUES,
    NODES,
    PODS,
    RESOURCE_FLAVORS,
    TOPOLOGIES,
    WORKLOAD_PRIORITY_CLASSES,
    WORKLOADS,
    Resource,
    key_of,
)
from kuota.view.observed import ObservedState

TICK_S = 0.2
"""The time between two ticks, and so the least time between two events of a stream."""
LINGER_S = 60.0
"""How long the objects are followed after the last viewer left. A reload then costs nothing."""
TICKS = 100
"""The number of ticks whose changes are known. A slower viewer gets everything again."""
FOLLOWED: tuple[Resource, ...] = (
    TOPOLOGIES,
    RESOURCE_FLAVORS,
    ADMISSION_CHECKS,
    WORKLOAD_PRIORITY_CLASSES,
    COHORTS,
    CLUSTER_QUEUES,
    LOCAL_QUEUES,
    NODES,
    PODS,
    WORKLOADS,
)


class Tick(msgspec.Struct, frozen=True):
    """Changes of one tick: the Workloads that look different, and the kinds that changed."""

    number: int
    rows: frozenset[Key]
    kinds: frozenset[str]


class Feed:
    """The shared state. `state` is rebuilt by every start, so keep no reference to it."""

    def __init__(
        self,
        client: Client,
        new_state: Callable[[], ObservedState],
        *,
        linger_s: float = LINGER_S,
    ) -> None:
        self._client = client
        self._new_state = new_state
        self._linger_s = linger_s
        self.state = new_state()
        self.tick = 0
        """The number of the last tick."""
        self.viewers = 0
        self.on_rows: list[Callable[[Iterable[Key]], None]] = []
        """Called at once with Workloads that look different, not only at the end of the tick."""
        self._ticks: deque[Tick] = deque(maxlen=TICKS)
        self._rows: set[Key] = set()
        self._kinds: set[str] = set()
        self._moved = asyncio.Event()
        self._timer: asyncio.TimerHandle | None = None
        self._tasks: list[asyncio.Task[None]] = []
        self._ready: asyncio.Task[None] | None = None
        self._stopping: asyncio.TimerHandle | None = None

    @asynccontextmanager
    async def viewing(self) -> AsyncIterator[None]:
        """Follow the objects for the time of the block. Begins when all of them are known."""
        self.viewers += 1
        if self._stopping is not None:
            self._stopping.cancel()
            self._stopping = None
        try:
            if self._ready is None:
                self._start()
            assert self._ready is not None
            await asyncio.shield(self._ready)
            yield
        finally:
            self.viewers -= 1
            if not self.viewers:
                loop = asyncio.get_running_loop()
                self._stopping = loop.call_later(self._linger_s, self._stop)

    async def close(self) -> None:
        """Stop following."""
        tasks = list(self._tasks)
        self._stop()
        await asyncio.gather(*tasks, return_exceptions=True)

    def changes(self, since: int) -> tuple[frozenset[Key], frozenset[str]] | None:
        """Return changed Workloads and kinds since a tick; None if that is too long ago."""
        if since >= self.tick:
            return frozenset(), frozenset()
        if not self._ticks or self._ticks[0].number > since + 1:
            return None
        new = [each for each in self._ticks if each.number > since]
        rows = frozenset[Key]().union(*(each.rows for each in new))
        return rows, frozenset[str]().union(*(each.kinds for each in new))

    async def wait(self, since: int, timeout_s: float) -> bool:
        """Wait for a tick after this one. False after the timeout."""
        if self.tick > since:
            return True
        try:
            async with asyncio.timeout(timeout_s):
                await self._moved.wait()
        except TimeoutError:
            return False
        return True

    def _start(self) -> None:
        self.state = self._new_state()
        informers = [Informer[Json](self._client, each) for each in FOLLOWED]
        for each in informers:
            each.observe(tolerated("dashboard", self._observer(each.resource.kind)))
            work = retried("dashboard", each.run)
            self._tasks.append(asyncio.create_task(work))
        self._ready = asyncio.create_task(self._settled(informers))
        self._tasks.append(self._ready)

    async def _settled(self, informers: list[Informer[Json]]) -> None:
        """Wait until every kind was listed, or is known not to be served."""
        for each in informers:
            await each.settled.wait()
        if self._timer is not None:
            # What was listed belongs to the first snapshot, not to a change after it.
            self._timer.cancel()
            self._end_tick()

    def _stop(self) -> None:
        for each in self._tasks:
            each.cancel()
        self._tasks, self._ready, self._stopping = [], None, None
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self.state = self._new_state()
        self._rows, self._kinds = set(), set()
        # Nobody has seen anything of what the next start reads.
        self._ticks.clear()
        self.tick += 1

    def _observer(self, kind: str) -> Callable[[Json | None, Json | None], None]:
        state = self.state

        def changed(old: Json | None, new: Json | None) -> None:
            if state is not self.state:
                return  # A task that is being cancelled.
            if new is not None:
                rows = state.put(new)
            else:
                assert old is not None
                rows = state.drop(kind, key_of(old))
            self._changed(rows, kind)

        return changed

    def _changed(self, rows: frozenset[Key], kind: str) -> None:
        for observer in self.on_rows if rows else ():
            observer(rows)
        self._rows |= rows
        self._kinds.add(kind)
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(TICK_S, self._end_tick)

    def _end_tick(self) -> None:
        self._timer = None
        self.tick += 1
        self._ticks.append(Tick(self.tick, frozenset(self._rows), frozenset(self._kinds)))
        self._rows, self._kinds = set(), set()
        moved, self._moved = self._moved, asyncio.Event()
        moved.set()
