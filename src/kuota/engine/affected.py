# SPDX-License-Identifier: Apache-2.0
"""The queues and cohorts whose published status a fact may change.

The status is what `kuota.bridge.queue_status` publishes: the numbers of pending and running
workloads, their usage, whether a queue is active, and its share under fair sharing.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping

from kuota.api.base import Key

from .engine import Engine
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
    PodUsage,
    ResourceFlavor,
    Topology,
    Workload,
)
from .tree import QuotaNode

Membership = tuple[str, str, str]
"""The LocalQueue of a Workload, the ClusterQueue it is queued in, and the one it has quota in."""


class AffectedQueues:
    """Names of ClusterQueues, LocalQueues and Cohorts. Some may no longer exist.

    With `counters_only`, only the usage changed, so that conditions stay the same.
    """

    __slots__ = ("cluster_queues", "cohorts", "counters_only", "local_queues")

    def __init__(self) -> None:
        self.counters_only = False
        self.cluster_queues: set[str] = set()
        self.local_queues: set[Key] = set()
        self.cohorts: set[str] = set()


class ChangeTracker:
    """Applies facts to an engine and determines which queues they affect, before and after."""

    def __init__(self, engine: Engine) -> None:
        state = engine.state
        self._engine = engine
        self._state = state
        self._shares = engine.policy.fair_sharing is not None
        self._parts: dict[
            type[EngineObject], tuple[Mapping[str, object], Callable[[str], Collection[str]]]
        ] = {
            ResourceFlavor: (state.flavors, state.by_flavor.of),
            AdmissionCheck: (state.checks, state.by_check.of),
            Topology: (state.topologies, state.using_topology),
        }

    def apply(self, fact: Fact, now: Instant) -> AffectedQueues:
        """Apply the fact. An object that is stored unchanged affects nothing."""
        affected = AffectedQueues()
        if isinstance(fact, NodesListed):
            self._engine.apply(fact, now)
            return affected
        kind, key = _subject(fact)
        if kind is Workload:
            affected.counters_only = True
            workload, before = self._state.workloads.get(key), self._membership(key)
            self._engine.apply(fact, now)
            if isinstance(fact, ObjectStored) and self._state.workloads.get(key) is workload:
                # The engine keeps its value if the fact contains nothing new.
                return affected
            for membership in {before, self._membership(key)}:
                self._workload(key, membership, affected)
            return affected
        known = self._spec(kind, key)
        self._note(kind, key, affected)
        self._engine.apply(fact, now)
        if known == self._spec(kind, key):
            return AffectedQueues()
        self._note(kind, key, affected)
        return affected

    def _membership(self, key: Key) -> Membership:
        """Return the queues of a Workload that is not finished."""
        workload, running = self._state.workloads.get(key), self._state.running(key)
        waits = self._engine.queues.queue_of(key)
        return (
            workload.queue if workload is not None and not workload.finished else "",
            waits.name if waits is not None else "",
            running.queue if running is not None else "",
        )

    def _spec(self, kind: type[EngineObject], key: Key) -> object:
        if kind is ClusterQueue:
            queue = self._state.queues.get(key.name)
            return queue.spec if queue is not None else None
        if kind is LocalQueue:
            return self._state.local_queues.get(key)
        if kind is Cohort:
            return self._state.cohorts.get(key.name)
        return self._parts[kind][0].get(key.name) if kind in self._parts else None

    def _note(self, kind: type[EngineObject], key: Key, affected: AffectedQueues) -> None:
        """Add the queues that an object other than a Workload affects now."""
        if kind is LocalQueue:
            affected.local_queues.add(key)
            known = self._state.local_queues.get(key)
            if known is not None:
                affected.cluster_queues.add(known.cluster_queue)
        elif kind is ClusterQueue:
            self._queue(key.name, affected)
            self._tree(self._state.tree.queues.get(key.name), affected)
        elif kind is Cohort:
            affected.cohorts.add(key.name)
            self._tree(self._state.tree.cohorts.get(key.name), affected)
        elif kind in self._parts:
            for name in self._parts[kind][1](key.name):
                self._queue(name, affected)

    def _workload(self, key: Key, membership: Membership, affected: AffectedQueues) -> None:
        local_queue, waits_in, runs_in = membership
        if local_queue:
            affected.local_queues.add(Key(key.namespace, local_queue))
        if waits_in:
            affected.cluster_queues.add(waits_in)
        if runs_in:
            affected.cluster_queues.add(runs_in)
            node = self._state.queues[runs_in].node
            if self._shares and not node.cyclic:
                affected.cohorts.update(each.name for each in node.ancestors())

    def _queue(self, name: str, affected: AffectedQueues) -> None:
        affected.cluster_queues.add(name)
        affected.local_queues.update(self._engine.queues.local_queues_of(name))

    def _tree(self, node: QuotaNode | None, affected: AffectedQueues) -> None:
        """Add the whole tree, because quota affects the share of every node that may borrow it."""
        if node is None or node.cyclic or not self._shares:
            return
        affected.cluster_queues |= node.root.leaf_names
        ahead = [node.root] if not node.root.is_queue else []
        while ahead:
            cohort = ahead.pop()
            affected.cohorts.add(cohort.name)
            ahead += cohort.cohorts.values()


def _subject(
    fact: ObjectStored | ObjectDeleted | AdmissionFailed | EvictionFailed,
) -> tuple[type[EngineObject], Key]:
    """Return the kind and the key of the object that a fact concerns."""
    if isinstance(fact, ObjectStored):
        value = fact.value
        if isinstance(value, Workload | LocalQueue | PodUsage):
            return type(value), value.key
        return type(value), Key("", value.name)
    return fact.kind if isinstance(fact, ObjectDeleted) else Workload, fact.key
