# SPDX-License-Identifier: Apache-2.0
"""Workloads that need more quota than could be made available, so that they are not retried.

Whenever quota is released, Kueue tries every parked workload of the tree again. Most are refused as
before, and with many different ones waiting in a queue that is nearly all the work there is. Here a
class of workloads stays parked as long as more than can possibly be had is asked of every flavor:
more than is free, plus all that its victims could give. Whoever stays would have been refused.
The same test spares heads of queues a turn when others have taken the released quota before them.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Callable, Mapping
from typing import NamedTuple

from .amounts import FlavorResource
from .assignment import Attempt, Mode, Possibility
from .candidates import NEVER, max_victim_priority
from .decisions import Wait, Why
from .model import ClusterQueue, ResourceGroup
from .reasons import Cause, WaitReason
from .snapshot import Queue
from .tree import Node, available

Need = tuple[int, FlavorResource, int]
"""A priority, a column, and the amount that a workload of this priority needs."""

Needs = tuple[Need, ...]
"""Attaining any of these justifies a retry. If empty, only a change of policies does."""


class Refusal(NamedTuple):
    """Why a class was refused, and what it needs."""

    reason: WaitReason
    needs: Needs


UpperBound = Callable[[int, FlavorResource], int]
"""The most that a workload of this priority could attain of a column, with preemption."""

Attainable = Callable[[int, FlavorResource, int], bool]
"""Whether somebody of a priority could get an amount of a column."""

_QUOTA = frozenset({Cause.EXCEEDS_MAX, Cause.INSUFFICIENT})


class UnsatisfiableClasses:
    """Unsatisfiable scheduling classes, by what they need.

    A class has one entry for each of its needs, and they come and go together. What a class needs
    is remembered when it is taken out, until it is dropped.
    """

    def __init__(self) -> None:
        self._classes: dict[str, Refusal] = {}
        self._by_need: dict[tuple[int, FlavorResource], list[tuple[int, str]]] = {}
        self._satisfiable: dict[str, Refusal] = {}

    def __contains__(self, scheduling_hash: str) -> bool:
        return scheduling_hash in self._classes

    def reason(self, scheduling_hash: str) -> WaitReason | None:
        known = self._classes.get(scheduling_hash)
        return known.reason if known is not None else None

    def put(self, scheduling_hash: str, refusal: Refusal) -> None:
        """Add a class, in place of what was known of it before."""
        self.drop(scheduling_hash)
        self._classes[scheduling_hash] = refusal
        for priority, column, amount in refusal.needs:
            insort(self._by_need.setdefault((priority, column), []), (amount, scheduling_hash))

    def refused_again(self, scheduling_hash: str, attainable: Attainable) -> Refusal | None:
        """How a class that was taken out would be refused now; None if it has to be tried."""
        known = self._satisfiable.get(scheduling_hash)
        if known is None:
            return None
        if any(attainable(*need) for need in known.needs):
            return None
        return known

    def drop(self, scheduling_hash: str) -> None:
        """Forget a class, if it is known."""
        self._take_out(scheduling_hash)
        self._satisfiable.pop(scheduling_hash, None)

    def _take_out(self, scheduling_hash: str) -> None:
        known = self._classes.pop(scheduling_hash, None)
        if known is None:
            return
        self._satisfiable[scheduling_hash] = known
        for priority, column, amount in known.needs:
            entries = self._by_need[priority, column]
            del entries[bisect_left(entries, (amount, scheduling_hash))]
            if not entries:
                del self._by_need[priority, column]

    def freed(self, upper_bound: UpperBound) -> list[str]:
        """Remove and return the classes whose needs may be attainable now."""
        found: dict[str, None] = {}
        for (priority, column), entries in self._by_need.items():
            most = upper_bound(priority, column)
            for amount, scheduling_hash in entries:
                if amount > most:
                    break
                found[scheduling_hash] = None
        for scheduling_hash in found:
            self._take_out(scheduling_hash)
        return list(found)

    def clear(self) -> list[str]:
        """Take out and forget every class."""
        found = list(self._classes)
        self._classes.clear()
        self._by_need.clear()
        self._satisfiable.clear()
        return found


def needs_of(wait: Wait, spec: ClusterQueue) -> Needs | None:
    """Return what would justify a retry; None if any release of quota might.

    This is determined only for rejections that follow from a single pod set and that reserve no
    capacity for the workload. Otherwise even a failed retry has an effect.
    """
    assignment, workload = wait.assignment, wait.workload
    if assignment is None or not _holds_nothing(wait, spec) or len(workload.pod_sets) != 1:
        return None
    (pod_set,) = workload.pod_sets
    if pod_set.min_count is not None or pod_set.topology is not None or workload.replaces:
        return None
    attempts = {each.flavor: each for part in assignment.pod_sets for each in part.attempts}
    for group in spec.groups:
        if all(_refused(attempts.get(flavor)) for flavor in group.flavors):
            return _needs(workload.priority, group, attempts)
    return None


def _holds_nothing(wait: Wait, spec: ClusterQueue) -> bool:
    if wait.why is Why.NO_FIT:
        return True
    return wait.why is Why.NO_CANDIDATES and spec.preemption.reclaim_within_cohort == "Any"


def _refused(attempt: Attempt | None) -> bool:
    if attempt is None:
        return False
    return attempt.mode is Mode.NO_FIT or attempt.preemption == str(Possibility.NO_CANDIDATES)


def _needs(priority: int, group: ResourceGroup, attempts: Mapping[str, Attempt]) -> Needs:
    """Return one need for each flavor that was rejected for lack of quota."""
    found = []
    for flavor in group.flavors:
        for reason in attempts[flavor].reasons:
            if reason.cause in _QUOTA:
                found.append((priority, reason.column, reason.asked))
                break
    return tuple(found)


class AttainableQuota:
    """Upper bounds of what workloads could get in the trees as they are now.

    Use it up before anything changes. With `fair` sharing, who gives quota back is a matter of
    shares and not of nominal quota.
    """

    def __init__(self, queues: Mapping[str, Queue], *, fair: bool) -> None:
        self._queues = queues
        self._fair = fair
        self._borrowed_usage: dict[tuple[str, FlavorResource], int] = {}

    def attainable(self, name: str, priority: int, column: FlavorResource, amount: int) -> bool:
        """Whether the amount is within `upper_bound`, which is found only if it is not free."""
        if amount <= available(self._queues[name].node.cell(column)):
            return True
        return amount <= self.upper_bound(name, priority, column)

    def upper_bound(self, name: str, priority: int, column: FlavorResource) -> int:
        """The most of a column that is free or that preemption could free."""
        queue = self._queues[name]
        node, rules = queue.node, queue.spec.preemption
        cell = node.cell(column)
        most_important = max_victim_priority(rules.within_cluster_queue, priority)
        own = queue.running.use_up_to(most_important, column)
        total = available(cell) + own
        if node.parent is not None and rules.reclaim_within_cohort not in NEVER:
            reclaimed = total + self._borrowers(node.root, column)
            if not (self._fair or rules.borrow_within_cohort):
                reclaimed = min(reclaimed, _entitlement(node, column, own))
            total = max(total, reclaimed)
        return min(total, cell.potential)

    def _borrowers(self, root: Node, column: FlavorResource) -> int:
        """Return the usage of queues above nominal quota; no other queue has to give quota back."""
        found = self._borrowed_usage.get((root.name, column))
        if found is None:
            cells = (self._queues[name].node.cells.get(column) for name in root.leaf_names)
            found = sum(cell.used for cell in cells if cell and cell.used > cell.nominal)
            self._borrowed_usage[root.name, column] = found
        return found


def _entitlement(node: Node, column: FlavorResource, own: int) -> int:
    """The most for which other queues have to give quota back to a queue that must not borrow.

    It is what the queue's nominal quota holds once its `own` victims are gone, which counts only
    while it is not used up, or what a cohort around the queue could hold within its quota.
    """
    cell = node.cell(column)
    left = cell.nominal - cell.used
    most = left + own if left > 0 else 0
    spare = cell.free
    for cohort in node.ancestors():
        if cohort.parent is not None:
            cell = cohort.cell(column)
            most = max(most, cell.subtree - cell.used + spare)
            spare += cell.free
    return most
