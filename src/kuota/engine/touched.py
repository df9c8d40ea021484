# SPDX-License-Identifier: Apache-2.0
"""Which queues and cohorts a fact concerns: those whose published figures it may change.

Figures are what `kuota.bridge.queue_status` publishes: how many workloads wait and run, what they
use, whether a queue is active, and, with fair sharing, its share.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping

from kuota.api.base import Key

from .engine import Engine
from .facts import Fact, Gone, Known, Stored
from .model import (
    AdmissionCheck,
    ClusterQueue,
    Cohort,
    Instant,
    LocalQueue,
    ResourceFlavor,
    Topology,
    Workload,
)
from .tree import Node

Places = tuple[str, str, str]
"""The LocalQueue of a Workload, the ClusterQueue it waits in, the one where it holds quota."""


class Touched:
    """Names of ClusterQueues, LocalQueues and Cohorts; some may not exist any more."""

    __slots__ = ("cluster_queues", "cohorts", "local_queues")

    def __init__(self) -> None:
        self.cluster_queues: set[str] = set()
        self.local_queues: set[Key] = set()
        self.cohorts: set[str] = set()


class Footprint:
    """Applies facts to an engine and finds out what they concern, before and after."""

    def __init__(self, engine: Engine) -> None:
        state = engine.state
        self._engine = engine
        self._state = state
        self._shares = engine.policy.fair_sharing is not None
        self._parts: dict[
            type[Known], tuple[Mapping[str, object], Callable[[str], Collection[str]]]
        ] = {
            ResourceFlavor: (state.flavors, state.by_flavor.of),
            AdmissionCheck: (state.checks, state.by_check.of),
            Topology: (state.topologies, state.using_topology),
        }

    def apply(self, fact: Fact, now: Instant) -> Touched:
        """Apply the fact. Objects that are stored as they were concern nobody."""
        kind, key = _subject(fact)
        touched = Touched()
        if kind is Workload:
            before = self._places(key)
            self._engine.apply(fact, now)
            for places in {before, self._places(key)}:
                self._workload(key, places, touched)
            return touched
        known = self._spec(kind, key)
        self._note(kind, key, touched)
        self._engine.apply(fact, now)
        if known == self._spec(kind, key):
            return Touched()
        self._note(kind, key, touched)
        return touched

    def _places(self, key: Key) -> Places:
        """The LocalQueue of a Workload that is not over, and where it waits and holds quota."""
        workload, running = self._state.workloads.get(key), self._state.running(key)
        waits = self._engine.queues.queue_of(key)
        return (
            workload.queue if workload is not None and not workload.finished else "",
            waits.name if waits is not None else "",
            running.queue if running is not None else "",
        )

    def _spec(self, kind: type[Known], key: Key) -> object:
        if kind is ClusterQueue:
            queue = self._state.queues.get(key.name)
            return queue.spec if queue is not None else None
        if kind is LocalQueue:
            return self._state.local_queues.get(key)
        if kind is Cohort:
            return self._state.cohorts.get(key.name)
        return self._parts[kind][0].get(key.name) if kind in self._parts else None

    def _note(self, kind: type[Known], key: Key, touched: Touched) -> None:
        """Add what an object that is no Workload concerns as things stand now."""
        if kind is LocalQueue:
            touched.local_queues.add(key)
            known = self._state.local_queues.get(key)
            if known is not None:
                touched.cluster_queues.add(known.cluster_queue)
        elif kind is ClusterQueue:
            self._queue(key.name, touched)
            self._tree(self._state.tree.queues.get(key.name), touched)
        elif kind is Cohort:
            touched.cohorts.add(key.name)
            self._tree(self._state.tree.cohorts.get(key.name), touched)
        elif kind in self._parts:
            for name in self._parts[kind][1](key.name):
                self._queue(name, touched)

    def _workload(self, key: Key, places: Places, touched: Touched) -> None:
        local_queue, waits_in, runs_in = places
        if local_queue:
            touched.local_queues.add(Key(key.namespace, local_queue))
        if waits_in:
            touched.cluster_queues.add(waits_in)
        if runs_in:
            touched.cluster_queues.add(runs_in)
            node = self._state.queues[runs_in].node
            if self._shares and not node.cyclic:
                touched.cohorts.update(each.name for each in node.ancestors())

    def _queue(self, name: str, touched: Touched) -> None:
        touched.cluster_queues.add(name)
        touched.local_queues.update(self._engine.queues.feeders(name))

    def _tree(self, node: Node | None, touched: Touched) -> None:
        """Quota decides the shares of all who could lend or borrow it."""
        if node is None or node.cyclic or not self._shares:
            return
        touched.cluster_queues |= node.root.leaf_names
        ahead = [node.root] if not node.root.is_queue else []
        while ahead:
            cohort = ahead.pop()
            touched.cohorts.add(cohort.name)
            ahead += cohort.cohorts.values()


def _subject(fact: Fact) -> tuple[type[Known], Key]:
    """The kind and the key of the object that a fact is about."""
    if isinstance(fact, Stored):
        value = fact.value
        if isinstance(value, Workload | LocalQueue):
            return type(value), value.key
        return type(value), Key("", value.name)
    return fact.kind if isinstance(fact, Gone) else Workload, fact.key
