# SPDX-License-Identifier: Apache-2.0
"""The state of the engine except for queueing: objects, the quota tree, and reservations.

Methods that change something return the names of the ClusterQueues whose pending workloads may
benefit, so that the caller can flush them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Set

from msgspec.structs import replace

from kuota.api.base import Key
from kuota.api.match import matches

from .activity import QueueObstacle, flavor_names, local_obstacles, obstacles
from .charged import equal_for_decisions, same_charge
from .domains import NodeKnowledge, TopologyDomains
from .facts import EngineObject
from .index import Index
from .model import (
    AdmissionCheck,
    ClusterQueue,
    Cohort,
    LocalQueue,
    Namespace,
    Reservation,
    ResourceFlavor,
    Topology,
    Workload,
)
from .second_pass import needs_second_pass
from .snapshot import ChargedWorkload, Queue
from .tree import QuotaNode, QuotaTree, charge, queues_below, release
from .usage import usage_of

QueueNames = Set[str]
NO_QUEUES: QueueNames = frozenset()
EVERY_QUEUE = ""
"""Represents all ClusterQueues in `State.dirty`. No ClusterQueue has an empty name."""


class State:
    """Objects by name, and the quota tree with the charged usage.

    `by_flavor` and `by_check` map a ResourceFlavor or AdmissionCheck to the ClusterQueues that use
    it. Workloads whose ClusterQueue is unknown are kept, and charged once it appears. `dirty`
    collects the names of ClusterQueues whose state changed.
    """

    def __init__(self, *, overlapping: bool = True) -> None:
        self.tree = QuotaTree()
        self.queues: dict[str, Queue] = {}
        self.cohorts: dict[str, Cohort] = {}
        self.flavors: dict[str, ResourceFlavor] = {}
        self.topologies: dict[str, Topology] = {}
        self.checks: dict[str, AdmissionCheck] = {}
        self.namespaces: dict[str, Namespace] = {}
        self.local_queues: dict[Key, LocalQueue] = {}
        self.workloads: dict[Key, Workload] = {}
        self.obstacles: dict[str, tuple[QueueObstacle, ...]] = {}
        self.by_flavor: Index[str, str] = Index()
        self.by_check: Index[str, str] = Index()
        self.domains = TopologyDomains(
            self.flavors, self.topologies, self.by_flavor, overlapping=overlapping
        )
        self.dirty: set[str] = set()
        self._charged: dict[Key, ChargedWorkload] = {}
        self._awaiting_queue: Index[str, Key] = Index()
        self._assumed: dict[Key, Workload] = {}
        self._evicting: set[Key] = set()
        self._freed: set[str] = set()

    def put_queue(self, spec: ClusterQueue) -> QueueNames:
        known = self.queues.get(spec.name)
        if known is not None and spec.faults:
            # Keep the last valid spec: running workloads depend on it.
            spec = replace(known.spec, faults=spec.faults, deleting=spec.deleting)
        if known is not None and known.spec == spec:
            return NO_QUEUES
        node = self.tree.put_queue(spec.name, spec.cohort, spec.groups, spec.weight)
        self.by_flavor.put(spec.name, flavor_names(spec))
        self.by_check.put(spec.name, (rule.name for rule in spec.checks))
        if known is None:
            self.queues[spec.name] = Queue(spec, node)
            self._charge_awaiting(spec.name)
        else:
            known.spec = spec
        self.refresh([spec.name])
        return self.tree_of(spec.name)

    def drop_queue(self, name: str) -> None:
        queue = self.queues.pop(name, None)
        if queue is None:
            return
        for running in list(queue.running.values()):
            self._uncharge(running, queue)
            if running.key in self.workloads:
                self.record(self.workloads[running.key])
        self.by_flavor.drop(name)
        self.by_check.drop(name)
        self.tree.drop_queue(name)
        self.obstacles.pop(name, None)
        self.dirty.add(EVERY_QUEUE)

    def put_cohort(self, spec: Cohort) -> QueueNames:
        if self.cohorts.get(spec.name) == spec:
            return NO_QUEUES
        self.cohorts[spec.name] = spec
        node = self.tree.put_cohort(spec.name, spec.parent, spec.groups, spec.weight)
        self.refresh(queues_below(node))
        return self._below_root(node)

    def drop_cohort(self, name: str) -> None:
        self.cohorts.pop(name, None)
        node = self.tree.cohorts.get(name)
        if node is not None:
            self.tree.drop_cohort(name)
            self.refresh(queues_below(node))

    def tree_of(self, queue: str) -> QueueNames:
        """Return the names of all ClusterQueues with the same root."""
        known = self.queues.get(queue)
        return self._below_root(known.node) if known is not None else NO_QUEUES

    def _below_root(self, node: QuotaNode) -> QueueNames:
        return NO_QUEUES if node.cyclic else node.root.leaf_names

    def put_flavor(self, flavor: ResourceFlavor) -> QueueNames:
        before = self.flavors.get(flavor.name)
        self.flavors[flavor.name] = flavor
        if before == flavor:
            return NO_QUEUES
        using = self.domains.rebuild([flavor.name])
        self.refresh(using)
        return self._trees(using)

    def drop_flavor(self, name: str) -> None:
        self.flavors.pop(name, None)
        self.refresh(self.domains.rebuild([name]))

    def put_check(self, check: AdmissionCheck) -> QueueNames:
        self.checks[check.name] = check
        return self._trees(self.refresh(self.by_check.of(check.name)))

    def drop_check(self, name: str) -> None:
        self.checks.pop(name, None)
        self.refresh(self.by_check.of(name))

    def put_topology(self, topology: Topology) -> QueueNames:
        before = self.topologies.get(topology.name)
        self.topologies[topology.name] = topology
        if before == topology:
            return NO_QUEUES
        return self._trees(self._topology_changed(topology.name))

    def drop_topology(self, name: str) -> None:
        self.topologies.pop(name, None)
        self._topology_changed(name)

    def _topology_changed(self, name: str) -> set[str]:
        using = self.domains.rebuild(self.domains.with_topology(name))
        self.refresh(using)
        return using

    def using_topology(self, name: str) -> set[str]:
        """Return the ClusterQueues with a flavor that uses the Topology."""
        return self.domains.using(self.domains.with_topology(name))

    def capacity_changed(self, using: set[str]) -> QueueNames:
        """Note that nodes changed which these ClusterQueues use."""
        self.dirty |= using
        return self._trees(using)

    def take_freed(self) -> QueueNames:
        """Return the queues that may use nodes which workloads released since the last call."""
        freed, self._freed = self._freed, set()
        return self._trees(freed)

    def nodes_listed(self) -> QueueNames:
        """Place pods from now on, because all nodes are known."""
        self.domains.nodes = NodeKnowledge.LISTED
        return self.capacity_changed(self.domains.placing())

    def put_namespace(self, namespace: Namespace) -> QueueNames:
        before = self.namespaces.get(namespace.name)
        self.namespaces[namespace.name] = namespace
        labels = before.labels if before is not None else None
        if before is not None and before.labels == namespace.labels:
            return NO_QUEUES
        self.dirty.add(EVERY_QUEUE)
        newly = [
            name
            for name, queue in self.queues.items()
            if matches(queue.spec.namespace_selector, namespace.labels)
            and not (labels is not None and matches(queue.spec.namespace_selector, labels))
        ]
        return self._trees(newly)

    def drop(self, kind: type[EngineObject], name: str) -> None:
        """Remove a cohort, or an object that has no usage of its own."""
        drops: dict[type[EngineObject], Callable[[str], None]] = {
            Cohort: self.drop_cohort,
            Namespace: self.drop_namespace,
            ResourceFlavor: self.drop_flavor,
            Topology: self.drop_topology,
            AdmissionCheck: self.drop_check,
        }
        drops[kind](name)

    def drop_namespace(self, name: str) -> None:
        if self.namespaces.pop(name, None) is not None:
            self.dirty.add(EVERY_QUEUE)

    def _trees(self, names: Iterable[str]) -> QueueNames:
        found: set[str] = set()
        for name in names:
            if name not in found:
                found |= self.tree_of(name)
        return found

    def refresh(self, names: Iterable[str]) -> list[str]:
        """Recompute whether these ClusterQueues are active. Returns those that became active."""
        self.dirty.add(EVERY_QUEUE)
        woken = []
        for name in names:
            queue = self.queues[name]
            found = obstacles(queue.spec, self.flavors, self.checks, self.topologies)
            if self.obstacles.get(name) and not found:
                woken.append(name)
            self.obstacles[name] = found
            queue.active = not found and not queue.node.cyclic
        return woken

    def is_schedulable(self, name: str) -> bool:
        """Whether the queue provides heads. A cohort cycle is detected at nomination."""
        return name in self.queues and not self.obstacles.get(name)

    def is_active(self, name: str) -> bool:
        """Whether the queue takes part in cycles: heads are taken, and no cohort cycle is above."""
        queue = self.queues.get(name)
        return queue is not None and queue.active

    def local_obstacles(self, key: Key) -> tuple[QueueObstacle, ...]:
        """Return why a LocalQueue is inactive; empty if it is active."""
        queue = self.local_queues[key]
        exists = queue.cluster_queue in self.queues
        return local_obstacles(queue, exists, self.is_schedulable(queue.cluster_queue))

    def admits(self, queue: str, namespace: str) -> bool:
        """Whether the ClusterQueue's namespace selector matches the namespace."""
        known, space = self.queues.get(queue), self.namespaces.get(namespace)
        if known is None or space is None:
            return False
        return matches(known.spec.namespace_selector, space.labels)

    def queue_of(self, workload: Workload) -> str:
        """Return the ClusterQueue in which a workload has quota, or in which it would be queued."""
        if workload.reservation is not None:
            return workload.reservation.cluster_queue
        local = self.local_queues.get(workload.local_queue)
        return local.cluster_queue if local is not None else ""

    def running(self, key: Key) -> ChargedWorkload | None:
        return self._charged.get(key)

    def record(self, workload: Workload) -> None:
        """Set the charged usage to the workload's own reservation.

        An assumed charge is kept while updates predate the write of the reservation.
        """
        if self._outdated(workload):
            return
        self._assumed.pop(workload.key, None)
        reservation = workload.reservation if workload.charged else None
        before = self._charged.get(workload.key)
        if reservation is not None and before is not None and same_charge(before, reservation):
            evicting = workload.key in self._evicting
            after = ChargedWorkload(workload, before.queue, before.usage, evicting=evicting)
            self._replace(before, after)
            return
        self.discharge(workload.key)
        if reservation is not None and not self._charge(workload, reservation):
            self._awaiting_queue.put(workload.key, (reservation.cluster_queue,))

    def _outdated(self, workload: Workload) -> bool:
        """Whether this update predates the write of an admission that is still in progress."""
        decided = self._assumed.get(workload.key)
        if decided is None or not workload.active or workload.finished:
            return False
        if workload.evicted != decided.evicted or workload.reservation != decided.reservation:
            return False
        return workload.reservation is None or needs_second_pass(workload)

    def _replace(self, before: ChargedWorkload, after: ChargedWorkload) -> None:
        """Replace the data of a charged workload; the charge does not change.

        The confirmation of an assumed reservation changes its time, which only affects the order of
        preemption candidates. It makes no tree active: the victims of its heads are being evicted.
        """
        queue = self.queues[before.queue]
        queue.running[after.key] = self._charged[after.key] = after
        queue.node.generation += 1
        if not equal_for_decisions(before, after):
            self.dirty.add(before.queue)

    def assume(self, workload: Workload, held: Reservation, *, admitted: bool = False) -> None:
        """Charge a workload for an admission that is not stored yet.

        This replaces an earlier assumption, because the LocalQueue may have changed before it was
        written.
        """
        self.discharge(workload.key)
        settled = replace(
            workload, reservation=held, evicted=None, preempted=None, admitted=admitted
        )
        unconfirmed = workload.reservation is None
        if self._charge(settled, held, assumed=unconfirmed):
            self._assumed[workload.key] = workload

    def is_assumed(self, key: Key) -> bool:
        """Whether an admission or a second pass is decided but not stored yet."""
        return key in self._assumed

    def assume_evicted(self, key: Key) -> None:
        """Treat a workload as evicted whose eviction is not stored yet.

        Otherwise, the victims of the next preemptor would depend on when the eviction is stored.
        """
        self._evicting.add(key)
        self._mark_evicting(key, True)

    def end_eviction(self, key: Key) -> None:
        """End the assumption: the eviction is stored, or it could not be written."""
        if key in self._evicting:
            self._evicting.discard(key)
            self._mark_evicting(key, False)
            running = self._charged.get(key)
            if running is not None:
                self.dirty.add(running.queue)

    def _mark_evicting(self, key: Key, evicting: bool) -> None:
        found = self._charged.get(key)
        if found is not None:
            after = ChargedWorkload(
                found.workload,
                found.queue,
                found.usage,
                assumed=found.assumed,
                evicting=evicting,
            )
            self._replace(found, after)

    def unconfirmed(self) -> Iterator[ChargedWorkload]:
        """Return the charged workloads whose reservation is not stored yet."""
        for key in self._assumed:
            running = self._charged[key]
            if running.assumed:
                yield running

    def _charge(self, workload: Workload, held: Reservation, *, assumed: bool = False) -> bool:
        known = self.queues.get(held.cluster_queue)
        if known is None:
            return False
        usage = usage_of(workload, held)
        name, evicting = held.cluster_queue, workload.key in self._evicting
        running = ChargedWorkload(workload, name, usage, assumed=assumed, evicting=evicting)
        self.dirty.add(name)
        known.running[workload.key] = self._charged[workload.key] = running
        for column, amount in usage.quota.items():
            charge(known.node.cell(column), amount)
        self.dirty |= self.domains.charge(usage, 1)
        return True

    def discharge(self, key: Key) -> bool:
        """Release the usage of a workload. Returns False if it has none."""
        self._awaiting_queue.drop(key)
        running = self._charged.get(key)
        if running is None:
            return False
        queue = self.queues[running.queue]
        self._uncharge(running, queue)
        queue.node.generation += 1
        return True

    def _uncharge(self, running: ChargedWorkload, queue: Queue) -> None:
        del self._charged[running.key]
        self.dirty.add(running.queue)
        self._assumed.pop(running.key, None)
        del queue.running[running.key]
        for column, amount in running.usage.quota.items():
            release(queue.node.cell(column), amount)
        self._freed |= (freed := self.domains.charge(running.usage, -1))
        self.dirty |= freed

    def _charge_awaiting(self, name: str) -> None:
        """Charge workloads that had quota before their ClusterQueue was known."""
        for key in list(self._awaiting_queue.of(name)):
            self.record(self.workloads[key])
