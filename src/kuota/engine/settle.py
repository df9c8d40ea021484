# SPDX-License-Identifier: Apache-2.0
"""The decision about one entry, given what earlier entries of the cycle took.

Each step either decides or passes the entry on; their order is significant. What an entry takes
stays in the snapshot until the cycle ends.

Variants of one workload (concurrent admission) are each bound to one flavor. The order of flavors
in the ClusterQueue is the order of preference.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable

from kuota.api.base import Key
from kuota.api.gates import Gate

from .amounts import Amounts
from .assignment import AssignmentMode, WorkloadAssignment
from .decisions import Admit, Decision, Evict, Migrate, Preempt, Victim, Wait, WaitCause
from .entry import Entry
from .model import ClusterQueue, Workload
from .nominate import plan
from .placement import UnknownNodes
from .reasons import EvictionReason, RequeueReason, WaitReason
from .second_pass import placed_on_failed_node
from .snapshot import ChargedWorkload, Queue, Snapshot
from .tree import QuotaNode
from .usage import NO_USAGE, Usage, places_fit


def sibling(entry: Entry, *, preferred: bool) -> ChargedWorkload | None:
    """Return an admitted variant of the same parent on a more (or less) preferred flavor."""
    spec = entry.queue.spec
    for each in _siblings(entry):
        own, other = _rank_of(entry.workload, spec), _rank_of(each.workload, spec)
        if other < own if preferred else other > own:
            return each
    return None


def migration_allowed(entry: Entry) -> bool:
    """Whether the queue's policy allows a migration to this entry's flavor."""
    spec = entry.queue.spec
    policy = spec.concurrent_admission
    if policy is not None and policy.retains:
        return False
    last = policy.last_acceptable_flavor if policy is not None else ""
    if not last:
        return True
    flavors = _flavors(spec)
    limit = flavors.index(last) if last in flavors else len(flavors)
    return _rank_of(entry.workload, spec) <= limit


def _siblings(entry: Entry) -> list[ChargedWorkload]:
    """Return the other admitted variants.

    One that still waits for admission checks does not count.
    """
    parent = entry.workload.parent_uid
    if not parent:
        return []
    return [
        running
        for running in entry.queue.running.values()
        if running.workload.parent_uid == parent
        and running.workload.admitted
        and running.key != entry.workload.key
    ]


def _flavors(spec: ClusterQueue) -> tuple[str, ...]:
    return spec.groups[0].flavors if spec.groups else ()


def _rank_of(workload: Workload, spec: ClusterQueue) -> int:
    """Return the index of the variant's flavor in the queue; past the end if it has none."""
    flavors = _flavors(spec)
    allowed = workload.allowed_flavors or frozenset()
    return min((flavors.index(f) for f in allowed if f in flavors), default=len(flavors))


class CycleState:
    """What the cycle has assigned so far: claimed victims, and usage (in the snapshot).

    `unready` counts the workloads admitted in this cycle whose pods are not ready.
    """

    def __init__(self, snapshot: Snapshot) -> None:
        self.snapshot = snapshot
        self.unready = 0
        self.skipped: Counter[str] = Counter()
        self.recomputed: Counter[tuple[str, str]] = Counter()
        self._claimed: defaultdict[str, dict[Key, ChargedWorkload]] = defaultdict(dict)

    def claim(self, entry: Entry) -> None:
        """Record the victims of the entry."""
        tree = self._claimed[entry.queue.node.root.name]
        tree.update({each.running.key: each.running for each in entry.targets})

    def claimed(self, entry: Entry) -> dict[Key, ChargedWorkload]:
        """Return the victims so far that affect what fits the entry.

        These are the victims in its tree and, if it needs nodes, those in all trees.
        """
        if not entry.assignment.places:
            return self._claimed[entry.queue.node.root.name]
        return {key: each for tree in self._claimed.values() for key, each in tree.items()}

    def overlaps(self, entry: Entry) -> bool:
        if not entry.targets:
            return False
        claimed = self.claimed(entry)
        return any(target.running.key in claimed for target in entry.targets)

    def fits(self, entry: Entry, *, places: bool = True) -> bool:
        """Whether the entry fits once all victims so far and its own are gone.

        Without `places`, only quota counts.
        """
        gone = self.claimed(entry) | {each.running.key: each.running for each in entry.targets}
        if not gone:
            return self._fits(entry, places)
        with self.snapshot.trial():
            for running in gone.values():
                self.snapshot.remove(running)
            return self._fits(entry, places)

    def _fits(self, entry: Entry, places: bool) -> bool:
        usage = entry.usage
        if not entry.queue.node.fits(usage.quota):
            return False
        return not places or places_fit(self.snapshot.cluster, usage.places)


Blocker = Callable[[], bool]


def settle(entry: Entry, cycle_state: CycleState, not_ready: Blocker) -> Decision:
    """Decide about one entry. `not_ready` returns whether unready pods block admission."""
    if sibling(entry, preferred=True) is not None:
        return _wait(entry, WaitReason.PENDING_EVALUATION, WaitCause.BETTER_SIBLING, _LOST_RACE)
    _recompute(entry, cycle_state)
    mode = entry.assignment.mode
    if mode is not AssignmentMode.FIT and _fails_fast(entry, cycle_state.snapshot):
        return _repair_failed(entry)
    if mode is AssignmentMode.NO_FIT:
        reason = entry.assignment.no_fit or WaitReason.NO_MATCHING_FLAVOR
        return _wait(entry, reason, WaitCause.NO_FIT, RequeueReason.NO_FIT)
    if mode is AssignmentMode.PREEMPT and not entry.targets:
        _reserve(entry, usage_to_reserve(entry, cycle_state.snapshot), cycle_state)
        return _wait(
            entry,
            WaitReason.WAITING_FOR_QUOTA,
            WaitCause.NO_CANDIDATES,
            RequeueReason.NO_CANDIDATES,
        )
    if mode is AssignmentMode.PREEMPT and entry.workload.closed_gates:
        return _wait(entry, WaitReason.ADMISSION_GATED, WaitCause.GATED, RequeueReason.GATED)
    if mode is AssignmentMode.DEFERRED_FIT:
        _reserve(entry, entry.usage, cycle_state)
        reason = WaitReason.WAITING_FOR_PREEMPTED
        return _wait(entry, reason, WaitCause.DEFERRED, RequeueReason.PENDING_PREEMPTION)
    return _claim(entry, cycle_state, not_ready)


_LOST_RACE = RequeueReason.FAILED_AFTER_NOMINATION


def _claim(entry: Entry, cycle_state: CycleState, not_ready: Blocker) -> Decision:
    """Take the nominated quota and victims, unless an earlier entry took them."""
    preempts = entry.assignment.mode is AssignmentMode.PREEMPT
    if cycle_state.overlaps(entry):
        cycle_state.skipped[entry.queue.name] += 1
        return _wait(entry, WaitReason.WAITING_FOR_QUOTA, WaitCause.OVERLAP, _LOST_RACE)
    if not cycle_state.fits(entry):
        cycle_state.skipped[entry.queue.name] += preempts
        return _wait(entry, WaitReason.WAITING_FOR_QUOTA, WaitCause.LOST_RACE, _LOST_RACE)
    cycle_state.claim(entry)
    _reserve(entry, entry.usage, cycle_state)
    if preempts:
        return _preempt(entry, cycle_state)
    if _blocked_by_unready_pods(entry, cycle_state, not_ready):
        return _wait(entry, WaitReason.WAITING_FOR_PODS_READY, WaitCause.NOT_READY)
    worse = sibling(entry, preferred=False)
    if worse is not None:
        return _migrate(entry, worse)
    cycle_state.unready += not entry.head.second_pass and not entry.workload.pods_ready
    return _admit(entry)


def _blocked_by_unready_pods(entry: Entry, cycle_state: CycleState, not_ready: Blocker) -> bool:
    """Whether admission waits for unready pods, including those admitted in this cycle."""
    if entry.head.second_pass:
        return False
    return not_ready() or (
        cycle_state.snapshot.policy.block_until_ready and cycle_state.unready > 0
    )


def _reserve(entry: Entry, usage: Usage, cycle_state: CycleState) -> None:
    cycle_state.snapshot.add_usage(entry.queue, usage)


def _fails_fast(entry: Entry, snapshot: Snapshot) -> bool:
    """Whether the workload is evicted if its failed node cannot be replaced now."""
    if isinstance(snapshot.placement, UnknownNodes):
        return False
    gate = Gate.TASFailedNodeReplacementFailFast
    return snapshot.policy.on(gate) and placed_on_failed_node(entry.workload)


def _recompute(entry: Entry, cycle_state: CycleState) -> None:
    """Plan again on the same flavors if an earlier entry took victims or places."""
    on = cycle_state.snapshot.policy.on
    overlap = Gate.RecomputeAssignmentUponPreemptionTargetsOverlap
    if cycle_state.overlaps(entry) and on(overlap):
        _recompute_on_overlap(entry, cycle_state)
    elif on(Gate.TASRecomputeAssignmentWithinSchedulingCycle) and _lost_places(entry, cycle_state):
        snapshot = cycle_state.snapshot
        entry.assignment, entry.targets = plan(entry, snapshot, None, entry.assignment.pinned)


def _lost_places(entry: Entry, cycle_state: CycleState) -> bool:
    """Whether only the places that the entry was nominated for are taken, not its quota."""
    if not entry.usage.places or (
        entry.assignment.mode is AssignmentMode.PREEMPT and not entry.targets
    ):
        return False
    return not cycle_state.fits(entry) and cycle_state.fits(entry, places=False)


def _recompute_on_overlap(entry: Entry, cycle_state: CycleState) -> None:
    """Search for other victims on the same flavors, because some are already claimed."""
    snapshot = cycle_state.snapshot
    with snapshot.trial():
        for running in cycle_state.claimed(entry).values():
            snapshot.remove(running)
        assignment, victims = plan(entry, snapshot, None, entry.assignment.pinned)
    result = "new_targets" if victims else "skipped"
    if assignment.mode is AssignmentMode.FIT:
        # It fits only because of other evictions, so it waits for them and reserves the quota.
        assignment, result = assignment.deferred(), "deferred_fit"
    cycle_state.recomputed[entry.queue.name, result] += 1
    entry.assignment, entry.targets = assignment, victims


def usage_to_reserve(entry: Entry, snapshot: Snapshot) -> Usage:
    """Return the usage that a head without victims reserves. Amounts may be negative.

    Empty if the queue could reclaim the quota later. A head that has its quota already reserves
    only places.
    """
    preemption = entry.queue.spec.preemption
    keeps = snapshot.policy.on(Gate.PrioritizePreemptorWorkloads) and entry.head.preemptor
    if preemption.reclaim_within_cohort == "Any" and not keeps:
        return NO_USAGE
    has_quota = entry.workload.reservation is not None
    quota = {} if has_quota else reservable(entry.assignment, entry.queue.node)
    return Usage(quota=quota, places=entry.usage.places)


def reservable(assignment: WorkloadAssignment, node: QuotaNode) -> Amounts:
    """Return how much of the assignment's usage a blocked head may reserve, by column."""
    held: Amounts = {}
    for column, requested in assignment.usage.items():
        cell = node.cell(column)
        if assignment.height == 0:
            held[column] = max(0, min(requested, cell.nominal - cell.used))
        elif cell.borrowing_limit is None:
            held[column] = requested
        else:
            held[column] = min(requested, cell.nominal + cell.borrowing_limit - cell.used)
    return held


def _wait(
    entry: Entry, reason: WaitReason, why: WaitCause, requeue: RequeueReason = RequeueReason.GENERIC
) -> Wait:
    return Wait(
        workload=entry.workload,
        cluster_queue=entry.queue.name,
        reason=reason,
        why=why,
        requeue=requeue,
        assignment=entry.assignment,
    )


def _repair_failed(entry: Entry) -> Evict:
    return Evict(
        workload=entry.workload,
        cluster_queue=entry.queue.name,
        reason=EvictionReason.NODE_FAILURES,
        detail=",".join(entry.workload.unhealthy_nodes),
    )


def _preempt(entry: Entry, cycle_state: CycleState) -> Preempt:
    queues = cycle_state.snapshot.queues
    return Preempt(
        workload=entry.workload,
        cluster_queue=entry.queue.name,
        path=path(entry.queue),
        assignment=entry.assignment,
        victims=tuple(
            Victim(
                workload=target.running.workload,
                cluster_queue=target.running.queue,
                path=path(queues[target.running.queue]),
                reason=target.reason,
                leaving=target.running.leaving,
            )
            for target in entry.targets
        ),
    )


def path(queue: Queue) -> str:
    """Return the path from the root cohort to the queue, as shown to users."""
    names = [queue.name, *(cohort.name for cohort in queue.node.ancestors())]
    return "/" + "/".join(reversed(names))


def _migrate(entry: Entry, sibling: ChargedWorkload) -> Decision:
    if not migration_allowed(entry):
        return _wait(entry, WaitReason.PENDING_EVALUATION, WaitCause.FLAVOR_TOO_LOW)
    return Migrate(
        workload=entry.workload,
        cluster_queue=entry.queue.name,
        assignment=entry.assignment,
        sibling=sibling.workload,
        leaving=sibling.leaving,
    )


def _admit(entry: Entry) -> Admit:
    spec = entry.queue.spec
    used = frozenset(
        choice.flavor
        for pod_set in entry.assignment.pod_sets
        for choice in pod_set.flavors.values()
    )
    return Admit(
        workload=entry.workload,
        cluster_queue=entry.queue.name,
        assignment=entry.assignment,
        checks=tuple(rule.name for rule in spec.checks if rule.covers(used)),
        second_pass=entry.head.second_pass,
        replaced=entry.replaced.workload if entry.replaced is not None else None,
    )
