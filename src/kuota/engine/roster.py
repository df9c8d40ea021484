# SPDX-License-Identifier: Apache-2.0
"""Who runs in a queue, also in the order in which they would be displaced.

A search for victims looks at the first few of many, in every queue that borrows, for every head
that is blocked. So each queue keeps its workloads in that order from the first time it is asked.
"""

from __future__ import annotations

import math
from bisect import bisect_left, insort
from collections.abc import Set as AbstractSet
from operator import attrgetter

from kuota.api.base import Key

from .amounts import Amounts, FlavorResource
from .model import Instant, Workload


class Running:
    """A workload that is charged, where, and for how much. Never changed: a change is a new one.

    `rank` orders candidates that are alike otherwise: low priority first, then the latest
    reservation (one without a time was made just now), then by uid.
    """

    __slots__ = ("queue", "rank", "usage", "workload")

    def __init__(self, workload: Workload, queue: str, usage: Amounts) -> None:
        self.workload = workload
        self.queue = queue
        self.usage = usage
        since = self.reserved_at
        newest_first = -math.inf if since is None else -since
        self.rank = (workload.priority, newest_first, workload.uid, workload.key)

    @property
    def key(self) -> Key:
        return self.workload.key

    @property
    def reserved_at(self) -> Instant | None:
        return self.workload.reservation.since if self.workload.reservation else None

    @property
    def leaving(self) -> bool:
        """Whether it is evicted already, and only its quota is not free yet."""
        return self.workload.evicted is not None

    def uses(self, columns: AbstractSet[FlavorResource]) -> bool:
        """Whether it holds a flavor-resource of these, even of amount zero."""
        return not columns.isdisjoint(self.usage)

    def __repr__(self) -> str:
        return f"Running({self.key} in {self.queue})"


by_rank = attrgetter("rank")


class Roster(dict[Key, Running]):
    """The workloads of one queue by key. Changed by assigning and deleting items only."""

    __slots__ = ("_by_priority", "_lines")

    def __init__(self) -> None:
        super().__init__()
        self._lines: tuple[list[Running], list[Running]] | None = None
        self._by_priority: dict[int, Amounts] = {}

    def use_up_to(self, priority: int, column: FlavorResource) -> int:
        """What the workloads of that priority and below use of a column."""
        return sum(
            amounts.get(column, 0)
            for each, amounts in self._by_priority.items()
            if each <= priority
        )

    def line(self, leaving: bool) -> list[Running]:
        """Those that are leaving, or those that stay, by rank. Not to be changed."""
        lines = self._lines
        if lines is None:
            everyone = sorted(self.values(), key=by_rank)
            lines = self._lines = (
                [each for each in everyone if not each.leaving],
                [each for each in everyone if each.leaving],
            )
        return lines[leaving]

    def __setitem__(self, key: Key, running: Running) -> None:
        self._strike(key)
        self._count(running, 1)
        if self._lines is not None:
            insort(self._lines[running.leaving], running, key=by_rank)
        super().__setitem__(key, running)

    def __delitem__(self, key: Key) -> None:
        self._strike(key)
        super().__delitem__(key)

    def _strike(self, key: Key) -> None:
        running = self.get(key)
        if running is None:
            return
        self._count(running, -1)
        if self._lines is not None:
            line = self._lines[running.leaving]
            del line[bisect_left(line, running.rank, key=by_rank)]

    def _count(self, running: Running, sign: int) -> None:
        used = self._by_priority.setdefault(running.workload.priority, {})
        for column, amount in running.usage.items():
            left = used.get(column, 0) + sign * amount
            if left:
                used[column] = left
            else:
                used.pop(column, None)
        if not used:
            del self._by_priority[running.workload.priority]
