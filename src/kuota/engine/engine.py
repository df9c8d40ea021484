# SPDX-License-Identifier: Apache-2.0
"""The engine: facts in, decisions out, time as an argument.

One task owns an engine; there are no locks, no clock and no I/O in it. The same facts in the same
order give the same decisions.
"""

from __future__ import annotations

from typing import assert_never

from kuota.api.base import Key
from kuota.api.gates import Gate

from .assignment import Bookmark
from .buckets import Pending
from .cycle import decide
from .decisions import Admit, Decision, Evict, Migrate, Outcome, Preempt, Wait, Why
from .entry import Head
from .explain import explain
from .explanation import Explanation
from .facts import AdmissionFailed, EvictionFailed, Fact, Gone, Known, Stored
from .history import History
from .model import (
    AdmissionCheck,
    ClusterQueue,
    Cohort,
    Instant,
    LocalQueue,
    Namespace,
    ResourceFlavor,
    Topology,
    Workload,
)
from .policy import Policy
from .queues import Queues
from .reasons import Requeue
from .snapshot import Snapshot
from .state import NOBODY, State, Woken

_KEEPS_BOOKMARK = frozenset({Why.LOST_RACE, Why.OVERLAP, Why.BETTER_SIBLING})
_CLEARS_BOOKMARK = frozenset({Why.GATED, Why.DEFERRED})


class Engine:
    """Believes what it is told, and says who gets quota, who waits and who has to go."""

    def __init__(self, policy: Policy | None = None) -> None:
        self.policy = policy or Policy()
        self.state = State()
        self.history = History(self.policy, self.state)
        self.queues = Queues(
            self.policy, namespace_matches=self.state.admits, local_use=self.history.use
        )
        self.cycles = 0
        self.last: dict[Key, Decision] = {}
        self._evicting: set[Key] = set()
        self._flush: set[str] = set()
        self._unready = 0

    # Facts

    def apply(self, fact: Fact, now: Instant) -> None:
        """Take note of something that happened. Decides nothing."""
        match fact:
            case Stored(value=value):
                self._wake(self._stored(value, now))
            case Gone(kind=kind, key=key):
                self._wake(self._gone(kind, key, now))
            case AdmissionFailed(key=key):
                self._admission_failed(key, now)
            case EvictionFailed(key=key):
                self._evicting.discard(key)
            case _:
                assert_never(fact)

    def _wake(self, names: Woken) -> None:
        """Remember to try again, in the next cycle, what is parked in these ClusterQueues."""
        self._flush |= names

    def _stored(self, value: Known, now: Instant) -> Woken:
        match value:
            case Workload():
                return self._workload(value, now)
            case LocalQueue():
                self.state.local_queues[value.key] = value
                self.history.weigh(value)
                self.queues.put_local_queue(value, now)
                return NOBODY
            case ClusterQueue():
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
            case _:
                assert_never(value)

    def _gone(self, kind: type[Known], key: Key, now: Instant) -> Woken:
        state = self.state
        if kind is Workload:
            return self._workload_gone(key)
        if kind is LocalQueue:
            state.local_queues.pop(key, None)
            self.queues.drop_local_queue(key)
            self.history.forget(key)
        elif kind is ClusterQueue:
            state.drop_queue(key.name)
            self.queues.drop_cluster_queue(key.name)
        elif kind is Cohort:
            state.drop_cohort(key.name)
        elif kind is Namespace:
            state.namespaces.pop(key.name, None)
        elif kind is ResourceFlavor:
            state.drop_flavor(key.name)
        elif kind is Topology:
            state.drop_topology(key.name)
        elif kind is AdmissionCheck:
            state.drop_check(key.name)
        return NOBODY

    def _workload(self, new: Workload, now: Instant) -> Woken:
        state = self.state
        old = state.workloads.get(new.key)
        woken = state.tree_of(state.queue_of(old)) if _frees(old, new) and old else NOBODY
        self._count_unready(old, new)
        state.workloads[new.key] = new
        state.record(new)
        if new.evicted is not None or new.reservation is None:
            self._evicting.discard(new.key)
        self.history.follow(old, new, now)
        self.queues.put_workload(new, now)
        if not new.queueable or new.reservation is not None:
            self.last.pop(new.key, None)
        return woken

    def _workload_gone(self, key: Key) -> Woken:
        old = self.state.workloads.pop(key, None)
        if old is None:
            return NOBODY
        self._count_unready(old, None)
        self.state.discharge(key)
        self.queues.drop_workload(key)
        self.history.drop(old)
        self._evicting.discard(key)
        self.last.pop(key, None)
        return self.state.tree_of(self.state.queue_of(old))

    def _count_unready(self, old: Workload | None, new: Workload | None) -> None:
        """Keep count of charged workloads whose pods are not ready; none left wakes everybody."""
        before = self._unready
        self._unready += _unready(new) - _unready(old)
        if self.policy.block_until_ready and before and not self._unready:
            self._wake(frozenset(self.state.queues))

    def _admission_failed(self, key: Key, now: Instant) -> None:
        """Take the assumed charge back. The workload waits again, if it is still there."""
        self.state.discharge(key)
        workload = self.state.workloads.get(key)
        if workload is None:
            return
        self.history.drop(workload)
        self.state.record(workload)
        if workload.queueable:
            self.queues.put_workload(workload, now)

    # Decisions

    def cycle(self, now: Instant) -> Outcome:
        """Decide about the head of every queue, and believe the decisions from then on."""
        self._flush_parked(now)
        heads = self.queues.heads(now, self.state.pops)
        if not heads:
            return Outcome()
        self.cycles += 1
        outcome = decide(
            [_head(pending) for pending in heads],
            self.snapshot(now),
            self.state.namespaces,
            evicting=self._evicting,
            not_ready=lambda: self.policy.block_until_ready and self._unready > 0,
        )
        decided = {decision.workload.key: decision for decision in outcome.decisions}
        for pending in heads:
            self.believe(pending, decided.get(pending.key), now)
        return outcome

    def sample(self, now: Instant) -> None:
        """Let LocalQueues forget what they used; to be called about once a sampling interval."""
        self.history.sample(now)

    def snapshot(self, now: Instant) -> Snapshot:
        """What the engine believes right now."""
        state = self.state
        return Snapshot(
            state.tree,
            state.queues,
            state.flavors,
            topologies=state.topologies,
            local_queues=state.local_queues,
            policy=self.policy,
            now=now,
            cycle=self.cycles,
            local_use=self.history.use,
        )

    def explain(self, key: Key, now: Instant) -> Explanation | None:
        """Why the workload is not further than it is; None if there is none of that name."""
        return explain(self, key, now)

    def _flush_parked(self, now: Instant) -> None:
        if self._flush:
            names, self._flush = self._flush, set()
            self.queues.flush(sorted(names), now)

    def believe(self, pending: Pending, decision: Decision | None, now: Instant) -> None:
        """Believe one decision: charge what is admitted, put back what waits."""
        if decision is None:
            self.queues.drop_workload(pending.key)
            return
        self.last[pending.key] = decision
        match decision:
            case Admit():
                self._admitted(decision, now)
            case Preempt():
                self._evicting |= {v.workload.key for v in decision.victims if not v.leaving}
                self._requeue(pending, Requeue.PENDING_PREEMPTION, None, decision, now)
            case Migrate():
                self._evicting.add(decision.sibling.key)
                self._requeue(pending, Requeue.PENDING_MIGRATION, None, decision, now)
            case Evict():
                self._evicting.add(decision.workload.key)
            case Wait():
                bookmark = self._bookmark(pending, decision)
                self._requeue(pending, decision.requeue, bookmark, decision, now)
            case _:
                assert_never(decision)

    def _admitted(self, decision: Admit, now: Instant) -> None:
        workload = decision.workload
        self.queues.drop_workload(workload.key)
        if decision.second_pass:
            return
        self.state.assume(workload, decision.cluster_queue, decision.usage)
        self._unready += not workload.pods_ready
        self.history.push(workload, decision.cluster_queue)

    def _requeue(
        self,
        pending: Pending,
        reason: Requeue,
        bookmark: Bookmark | None,
        decision: Decision,
        now: Instant,
    ) -> None:
        if pending.second_pass:
            self.queues.requeue_second_pass(pending.key, now)
        else:
            wait_reason = decision.reason if isinstance(decision, Wait) else None
            self.queues.requeue(pending.key, reason, now, bookmark, wait_reason)

    def _bookmark(self, pending: Pending, wait: Wait) -> Bookmark | None:
        """Where the next flavor scan starts, by what became of this one."""
        if wait.assignment is None:
            return pending.bookmark
        if wait.why in _CLEARS_BOOKMARK:
            return None
        preserved = self.policy.on(Gate.FlavorFungibilityPreserveScanProgress)
        if wait.why in _KEEPS_BOOKMARK and not preserved:
            return None
        return wait.assignment.bookmark


def _head(pending: Pending) -> Head:
    return Head(
        workload=pending.workload,
        cluster_queue=pending.cluster_queue,
        bookmark=pending.bookmark,
        preemptor=pending.preemptor,
        second_pass=pending.second_pass,
    )


def _unready(workload: Workload | None) -> int:
    return int(workload is not None and workload.charged and not workload.pods_ready)


def _frees(old: Workload | None, new: Workload) -> bool:
    """Whether the change may have made room for others."""
    if old is None:
        return False
    if new.finished > old.finished or new.active < old.active:
        return True
    if old.reservation is None:
        return False
    return (
        new.reservation is None
        or new.reclaimable != old.reclaimable
        or new.priority != old.priority
        or any(a.count < b.count for a, b in zip(new.pod_sets, old.pod_sets, strict=False))
    )
