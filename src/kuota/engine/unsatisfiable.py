# SPDX-License-Identifier: Apache-2.0
"""Unsatisfiable workloads: they need more quota than is attainable, so they are not retried.

Whenever quota is released, Kueue retries every inadmissible workload of the tree. Most of them are
rejected again, and with many different workloads this is most of the work of a scheduler. Here a
class of workloads stays inadmissible while its needs exceed what is attainable in every flavor:
the available quota plus the usage of all possible victims. A retry would be rejected in any case.
The same test skips heads of queues if other workloads have taken the released quota.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Callable, Mapping
from typing import NamedTuple

from .amounts import FlavorResource
from .assignment import AssignmentMode, FlavorAttempt, PreemptionPossibility
from .candidates import NEVER, max_victim_priority
from .decisions import Wait, WaitCause
from .model import ClusterQueue, ResourceGroup
from .reasons import RejectionCause, WaitReason
from .snapshot import Queue
from .tree import QuotaNode, available

Need = tuple[int, FlavorResource, int]
"""A priority, a column, and the amount that a workload of this priority needs."""

Needs = tuple[Need, ...]
"""Needs of which any attainable one justifies a retry. If empty, only a policy change does."""


class ClassRejection(NamedTuple):
    """Why a class was rejected, and what it needs."""

    reason: WaitReason
    needs: Needs


UpperBound = Callable[[int, FlavorResource], int]
"""Returns the maximum of a column that a workload of this priority could get, with preemption."""

Attainable = Callable[[int, FlavorResource, int], bool]
"""Whether a workload of this priority could get this amount of a column."""

_QUOTA = frozenset({RejectionCause.EXCEEDS_MAX, RejectionCause.INSUFFICIENT})


class UnsatisfiableClasses:
    """Unsatisfiable scheduling classes, indexed by their needs.

    A class has one entry for each of its needs; all are added and removed together. The needs of a
    class that became satisfiable are kept until it is dropped.
    """

    def __init__(self) -> None:
        self._classes: dict[str, ClassRejection] = {}
        self._by_need: dict[tuple[int, FlavorResource], list[tuple[int, str]]] = {}
        self._satisfiable: dict[str, ClassRejection] = {}

    def __contains__(self, scheduling_hash: str) -> bool:
        return scheduling_hash in self._classes

    @property
    def any_satisfiable(self) -> bool:
        """Whether the needs of a class that became satisfiable are kept."""
        return bool(self._satisfiable)

    def reason(self, scheduling_hash: str) -> WaitReason | None:
        known = self._classes.get(scheduling_hash)
        return known.reason if known is not None else None

    def put(self, scheduling_hash: str, rejection: ClassRejection) -> None:
        """Add a class and replace its earlier needs."""
        self.drop(scheduling_hash)
        self._classes[scheduling_hash] = rejection
        for priority, column, amount in rejection.needs:
            insort(self._by_need.setdefault((priority, column), []), (amount, scheduling_hash))

    def rejected_again(self, scheduling_hash: str, attainable: Attainable) -> ClassRejection | None:
        """Return how a satisfiable class would be rejected now; None if it must be tried."""
        known = self._satisfiable.get(scheduling_hash)
        if known is None:
            return None
        if any(attainable(*need) for need in known.needs):
            return None
        return known

    def drop(self, scheduling_hash: str) -> None:
        """Remove a class and its needs, if it is known."""
        self._make_satisfiable(scheduling_hash)
        self._satisfiable.pop(scheduling_hash, None)

    def _make_satisfiable(self, scheduling_hash: str) -> None:
        known = self._classes.pop(scheduling_hash, None)
        if known is None:
            return
        self._satisfiable[scheduling_hash] = known
        for priority, column, amount in known.needs:
            entries = self._by_need[priority, column]
            del entries[bisect_left(entries, (amount, scheduling_hash))]
            if not entries:
                del self._by_need[priority, column]

    def take_attainable(self, upper_bound: UpperBound) -> list[str]:
        """Remove and return the classes of which a need may be attainable now."""
        found: dict[str, None] = {}
        for (priority, column), entries in self._by_need.items():
            most = upper_bound(priority, column)
            for amount, scheduling_hash in entries:
                if amount > most:
                    break
                found[scheduling_hash] = None
        for scheduling_hash in found:
            self._make_satisfiable(scheduling_hash)
        return list(found)

    def clear(self) -> list[str]:
        """Remove all classes and their needs. Return the unsatisfiable ones."""
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
    if assignment is None or not _reserves_nothing(wait, spec) or len(workload.pod_sets) != 1:
        return None
    (pod_set,) = workload.pod_sets
    if pod_set.min_count is not None or pod_set.topology is not None or workload.replaces:
        return None
    if any(part.error for part in assignment.pod_sets):
        return None
    attempts = {each.flavor: each for part in assignment.pod_sets for each in part.attempts}
    for group in spec.groups:
        if all(_rejected(attempts.get(flavor)) for flavor in group.flavors):
            return _needs(workload.priority, group, attempts)
    return None


def _reserves_nothing(wait: Wait, spec: ClusterQueue) -> bool:
    if wait.why is WaitCause.NO_FIT:
        return True
    return wait.why is WaitCause.NO_CANDIDATES and spec.preemption.reclaim_within_cohort == "Any"


def _rejected(attempt: FlavorAttempt | None) -> bool:
    if attempt is None:
        return False
    return attempt.mode is AssignmentMode.NO_FIT or attempt.preemption == str(
        PreemptionPossibility.NO_CANDIDATES
    )


def _needs(priority: int, group: ResourceGroup, attempts: Mapping[str, FlavorAttempt]) -> Needs:
    """Return one need for each flavor that was rejected for lack of quota."""
    found = []
    for flavor in group.flavors:
        for reason in attempts[flavor].reasons:
            if reason.cause in _QUOTA:
                found.append((priority, reason.column, reason.asked))
                break
    return tuple(found)


class AttainableQuota:
    """Upper bounds of the quota that workloads could get in the current state of the trees.

    Results are cached, so discard the object when anything changes. With `fair` sharing, shares
    and not nominal quota determine which queues must return quota.
    """

    def __init__(self, queues: Mapping[str, Queue], *, fair: bool) -> None:
        self._queues = queues
        self._fair = fair
        self._borrowed_usage: dict[tuple[str, FlavorResource], int] = {}

    def attainable(self, name: str, priority: int, column: FlavorResource, amount: int) -> bool:
        """Whether the amount is available or within `upper_bound`."""
        if amount <= available(self._queues[name].node.cell(column)):
            return True
        return amount <= self.upper_bound(name, priority, column)

    def upper_bound(self, name: str, priority: int, column: FlavorResource) -> int:
        """Return the maximum of a column that is available or that preemption could release."""
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

    def _borrowers(self, root: QuotaNode, column: FlavorResource) -> int:
        """Return the usage of queues above nominal quota. Only such queues must return quota."""
        found = self._borrowed_usage.get((root.name, column))
        if found is None:
            cells = (self._queues[name].node.cells.get(column) for name in root.leaf_names)
            found = sum(cell.used for cell in cells if cell and cell.used > cell.nominal)
            self._borrowed_usage[root.name, column] = found
        return found


def _entitlement(node: QuotaNode, column: FlavorResource, own: int) -> int:
    """Return the largest amount for which other queues must return quota, without borrowing.

    This is the unused nominal quota of the queue, if any, plus the usage of its `own` victims; or,
    if it is more, what a cohort between the queue and the root can hold within its own quota.
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
