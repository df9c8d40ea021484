# SPDX-License-Identifier: Apache-2.0
"""What a refused workload would need, so that it is not tried again before it can be had.

Whenever quota is released, Kueue tries every parked workload of the tree again. Most are refused as
before, and with many different ones waiting in a queue that is nearly all the work there is. Here a
class of workloads stays parked as long as more than can possibly be had is asked of every flavor:
more than is free, plus all that its victims could give. Whoever stays would have been refused.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Callable, Mapping

from .amounts import FlavorResource
from .assignment import Attempt, Mode, Possibility
from .candidates import NEVER
from .decisions import Wait, Why
from .model import ClusterQueue, ResourceGroup
from .reasons import Cause, WaitReason
from .snapshot import Queue
from .tree import Node, available

Need = tuple[int, FlavorResource, int]
"""A priority, and how much somebody of that priority needs of a column."""

Needs = tuple[Need, ...]
"""Having any of these is worth a try; of none, only a change of the policies is."""

Reach = Callable[[int, FlavorResource], int]
"""The most that somebody of a priority could get of a column, others' evictions included."""

_QUOTA = frozenset({Cause.EXCEEDS_MAX, Cause.INSUFFICIENT})


class Stuck:
    """Classes that wait for more than there can be, by what they need.

    A class has one entry for each of its needs, and they come and go together.
    """

    def __init__(self) -> None:
        self._classes: dict[str, tuple[WaitReason, Needs]] = {}
        self._lines: dict[tuple[int, FlavorResource], list[tuple[int, str]]] = {}

    def __contains__(self, class_id: str) -> bool:
        return class_id in self._classes

    def reason(self, class_id: str) -> WaitReason | None:
        known = self._classes.get(class_id)
        return known[0] if known is not None else None

    def put(self, class_id: str, needs: Needs, reason: WaitReason) -> None:
        """Keep what a class needs, in place of what was kept of it before."""
        self.drop(class_id)
        self._classes[class_id] = reason, needs
        for priority, column, amount in needs:
            insort(self._lines.setdefault((priority, column), []), (amount, class_id))

    def drop(self, class_id: str) -> None:
        """Forget a class, if it is known."""
        _, needs = self._classes.pop(class_id, (None, ()))
        for priority, column, amount in needs:
            line = self._lines[priority, column]
            del line[bisect_left(line, (amount, class_id))]
            if not line:
                del self._lines[priority, column]

    def freed(self, reach: Reach) -> list[str]:
        """Take out the classes that could have what they need by now."""
        found: dict[str, None] = {}
        for (priority, column), line in self._lines.items():
            most = reach(priority, column)
            for amount, class_id in line:
                if amount > most:
                    break
                found[class_id] = None
        for class_id in found:
            self.drop(class_id)
        return list(found)

    def clear(self) -> list[str]:
        """Take out every class."""
        found = list(self._classes)
        self._classes.clear()
        self._lines.clear()
        return found


def needs_of(wait: Wait, spec: ClusterQueue) -> Needs | None:
    """What would make another try worthwhile; None if any release of quota might.

    Told only of refusals that follow from one pod set alone, and that hold no capacity for the
    workload: there a try is not in vain even if it fails.
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
    """One amount a flavor that is refused for lack of quota; the others need another spec."""
    found = []
    for flavor in group.flavors:
        for reason in attempts[flavor].reasons:
            if reason.cause in _QUOTA:
                found.append((priority, reason.column, reason.asked))
                break
    return tuple(found)


class Horizon:
    """How far anyone can reach in the trees as they are now. To be used up before they change."""

    def __init__(self, queues: Mapping[str, Queue]) -> None:
        self._queues = queues
        self._reclaimable: dict[tuple[str, FlavorResource], int] = {}

    def reach(self, name: str, priority: int, column: FlavorResource) -> int:
        """An upper bound: what is free, what the own queue and what borrowers could give up."""
        queue = self._queues[name]
        cell = queue.node.cell(column)
        rules = queue.spec.preemption
        total = available(cell)
        if rules.within_cluster_queue not in NEVER:
            total += queue.running.use_up_to(priority, column)
        if rules.reclaim_within_cohort not in NEVER and queue.node.parent is not None:
            total += self._borrowers(queue.node.root, column)
        return min(total, cell.potential)

    def _borrowers(self, root: Node, column: FlavorResource) -> int:
        """All that queues over their nominal quota use: nobody else has to give anything back."""
        found = self._reclaimable.get((root.name, column))
        if found is None:
            cells = (self._queues[name].node.cells.get(column) for name in root.leaf_names)
            found = sum(cell.used for cell in cells if cell and cell.used > cell.nominal)
            self._reclaimable[root.name, column] = found
        return found
