# SPDX-License-Identifier: Apache-2.0
"""Quiescence: detects when another cycle would only repeat an earlier one.

The decisions in one quota tree depend only on that tree: its quota, its running workloads, and the
heads of its queues. If every head of a tree was requeued where it came from and nothing was
admitted or evicted, then the next cycle would start from the same state and make the same
decisions. Such a tree is quiescent: its heads are skipped until something in it changes. Trees that
place pods share nodes. A change in one of them ends the quiescence of all.

`State.dirty` and `Queues.dirty` contain the ClusterQueues whose state changed. Anything else that
decisions depend on must be recorded there as well.

`QuiescentTrees` skips such trees. Where trees cannot be skipped, `Quiescence` compares whole cycles
and tells a driver when to wait for the next fact.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from kuota.api.base import Key

from .decisions import CycleResult, Decision, Migrate, Preempt, Wait
from .entry import Head
from .model import Instant
from .policy import Policy
from .queues import Queues
from .snapshot import Queue
from .state import EVERY_QUEUE, State
from .tree import QuotaNode


class QuiescentTrees:
    """Detects quiescent trees after each cycle, and wakes them before the next one.

    Waiting for pods of other trees, or an order that changes with time, makes decisions depend on
    more than the tree. In these cases no tree is ever quiescent.
    """

    def __init__(self, policy: Policy, state: State, queues: Queues) -> None:
        self._possible = not policy.block_until_ready and policy.admission_fair_sharing is None
        self._state = state
        self._queues = queues

    def wake(self, now: Instant) -> None:
        """Wake the trees that changed, or all trees if a second pass is due."""
        if not self._queues.quiescent:
            self._clear_dirty()
            return
        dirty = self._state.dirty | self._queues.dirty
        self._clear_dirty()
        second_pass_at = self._queues.next_wakeup()
        if second_pass_at is not None and second_pass_at <= now:
            dirty.add(EVERY_QUEUE)
        self._wake(dirty)
        self._wake_sharing_nodes(dirty)

    def _wake_sharing_nodes(self, dirty: set[str]) -> None:
        """Wake all trees that place pods if one of them changed or has a head.

        Their heads reserve nodes for the rest of a cycle, which affects the heads of other trees.
        """
        placing = self._state.domains.placing()
        quiescent = placing & self._queues.quiescent.keys()
        if not quiescent:
            return
        heads = {name for name in self._queues.ready if self._state.is_schedulable(name)}
        if not placing.isdisjoint(dirty | heads):
            self._wake(quiescent)

    def _wake(self, dirty: set[str]) -> None:
        if not self._queues.quiescent:
            return
        if EVERY_QUEUE in dirty:
            self._queues.wake(self._queues.quiescent)
            return
        woken: set[str] = set()
        for name in dirty:
            if name not in woken:
                woken |= self._state.tree_of(name)
                woken.add(name)
        self._queues.wake(woken & self._queues.quiescent.keys())

    def record_cycle(self, heads: Sequence[Head], decided: Mapping[Key, Decision]) -> None:
        """Find the trees that became quiescent in a cycle whose decisions have been applied."""
        changed = set(self._state.dirty)
        self._clear_dirty()
        if not self._possible:
            return
        # An admission may revoke an earlier one in another tree.
        self._wake(changed)
        trees: dict[QuotaNode, list[Head]] = {}
        changing = {queue.node.root for queue in self._queues_of(changed)}
        for head in heads:
            queue = self._state.queues.get(head.cluster_queue)
            if queue is None or queue.node.cyclic:
                continue
            root = queue.node.root
            trees.setdefault(root, []).append(head)
            if root not in changing and not self._repeats(head, decided.get(head.workload.key)):
                changing.add(root)
        for root, repeated in trees.items():
            if root not in changing:
                self._queues.mark_quiescent(repeated)

    def _queues_of(self, names: set[str]) -> list[Queue]:
        found = (self._state.queues.get(name) for name in names)
        return [queue for queue in found if queue is not None and not queue.node.cyclic]

    def _repeats(self, head: Head, decision: Decision | None) -> bool:
        """Whether the head was requeued unchanged and the decision changed nothing."""
        if head.second_pass or decision is None or not _changes_nothing(decision):
            return False
        return not _continues_scan(head) and self._queues[head.cluster_queue].would_repeat(head)

    def _clear_dirty(self) -> None:
        self._state.dirty.clear()
        self._queues.dirty.clear()


def _changes_nothing(decision: Decision) -> bool:
    """Whether the decision changes nothing in the engine's state."""
    if isinstance(decision, Preempt):
        return all(victim.leaving for victim in decision.victims)
    return isinstance(decision, Wait)


def _continues_scan(head: Head) -> bool:
    """Whether the flavor scan continued from an earlier position."""
    return head.progress is not None and head.progress.pending


class Quiescence:
    """Compares the cycles since the last fact, so that a driver can stop when they repeat.

    Cycles can repeat because a blocked StrictFIFO head is retried in every cycle, and so is a
    preemptor while its victims are terminating.
    """

    def __init__(self) -> None:
        self._tried: set[frozenset[object]] = set()

    def after(self, outcome: CycleResult) -> bool:
        """Whether the next cycle would bring nothing new.

        This is the case if there were no heads, or if the same workloads waited for the same
        reasons with the same scan progress as before.
        """
        if not all(
            _changes_nothing(each) or isinstance(each, Migrate) for each in outcome.decisions
        ):
            self._tried.clear()
            return False
        attempt = frozenset(_signature(each) for each in outcome.decisions)
        if not attempt or attempt in self._tried:
            return True
        self._tried.add(attempt)
        return False


def _signature(decision: Decision) -> object:
    """Return a value that is equal for two decisions if the second one repeats the first."""
    key = decision.workload.key
    if isinstance(decision, Preempt):
        return key, tuple(victim.workload.key for victim in decision.victims)
    if isinstance(decision, Migrate):
        return key, decision.sibling.key
    if not isinstance(decision, Wait):
        return key
    tried = decision.assignment.progress.tried if decision.assignment is not None else ()
    scans = tuple(tuple(sorted(each.items(), key=str)) for each in tried)
    return key, decision.why, scans
