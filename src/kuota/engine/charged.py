# SPDX-License-Identifier: Apache-2.0
"""The workloads with reserved quota in one queue, in the order of preemption, and their usage.

A search for victims looks at the first few of many workloads, in every borrowing queue, for every
blocked head. So each queue keeps its workloads in this order once it was requested. Totals are
updated incrementally, so that the cost of reading them does not depend on the number of workloads.
"""

from __future__ import annotations

import math
from bisect import bisect_left, insort
from collections.abc import Iterable
from collections.abc import Set as AbstractSet
from enum import IntEnum
from operator import attrgetter
from typing import TypeVar

from msgspec.structs import replace

from kuota.api.base import Key

from .amounts import Amounts, FlavorResource
from .model import Instant, Reservation, Workload
from .usage import Usage, same_places


class ChargePhase(IntEnum):
    """The progress of a charged workload. Integers, because other enums are slow as dict keys."""

    ASSUMED = 0
    RESERVED = 1
    ADMITTED = 2


_STORED = (ChargePhase.RESERVED, ChargePhase.ADMITTED)


class ChargedWorkload:
    """A charged workload, its queue and its usage. Immutable: a change creates a new one.

    `rank` orders candidates that are otherwise equal: lower priority first, then the latest
    reservation (without a time: just now), then by UID. A workload is `assumed` to have quota until
    the API server has stored its reservation. It is `leaving` if it is evicted, or if its eviction
    was decided (`evicting`), but it has not released its quota yet.
    """

    __slots__ = ("assumed", "key", "leaving", "phase", "queue", "rank", "usage", "workload")

    def __init__(
        self,
        workload: Workload,
        queue: str,
        usage: Usage,
        *,
        assumed: bool = False,
        evicting: bool = False,
    ) -> None:
        self.workload = workload
        self.key = workload.key
        self.assumed = assumed
        self.leaving = evicting or workload.evicted is not None
        stored = ChargePhase.ADMITTED if workload.admitted else ChargePhase.RESERVED
        self.phase = ChargePhase.ASSUMED if assumed else stored
        self.queue = queue
        self.usage = usage
        since = self.reserved_at
        newest_first = -math.inf if since is None else -since
        self.rank = (workload.priority, newest_first, workload.uid, workload.key)

    @property
    def reserved_at(self) -> Instant | None:
        return self.workload.reservation.since if self.workload.reservation else None

    def uses(self, columns: AbstractSet[FlavorResource]) -> bool:
        """Whether it uses any of these columns, even if the amount is zero."""
        return not columns.isdisjoint(self.usage.quota)

    def __repr__(self) -> str:
        return f"ChargedWorkload({self.key} in {self.queue})"


K = TypeVar("K")

by_rank = attrgetter("rank")


class UsageTotal:
    """The number of workloads and their total usage."""

    __slots__ = ("amounts", "count")

    def __init__(self) -> None:
        self.count = 0
        self.amounts: Amounts = {}


class ChargedWorkloads(dict[Key, ChargedWorkload]):
    """The workloads of one queue by key. Change it only by assigning and deleting items."""

    __slots__ = ("_by_local_queue", "_by_priority", "_ranked")

    def __init__(self) -> None:
        super().__init__()
        self._ranked: tuple[list[ChargedWorkload], list[ChargedWorkload]] | None = None
        self._by_priority: dict[tuple[int, ChargePhase], UsageTotal] = {}
        self._by_local_queue: dict[tuple[str, str, ChargePhase], UsageTotal] = {}

    def total(self, local_queue: Key | None = None, *, admitted: bool = False) -> UsageTotal:
        """Return the totals of workloads with a stored reservation, of all or of one LocalQueue.

        With `admitted`, only admitted workloads count.
        """
        return self._total((ChargePhase.ADMITTED,) if admitted else _STORED, local_queue)

    def assumed(self, local_queue: Key | None = None) -> int:
        """Return the number of workloads whose reservation is not stored yet."""
        return self._total((ChargePhase.ASSUMED,), local_queue).count

    def _total(self, phases: tuple[ChargePhase, ...], local_queue: Key | None) -> UsageTotal:
        if local_queue is None:
            return _sum(each for (_, phase), each in self._by_priority.items() if phase in phases)
        namespace, name = local_queue.namespace, local_queue.name
        parts = (self._by_local_queue.get((namespace, name, phase)) for phase in phases)
        return _sum(each for each in parts if each is not None)

    def use_up_to(self, priority: float, column: FlavorResource) -> int:
        """Return the usage of a column by workloads of at most this priority."""
        return sum(
            total.amounts.get(column, 0)
            for (each, _), total in self._by_priority.items()
            if each <= priority
        )

    def ranked(self, leaving: bool) -> list[ChargedWorkload]:
        """Return the leaving workloads, or the others, by rank. The result is read-only."""
        ranked = self._ranked
        if ranked is None:
            everyone = sorted(self.values(), key=by_rank)
            ranked = self._ranked = (
                [each for each in everyone if not each.leaving],
                [each for each in everyone if each.leaving],
            )
        return ranked[leaving]

    def __setitem__(self, key: Key, running: ChargedWorkload) -> None:
        before = self.get(key)
        if before is None:
            self._count(running, 1)
        elif not _counts_alike(before, running):
            self._count(before, -1)
            self._count(running, 1)
        if self._ranked is not None:
            if before is not None:
                self._remove_ranked(before)
            insort(self._ranked[running.leaving], running, key=by_rank)
        super().__setitem__(key, running)

    def __delitem__(self, key: Key) -> None:
        running = self[key]
        self._count(running, -1)
        if self._ranked is not None:
            self._remove_ranked(running)
        super().__delitem__(key)

    def _remove_ranked(self, running: ChargedWorkload) -> None:
        assert self._ranked is not None
        ranked = self._ranked[running.leaving]
        del ranked[bisect_left(ranked, running.rank, key=by_rank)]

    def _count(self, running: ChargedWorkload, sign: int) -> None:
        workload, usage, phase = running.workload, running.usage.quota, running.phase
        _add(self._by_priority, (workload.priority, phase), usage, sign)
        place = (workload.key.namespace, workload.queue, phase)
        _add(self._by_local_queue, place, usage, sign)


def _counts_alike(one: ChargedWorkload, other: ChargedWorkload) -> bool:
    """Whether replacing one workload with the other leaves all totals unchanged."""
    a, b = one.workload, other.workload
    return (
        one.usage is other.usage
        and one.phase is other.phase
        and a.priority == b.priority
        and a.queue == b.queue
    )


def same_charge(running: ChargedWorkload, reservation: Reservation) -> bool:
    """Whether the workload is charged for this reservation: its queue, quota and places."""
    return (
        running.queue == reservation.cluster_queue
        and running.usage.quota == reservation.usage
        and same_places(running.workload.reservation, reservation)
    )


def equal_for_decisions(before: ChargedWorkload, after: ChargedWorkload) -> bool:
    """Whether the two differ at most in the time of an assumed reservation.

    The caller has compared their usage.
    """
    old, new = before.workload, after.workload
    if not before.assumed or old.reservation is None or new.reservation is None:
        return old == new
    if old.reservation.pod_sets != new.reservation.pod_sets:
        return False
    return old == replace(new, reservation=old.reservation)


def _add(totals: dict[K, UsageTotal], at: K, usage: Amounts, sign: int) -> None:
    total = totals.get(at)
    if total is None:
        total = totals[at] = UsageTotal()
    total.count += sign
    if not total.count:
        del totals[at]
        return
    amounts = total.amounts
    for column, amount in usage.items():
        amounts[column] = amounts.get(column, 0) + sign * amount


def _sum(totals: Iterable[UsageTotal]) -> UsageTotal:
    total = UsageTotal()
    for each in totals:
        total.count += each.count
        for column, amount in each.amounts.items():
            total.amounts[column] = total.amounts.get(column, 0) + amount
    return total
