# SPDX-License-Identifier: Apache-2.0
"""The engine: facts in, decisions out, time as an argument.

The engine has no clock, no I/O and no locks. All callers run on one event loop and no method
awaits, so calls never overlap. The same facts in the same order lead to the same decisions.
"""

from __future__ import annotations

from typing import assert_never

from msgspec.structs import replace

from kuota.api.base import Key
from kuota.api.gates import Gate

from .buckets import Pending
from .cycle import decide
from .decisions import Admit, CycleResult, Decision, Evict, Migrate, Preempt, Wait, WaitCause
from .domains import NodeKnowledge
from .explain import explain
from .explanation import Explanation
from .facts import (
    AdmissionFailed,
    EngineObject,
    EvictionFailed,
    Fact,
    NodesListed,
    ObjectDeleted,
    ObjectStored,
)
from .model import (
    AdmissionCheck,
    ClusterQueue,
    Cohort,
    Instant,
    LocalQueue,
    Namespace,
    Node,
    PodUsage,
    ResourceFlavor,
    Topology,
    Workload,
)
from .pending import PendingState
from .policy import Policy
from .progress import next_progress
from .queues import Queues
from .quiescence import QuiescentTrees
from .ranking import releases_quota
from .reasons import RequeueReason
from .snapshot import Snapshot
from .state import NO_QUEUES, QueueNames, State
from .unsatisfiable import AttainableQuota, needs_of
from .usage_tracker import UsageTracker


class Engine:
    """Applies facts, and decides which workloads get quota, which wait and which are evicted.

    A change of queues, cohorts or flavors flushes the inadmissible workloads that it may help.
    Further changes within `flush_batch_s` are flushed together. Released quota flushes at once.
    `nodes` says whether pods are placed from the beginning.
    """

    def __init__(
        self,
        policy: Policy | None = None,
        *,
        flush_batch_s: float = 0.0,
        nodes: NodeKnowledge = NodeKnowledge.LISTED,
    ) -> None:
        self.policy = policy or Policy()
        self.state = State(overlapping=self.policy.on(Gate.TASHandleOverlappingFlavors))
        self.usage_tracker = UsageTracker(self.policy, self.state)
        self.queues = Queues(
            self.policy,
            namespace_matches=self.state.admits,
            local_queue_usage=self.usage_tracker.usage,
        )
        self._quiescent = QuiescentTrees(self.policy, self.state, self.queues)
        self.cycles = 0
        self.last: dict[Key, Decision] = {}
        self._unready: set[Key] = set()
        self._blocked_by_unready_pods: list[Key] = []
        self._changed: set[str] = set()
        self._unblocked: set[str] = set()
        self._released: set[str] = set()
        self._admission_backoffs: dict[Key, Instant] = {}
        self._flush_batch_s = flush_batch_s
        self.state.domains.nodes = nodes
        self._next_batch_at: Instant = float("-inf")

    def apply(self, fact: Fact, now: Instant) -> None:
        """Apply a fact. This makes no decision.

        Every value from `kuota.bridge.inbound` is accepted. An exception is a bug and may leave the
        fact partly applied, so the caller must build a new engine.
        """
        match fact:
            case ObjectStored(value=Workload() as workload):
                self._store_workload(workload, now)
            case ObjectStored(value=value):
                self._changed |= self._store(value, now)
            case ObjectDeleted(kind=kind, key=key):
                self._delete(kind, key)
            case AdmissionFailed(key=key, retry_at=retry_at):
                self._admission_failed(key, retry_at, now)
            case EvictionFailed(key=key):
                self.state.end_eviction(key)
                self.queues.requeue_second_pass(key, now)
            case NodesListed():
                self._changed |= self.state.nodes_listed()
            case _:
                assert_never(fact)

    def _store(self, value: EngineObject, now: Instant) -> QueueNames:
        """Store an object other than a Workload, and return the queues that it may help."""
        match value:
            case Workload():
                return NO_QUEUES
            case LocalQueue():
                self.state.local_queues[value.key] = value
                self.usage_tracker.open(value, now)
                self.queues.put_local_queue(value, now)
                return NO_QUEUES
            case ClusterQueue():
                if value.concurrent_admission and not self.policy.on(Gate.ConcurrentAdmission):
                    value = replace(value, concurrent_admission=None)
                woken = self.state.put_queue(value)
                self.queues.put_cluster_queue(value, now)
                return woken
            case Cohort():
                return self.state.put_cohort(value)
            case ResourceFlavor():
                return self.state.put_flavor(value)
            case Topology():
                return self.state.put_topology(value)
            case AdmissionCheck():
                return self.state.put_check(value)
            case Namespace():
                return self.state.put_namespace(value)
            case Node() | PodUsage():
                return self.state.capacity_changed(self.state.domains.put(value))
            case _:
                assert_never(value)

    def _delete(self, kind: type[EngineObject], key: Key) -> None:
        state = self.state
        if kind is Workload:
            self._delete_workload(key)
        elif kind is LocalQueue:
            state.local_queues.pop(key, None)
            self.queues.drop_local_queue(key)
            self.usage_tracker.forget(key)
        elif kind is ClusterQueue:
            state.drop_queue(key.name)
            self.queues.drop_cluster_queue(key.name)
        elif kind in (Node, PodUsage):
            self._changed |= state.capacity_changed(state.domains.drop(key))
        else:
            state.drop(kind, key.name)

    def _store_workload(self, new: Workload, now: Instant) -> None:
        state = self.state
        old = state.workloads.get(new.key)
        if old == new and self._is_known_pending(new):
            return
        if old is not None and releases_quota(old, new):
            self._released |= state.tree_of(state.queue_of(old))
        # Finished workloads are numerous and use no quota, so only a tombstone is kept.
        state.workloads[new.key] = new.tombstone() if new.finished else new
        state.record(new)
        self._note_readiness(new.key, state.running(new.key) is not None and not new.pods_ready)
        if new.evicted is not None or new.reservation is None:
            state.end_eviction(new.key)
        self.usage_tracker.follow(old, new, now)
        self.queues.put_workload(new, now)
        if not state.is_assumed(new.key):
            self.queues.queue_second_pass(new, now)
        if not new.queueable or new.reservation is not None:
            self.last.pop(new.key, None)

    def _is_known_pending(self, workload: Workload) -> bool:
        """Whether the workload is pending and known everywhere, so that an equal update has no
        effect.

        Without the gate PreserveScanProgress, every update restarts the flavor scan.
        """
        return (
            self.policy.on(Gate.FlavorFungibilityPreserveScanProgress)
            and workload.queueable
            and workload.requeue_at is None
            and self.state.running(workload.key) is None
            and self.queues.workload(workload.key) is self.state.workloads[workload.key]
        )

    def _delete_workload(self, key: Key) -> None:
        old = self.state.workloads.pop(key, None)
        if old is None:
            return
        self._note_readiness(key, False)
        self.state.discharge(key)
        self.queues.drop_workload(key)
        self.usage_tracker.drop(old)
        self.state.end_eviction(key)
        self.last.pop(key, None)
        self._released |= self.state.tree_of(self.state.queue_of(old))

    def _note_readiness(self, key: Key, unready: bool) -> None:
        """Track charged workloads that are not ready. Without any, blocked admission resumes."""
        if unready:
            self._unready.add(key)
        elif key in self._unready:
            self._unready.discard(key)
            if self.policy.block_until_ready and not self._unready:
                self._unblocked |= self.state.queues.keys()

    def _admission_failed(self, key: Key, retry_at: Instant | None, now: Instant) -> None:
        """Release the assumed usage. The workload becomes pending again if it still exists."""
        self.state.discharge(key)
        workload = self.state.workloads.get(key)
        if workload is None:
            return
        self.state.record(workload)
        self._note_readiness(key, workload.charged and not workload.pods_ready)
        if workload.reservation is not None:
            self.queues.queue_second_pass(workload, now)
            return
        self.usage_tracker.drop(workload)
        if retry_at is not None:
            workload = replace(workload, requeue_at=max(retry_at, workload.requeue_at or retry_at))
            self._released |= self.state.tree_of(self.state.queue_of(workload))
            self._admission_backoffs[key] = retry_at
        if workload.queueable:
            self.queues.put_workload(workload, now)

    def cycle(self, now: Instant) -> CycleResult:
        """Decide about the head of every queue, and assume the decisions from then on.

        Heads of quiescent trees are skipped: their last decisions remain valid (`engine.last`).
        """
        self._end_admission_backoffs(now)
        self._flush_inadmissible(now)
        self._quiescent.wake(now)
        self._skip_rejected(now)
        taken = self._heads(now)
        if taken or self.queues.quiescent:
            self.cycles += 1
        if not taken:
            return CycleResult()
        heads = [pending.head() for pending in taken]
        outcome = decide(
            heads,
            self.snapshot(now),
            self.state.namespaces,
            not_ready=lambda: self.policy.block_until_ready and bool(self._unready),
        )
        decided = {decision.workload.key: decision for decision in outcome.decisions}
        waits = (each for each in outcome.decisions if isinstance(each, Wait))
        blocked = [each.workload.key for each in waits if each.why is WaitCause.NOT_READY]
        self._blocked_by_unready_pods = self._blocked_by_unready_pods or blocked
        for pending in taken:
            self.apply_decision(pending, decided.get(pending.key), now)
        self._quiescent.record_cycle(heads, decided)
        return outcome

    def _heads(self, now: Instant) -> list[Pending]:
        """Return the heads, first the workloads that unready pods blocked in an earlier cycle."""
        while self._blocked_by_unready_pods and not self._unready:
            pending = self.queues.take(
                self._blocked_by_unready_pods.pop(0), self.state.is_schedulable
            )
            if pending is not None:
                return [pending]
        return self.queues.heads(now, self.state.is_schedulable)

    def sample(self, now: Instant) -> float | None:
        """Sample due LocalQueues; return the seconds until the next one, or None if disabled."""
        return self.usage_tracker.sample(now)

    def snapshot(self, now: Instant) -> Snapshot:
        """Return a view of the current state for one cycle."""
        state, cluster = self.state, self.state.domains.cluster
        return Snapshot(
            state.tree,
            state.queues,
            state.flavors,
            topologies=state.topologies,
            checks=state.checks,
            cluster=cluster,
            placement=state.domains.placement(self.policy),
            local_queues=state.local_queues,
            policy=self.policy,
            now=now,
            cycle=self.cycles,
            local_queue_usage=self.usage_tracker.usage,
        )

    def explain(self, key: Key, now: Instant) -> Explanation | None:
        """Explain what keeps the workload from being admitted; None if it does not exist."""
        return explain(self, key, now)

    def next_wakeup(self) -> Instant | None:
        """Return when the engine has something to decide without a new fact; None if never."""
        due = [self.queues.next_wakeup(), *self._admission_backoffs.values()]
        due += [self._next_batch_at] if self._changed else []
        return min((each for each in due if each is not None), default=None)

    def _end_admission_backoffs(self, now: Instant) -> None:
        """End the backoff of workloads whose admission failed, where it is due."""
        for key in [each for each, at in self._admission_backoffs.items() if at <= now]:
            del self._admission_backoffs[key]
            queue = self.queues.queue_of(key)
            if queue is not None and queue.state(key) is PendingState.INADMISSIBLE:
                self.queues.drop_workload(key)
                self.queues.put_workload(self.state.workloads[key], now)

    def _flush_inadmissible(self, now: Instant) -> None:
        """Flush inadmissible workloads that changed queues, or released quota or nodes may help."""
        self._changed |= self.state.take_freed()
        if not (self._unblocked or self._changed or self._released):
            return
        woken, self._unblocked = self._unblocked, set()
        if now >= self._next_batch_at:
            woken |= self._changed
            self._changed = set()
        released, self._released = self._released - woken, set()
        if woken and self.queues.flush(sorted(woken), now):
            self._next_batch_at = now + self._flush_batch_s
        # Since the release, a queue may have been deleted or its cohorts may have formed a cycle.
        names = [name for name in sorted(released) if self.state.tree_of(name)]
        if names:
            self.queues.flush(names, now, self._attainable().upper_bound)

    def _skip_rejected(self, now: Instant) -> None:
        """Make heads inadmissible that would be rejected like others of their class before."""
        names = [name for name in self.queues.with_rejections() if self.state.is_active(name)]
        if not names:
            return
        for key in self.queues.skip_rejected(names, self._attainable().attainable, now):
            # The reason of its class applies, not the last decision about this workload.
            self.last.pop(key, None)

    def _attainable(self) -> AttainableQuota:
        return AttainableQuota(self.state.queues, fair=self.policy.fair_sharing is not None)

    def apply_decision(self, pending: Pending, decision: Decision | None, now: Instant) -> None:
        """Assume one decision: charge an admitted workload, requeue a pending one."""
        if decision is None:
            self.queues.drop_workload(pending.key)
            return
        self.last[pending.key] = decision
        match decision:
            case Admit():
                self._assume_admitted(decision)
            case Preempt():
                for victim in decision.victims:
                    if not victim.leaving:
                        self.state.assume_evicted(victim.workload.key)
                self._put_back(pending, RequeueReason.PENDING_PREEMPTION, now)
            case Migrate():
                self.state.assume_evicted(decision.sibling.key)
                self._put_back(pending, RequeueReason.PENDING_MIGRATION, now)
            case Evict():
                self.state.assume_evicted(decision.workload.key)
            case Wait():
                self._requeue_waiting(pending, decision, now)
            case _:
                assert_never(decision)

    def _assume_admitted(self, decision: Admit) -> None:
        workload = decision.workload
        self.queues.drop_workload(workload.key)
        if decision.second_pass and not decision.assignment.places:
            return
        held = workload.reservation
        reservation = decision.reservation(held.since if held is not None else None)
        self.state.assume(workload, reservation, admitted=decision.admitted)
        self._note_readiness(workload.key, not workload.pods_ready)
        if held is None:
            self.usage_tracker.push(workload, decision.cluster_queue)

    def _put_back(self, pending: Pending, reason: RequeueReason, now: Instant) -> None:
        """Requeue a head whose victims are being evicted. It is retried with a new flavor scan."""
        if pending.second_pass:
            self.queues.requeue_second_pass(pending.key, now)
        else:
            self.queues.requeue(pending.key, reason, now)

    def _requeue_waiting(self, pending: Pending, wait: Wait, now: Instant) -> None:
        queue = self.state.queues.get(wait.cluster_queue)
        if pending.second_pass or queue is None:
            self._put_back(pending, wait.requeue, now)
            return
        progress = next_progress(pending, wait, self.policy)
        needs = needs_of(wait, queue.spec)
        self.queues.requeue(pending.key, wait.requeue, now, progress, wait.reason, needs)
