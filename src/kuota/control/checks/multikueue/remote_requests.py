# SPDX-License-Identifier: Apache-2.0
"""Requests to worker clusters, none of which a pass waits for longer than a moment.

A cluster may take seconds for a request. A pass that waited for it would delay its Workload, which
another cluster may have admitted already, and occupy a worker of the dispatcher. So requests that
take longer continue on their own, and their end causes another pass. Until then, passes send
nothing to that cluster about the same Workload.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import NamedTuple

from kuota.api.base import Key

PATIENCE_S = 0.25
"""How long a pass waits for clusters."""
AT_ONCE = 32
"""How many Workloads have requests to one cluster at the same time. Others wait for their turn."""

Call = Callable[[], Awaitable[None]]


class RemoteResults(NamedTuple):
    """What failed, by cluster, and the clusters whose requests have not ended."""

    failed: dict[str, Exception]
    busy: frozenset[str]


class RemoteRequests:
    """The requests in progress, as tasks of `group`, which must be set before the first one.

    `ended` is called with a Workload whose requests took longer. A request that raises an Exception
    has failed. Anything else that it raises, such as `Fatal`, ends the group.
    """

    def __init__(self, ended: Callable[[Key], None]) -> None:
        self.group: asyncio.TaskGroup | None = None
        self._ended = ended
        self._running: dict[tuple[Key, str], asyncio.Task[Exception | None]] = {}
        self._late: dict[Key, dict[str, Exception]] = {}
        self._slots: dict[str, asyncio.Semaphore] = defaultdict(partial(asyncio.Semaphore, AT_ONCE))

    async def run(
        self, key: Key, calls: Mapping[str, Call], done: Callable[[str], None]
    ) -> RemoteResults:
        """Begin the call of each cluster, unless an earlier one has not ended, and wait a moment.

        `done` is called with each cluster whose call succeeds, at once or later. Failures of
        earlier calls that ended since the last pass are returned as well.
        """
        late, busy = self._late.pop(key, {}), set[str]()
        begun: dict[str, asyncio.Task[Exception | None]] = {}
        for name, call in calls.items():
            if (key, name) in self._running:
                busy.add(name)
            else:
                begun[name] = self._begin(key, name, call, done)
        if begun:
            await asyncio.wait(begun.values(), timeout=PATIENCE_S)
        failed = {name: why for name, why in late.items() if name not in calls}
        for name, task in begun.items():
            if not task.done():
                busy.add(name)
                task.add_done_callback(partial(self._ended_late, key, name))
            elif (why := task.result()) is not None:
                failed[name] = why
        return RemoteResults(failed, frozenset(busy))

    def busy(self, key: Key) -> bool:
        """Whether a request about a Workload has not ended."""
        return any(each == key for each, _ in self._running)

    def forget(self, key: Key) -> None:
        """Forget how earlier requests about a Workload ended."""
        self._late.pop(key, None)

    def _begin(
        self, key: Key, name: str, call: Call, done: Callable[[str], None]
    ) -> asyncio.Task[Exception | None]:
        async def attempt() -> Exception | None:
            try:
                async with self._slots[name]:
                    await call()
                done(name)
            except Exception as error:
                return error
            return None

        assert self.group is not None, "requests are sent only while the dispatcher runs"
        task = self.group.create_task(attempt())
        self._running[key, name] = task
        task.add_done_callback(lambda _: self._running.pop((key, name), None))
        return task

    def _ended_late(self, key: Key, name: str, task: asyncio.Task[Exception | None]) -> None:
        if task.cancelled() or task.exception() is not None:
            return  # The group ends.
        why = task.result()
        if why is not None:
            self._late.setdefault(key, {})[name] = why
        self._ended(key)
