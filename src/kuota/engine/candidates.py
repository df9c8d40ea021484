# SPDX-License-Identifier: Apache-2.0
"""Preemption candidates: which workloads a preemptor may displace, and in which order.

This module contains what both searches share: the request, the eligibility test, the order of
candidates, and the removal of unnecessary victims. Candidates are produced lazily, because a search
usually ends after the first few.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from functools import cmp_to_key
from heapq import merge

import msgspec

from .amounts import Amounts, FlavorResource
from .charged import ChargedWorkload, by_rank
from .model import Workload
from .policy import Policy
from .ranking import queue_timestamp
from .reasons import PreemptionReason
from .snapshot import Queue, Snapshot
from .tree import available

ANY = "Any"
LOWER = "LowerPriority"
LOWER_OR_NEWER = "LowerOrNewerEqualPriority"
POLICIES = frozenset((ANY, LOWER, LOWER_OR_NEWER))
NEVER = ("Never", "")
"""Policies that forbid preemption: set to Never, or not set."""


class Target(msgspec.Struct, frozen=True):
    """A running workload to preempt, and the reason."""

    running: ChargedWorkload
    reason: PreemptionReason


class PreemptionRequest:
    """A workload that needs quota, and how much. `needed` are the columns that do not fit now.

    Columns with a requested amount of zero are ignored, even if their usage exceeds the quota.
    `placement` is an additional test of the snapshot, applied after the quota fits.
    """

    __slots__ = ("_cells", "amounts", "needed", "placement", "queue", "snapshot", "workload")

    def __init__(
        self,
        workload: Workload,
        queue: Queue,
        needed: frozenset[FlavorResource],
        amounts: Amounts,
        snapshot: Snapshot,
        placement: Callable[[], bool] | None = None,
    ) -> None:
        self.workload = workload
        self.queue = queue
        self.needed = needed
        self.amounts = {column: amount for column, amount in amounts.items() if amount}
        self.snapshot = snapshot
        self.placement = placement
        cell = queue.node.cell
        self._cells = [(cell(column), amount) for column, amount in self.amounts.items()]

    def fits(self, borrowing: bool = True) -> bool:
        """Whether the whole request fits now; without `borrowing`, also within nominal quota."""
        for cell, amount in self._cells:
            if amount > 0 and amount > available(cell):
                return False
            if not borrowing and cell.borrows_with(amount):
                return False
        return self.placement is None or self.placement()


def may_preempt(rule: str, candidate: Workload, preemptor: Workload, policy: Policy) -> bool:
    """Whether a preemption policy allows the preemptor to preempt the candidate.

    An unset policy does not allow it.
    """
    if rule == ANY:
        return True
    if rule not in POLICIES:
        return False
    if candidate.priority != preemptor.priority or rule == LOWER:
        return candidate.priority < preemptor.priority
    return queue_timestamp(candidate, policy) > queue_timestamp(preemptor, policy)


def max_victim_priority(rule: str, preemptor: int) -> float:
    """Return the highest priority that a preemptor may preempt under this policy."""
    if rule == ANY:
        return math.inf
    if rule not in POLICIES:
        return -math.inf
    return preemptor - (rule == LOWER)


def candidates_in(
    queue: Queue, rule: str, request: PreemptionRequest, *, leaving: bool, max_priority: float
) -> Iterator[ChargedWorkload]:
    """Yield the candidates of a queue by rank: evicted ones if `leaving`, otherwise the others.

    A candidate uses a column that the request lacks, the policy allows its preemption, and its
    priority is at most `max_priority`, which must not exceed `max_victim_priority` of the policy.
    The slice that an elastic preemptor replaces is never a candidate.
    """
    snapshot, needed, preemptor = request.snapshot, request.needed, request.workload
    for running in queue.running.ranked(leaving):
        workload = running.workload
        if workload.priority > max_priority:
            return
        if (
            not needed.isdisjoint(running.usage.quota)
            and not snapshot.gone(running)
            and workload.key != preemptor.replaces
            and (rule == ANY or may_preempt(rule, workload, preemptor, snapshot.policy))
        ):
            yield running


def has_candidates(queue: Queue, rule: str, request: PreemptionRequest) -> bool:
    """Whether the queue has any candidate."""
    max_priority = max_victim_priority(rule, request.workload.priority)
    for leaving in (False, True):
        line = queue.running.ranked(leaving)
        if line and line[0].workload.priority <= max_priority:
            for _ in candidates_in(
                queue, rule, request, leaving=leaving, max_priority=max_priority
            ):
                return True
    return False


def merged_candidates(
    queues: Iterable[Queue],
    rule: str,
    request: PreemptionRequest,
    *,
    leaving: bool,
    max_priority: float,
) -> Iterator[ChargedWorkload]:
    """Merge `candidates_in` of several queues into one sequence, first victim first."""
    lines = [
        candidates_in(queue, rule, request, leaving=leaving, max_priority=max_priority)
        for queue in queues
        if queue.running.ranked(leaving)
    ]
    if request.snapshot.policy.admission_fair_sharing is not None:
        return iter(sorted_candidates((each for line in lines for each in line), request))
    return lines[0] if len(lines) == 1 else merge(*lines, key=by_rank)


def sorted_candidates(
    candidates: Iterable[ChargedWorkload], request: PreemptionRequest
) -> list[ChargedWorkload]:
    """Sort candidates of any queues, first victim first, by the usage of LocalQueues as well.

    Evicted workloads come first, then those of other queues, then, within one queue, those of the
    LocalQueue with the higher usage, then by rank. As in Kueue, this is not a total order if
    several queues use admission fair sharing.
    """
    home, snapshot = request.queue.name, request.snapshot

    def compared(one: ChargedWorkload, other: ChargedWorkload) -> int:
        mine = (not one.leaving, one.queue == home)
        theirs = (not other.leaving, other.queue == home)
        if mine == theirs and _compare_by_usage(one, other, snapshot):
            heavy = snapshot.local_queue_usage(one.workload.local_queue)
            light = snapshot.local_queue_usage(other.workload.local_queue)
            if heavy != light:
                return -1 if heavy > light else 1
        return -1 if (mine, one.rank) < (theirs, other.rank) else 1

    return sorted(candidates, key=cmp_to_key(compared))


def _compare_by_usage(one: ChargedWorkload, other: ChargedWorkload, snapshot: Snapshot) -> bool:
    return (
        snapshot.policy.admission_fair_sharing is not None
        and one.queue == other.queue
        and one.workload.queue != other.workload.queue
        and snapshot.queues[one.queue].spec.usage_based
    )


def fill_back(
    victims: list[Target], request: PreemptionRequest, borrowing: bool = True
) -> tuple[Target, ...]:
    """Return the victims without those that are not needed.

    Victims are tested from the last but one to the first. All of them must be removed from the
    snapshot; those that are not needed are restored. The last victim always stays and takes the
    position of a restored one.
    """
    for index in range(len(victims) - 2, -1, -1):
        running = victims[index].running
        request.snapshot.restore(running)
        if request.fits(borrowing):
            victims[index] = victims[-1]
            victims.pop()
        else:
            request.snapshot.remove(running)
    return tuple(victims)
