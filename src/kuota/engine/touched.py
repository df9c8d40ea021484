# SPDX-License-Identifier: Apache-2.0
"""Which queues and cohorts a fact concerns: those whose published figures it may change.

Figures are what `kuota.bridge.queue_status` publishes: how many workloads wait and run, what they
use, whether a queue is active, and, with fair sharing, its share.
"""

from __future__ import annotations

from typing import NamedTuple, cast

from kuota.api.base import Key

from .facts import Fact, Gone, Known, Stored
from .model import (
    AdmissionCheck,
    ClusterQueue,
    Cohort,
    LocalQueue,
    ResourceFlavor,
    Topology,
    Workload,
)
from .queues import Queues
from .state import State
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


class Step(NamedTuple):
    """A fact that is about to be applied: its object, how it is known, and what that concerns."""

    kind: type[Known]
    key: Key
    known: object
    touched: Touched


class Footprint:
    """Finds what facts concern. `shares` tells that shares are published (fair sharing)."""

    def __init__(self, state: State, queues: Queues, *, shares: bool) -> None:
        self._state = state
        self._queues = queues
        self._shares = shares

    def begin(self, fact: Fact) -> Step:
        """To be called before the fact is applied: its object may leave queues by it."""
        kind, key = _subject(fact)
        if kind is Workload:
            return Step(kind, key, self._places(key), Touched())
        step = Step(kind, key, self._spec(kind, key), Touched())
        self._note(kind, key, step.touched)
        return step

    def end(self, step: Step) -> Touched:
        """What was concerned before and is now. Queues that did not change concern nobody."""
        kind, key, known, touched = step
        if kind is Workload:
            places = self._places(key)
            self._workload(key, places, touched)
            if known != places:
                self._workload(key, cast(Places, known), touched)
            return touched
        if known == self._spec(kind, key):
            return Touched()
        self._note(kind, key, touched)
        return touched

    def _places(self, key: Key) -> Places:
        """The LocalQueue of a Workload that is not over, and where it waits and holds quota."""
        workload, running = self._state.workloads.get(key), self._state.running(key)
        waits = self._queues.queue_of(key)
        return (
            workload.queue if workload is not None and not workload.finished else "",
            waits.name if waits is not None else "",
            running.queue if running is not None else "",
        )

    def _spec(self, kind: type[Known], key: Key) -> object:
        state = self._state
        if kind is ClusterQueue:
            queue = state.queues.get(key.name)
            return queue.spec if queue is not None else None
        if kind is LocalQueue:
            return state.local_queues.get(key)
        if kind is Cohort:
            return state.cohorts.get(key.name)
        if kind is ResourceFlavor:
            return state.flavors.get(key.name)
        if kind is AdmissionCheck:
            return state.checks.get(key.name)
        return state.topologies.get(key.name) if kind is Topology else None

    def _note(self, kind: type[Known], key: Key, touched: Touched) -> None:
        """Add what an object that is no Workload concerns as things stand now."""
        if kind is LocalQueue:
            self._local_queue(key, touched)
        elif kind is ClusterQueue:
            self._queue(key.name, touched)
            if self._shares:
                self._tree(self._state.tree.queues.get(key.name), touched)
        elif kind is Cohort:
            touched.cohorts.add(key.name)
            if self._shares:
                self._tree(self._state.tree.cohorts.get(key.name), touched)
        else:
            for name in self._using(kind, key.name):
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

    def _local_queue(self, key: Key, touched: Touched) -> None:
        touched.local_queues.add(key)
        known = self._state.local_queues.get(key)
        if known is not None:
            touched.cluster_queues.add(known.cluster_queue)

    def _queue(self, name: str, touched: Touched) -> None:
        touched.cluster_queues.add(name)
        touched.local_queues.update(self._queues.feeders(name))

    def _tree(self, node: Node | None, touched: Touched) -> None:
        """Quota decides the shares of all who could lend or borrow it."""
        if node is None or node.cyclic:
            return
        touched.cluster_queues |= node.root.leaf_names
        ahead = [node.root] if not node.root.is_queue else []
        while ahead:
            cohort = ahead.pop()
            touched.cohorts.add(cohort.name)
            ahead += cohort.cohorts.values()

    def _using(self, kind: type[Known], name: str) -> set[str]:
        """The ClusterQueues that are active, or not, because of an object."""
        if kind is ResourceFlavor:
            return set(self._state.by_flavor.of(name))
        if kind is AdmissionCheck:
            return set(self._state.by_check.of(name))
        return self._state.using_topology(name) if kind is Topology else set()


def _subject(fact: Fact) -> tuple[type[Known], Key]:
    """The kind and the key of the object that a fact is about."""
    if isinstance(fact, Stored):
        value = fact.value
        if isinstance(value, Workload) or isinstance(value, LocalQueue):  # noqa: SIM101
            return type(value), value.key
        return type(value), Key("", value.name)
    return fact.kind if isinstance(fact, Gone) else Workload, fact.key
