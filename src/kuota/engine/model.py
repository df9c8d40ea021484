# SPDX-License-Identifier: Apache-2.0
"""Queues, cohorts, flavors and workloads as the engine sees them: frozen values.

`kuota.bridge.inbound` makes them from API objects. Times are seconds since the epoch. Policies keep
the API's values; "" means that the field was not set, which Kueue sometimes treats differently from
the default.
"""

from __future__ import annotations

from typing import dataclass_transform

import msgspec

from kuota.api.base import Key, LabelSelector
from kuota.api.core import PodTemplateSpec, Taint, Toleration
from kuota.api.workload import PodSetUpdate, TopologyAssignment, TopologyRequest

from .amounts import Amounts, FlavorResource, Requests

Instant = float


@dataclass_transform(frozen_default=True, kw_only_default=True, field_specifiers=(msgspec.field,))
class Struct(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """Base class of every engine value."""


class Quota(msgspec.Struct, frozen=True, gc=False):
    """Limits of one node for one FlavorResource. None means no limit."""

    nominal: int
    borrowing_limit: int | None = None
    lending_limit: int | None = None


class ResourceGroup(Struct):
    """Resources that share one flavor, and the flavors in order of preference."""

    resources: tuple[str, ...]
    flavors: tuple[str, ...]
    quotas: dict[FlavorResource, Quota]


class Fungibility(Struct):
    when_can_borrow: str = "MayStopSearch"
    when_can_preempt: str = "TryNextFlavor"
    preference: str = ""


class Preemption(Struct):
    within_cluster_queue: str = "Never"
    reclaim_within_cohort: str = "Never"
    borrow_within_cohort: bool = False
    borrow_max_priority: int | None = None


class CheckRule(Struct):
    """An admission check of a ClusterQueue. Without flavors it applies to all of them."""

    name: str
    flavors: frozenset[str] = frozenset()

    def covers(self, used: frozenset[str]) -> bool:
        """Whether a workload that uses these flavors has to pass the check."""
        return not self.flavors or not self.flavors.isdisjoint(used)


class ConcurrentAdmission(Struct):
    mode: str = "TryPreferredFlavors"
    last_acceptable_flavor: str = ""

    @property
    def retains(self) -> bool:
        """Whether an admitted variant is never migrated."""
        return self.mode == "RetainFirstAdmission"


class ClusterQueue(Struct):
    """A ClusterQueue. If `faults` is set, the spec is invalid and only the name is set."""

    name: str
    cohort: str = ""
    groups: tuple[ResourceGroup, ...] = ()
    strategy: str = "BestEffortFIFO"
    stop_policy: str = "None"
    namespace_selector: LabelSelector | None = None
    fungibility: Fungibility = Fungibility()
    preemption: Preemption = Preemption()
    weight: float = 1.0
    checks: tuple[CheckRule, ...] = ()
    usage_based: bool = False
    concurrent_admission: ConcurrentAdmission | None = None
    deleting: bool = False
    faults: tuple[str, ...] = ()

    @property
    def strict(self) -> bool:
        return self.strategy == "StrictFIFO"


class Cohort(Struct):
    name: str
    parent: str = ""
    groups: tuple[ResourceGroup, ...] = ()
    weight: float = 1.0


class LocalQueue(Struct):
    """A LocalQueue. `consumed` is the usage in its status, in billionths; None if there is none."""

    key: Key
    cluster_queue: str = ""
    stop_policy: str = "None"
    weight: float = 1.0
    consumed: dict[str, int] | None = None


class ResourceFlavor(Struct):
    name: str
    labels: dict[str, str] = {}
    taints: tuple[Taint, ...] = ()
    tolerations: tuple[Toleration, ...] = ()
    topology: str = ""


class Topology(Struct):
    name: str
    levels: tuple[str, ...] = ()


class Node(Struct):
    """A node as placement sees it. Amounts are in the units of requests."""

    name: str
    labels: dict[str, str] = {}
    taints: tuple[Taint, ...] = ()
    allocatable: Requests = {}
    ready: bool = True
    unschedulable: bool = False

    @property
    def usable(self) -> bool:
        return self.ready and not self.unschedulable


class PodUsage(Struct):
    """What a pod that no topology places, such as one of a DaemonSet, uses on its node."""

    key: Key
    node: str
    requests: Requests = {}


class AdmissionCheck(Struct):
    name: str
    controller: str = ""
    active: bool = False


class Namespace(Struct):
    name: str
    labels: dict[str, str] = {}


class PodSet(Struct):
    """Pods with one template. `requests` is the total of `pods`; `count` is the count in the spec.

    `pods` is the count without reclaimable pods. `topology` is the topology request as stored; only
    the placement reads it.
    """

    name: str
    count: int
    pods: int
    requests: Requests
    min_count: int | None = None
    group: str = ""
    topology: TopologyRequest | None = None
    template: PodTemplateSpec = PodTemplateSpec()


class PodSetReservation(Struct):
    """The recorded assignment of one pod set with reserved quota.

    `delayed_topology` is "Pending" while the pods of a reserved workload wait for their places,
    "Ready" after they were placed late, and "" if placement was not delayed.
    """

    name: str
    flavors: dict[str, str]
    requests: Requests
    count: int
    topology: TopologyAssignment | None = None
    delayed_topology: str = ""

    @property
    def topology_pending(self) -> bool:
        return self.topology is None and self.delayed_topology == "Pending"


class Reservation(Struct):
    """Quota reserved in a ClusterQueue. `usage` does not include reclaimable pods."""

    cluster_queue: str
    pod_sets: tuple[PodSetReservation, ...]
    usage: Amounts
    since: Instant | None = None


class Eviction(Struct):
    reason: str
    at: Instant


class Workload(Struct):
    """A workload, admitted as a whole or not at all. `priority` includes the boost.

    `faults` are reasons why it can never be admitted (requests above limits, LimitRange). With
    `devices_unknown`, they are reasons why the devices that it requests cannot be charged.
    `scheduling_hash` is equal for workloads that the scheduler cannot distinguish; "" means unique.
    `pod_set_updates` are the constraints that Ready admission checks add to pods, by pod set.
    """

    key: Key
    uid: str = ""
    generation: int = 0
    queue: str = ""
    priority: int = 0
    boost: int = 0
    created: Instant = 0.0
    pod_sets: tuple[PodSet, ...] = ()
    scheduling_hash: str = ""
    faults: tuple[str, ...] = ()
    devices_unknown: bool = False
    active: bool = True
    finished: bool = False
    admitted: bool = False
    pods_ready: bool = False
    on_hold: bool = False
    waiting_for_pods: bool = False
    gated_by: str = ""
    reservation: Reservation | None = None
    evicted: Eviction | None = None
    preempted: Eviction | None = None
    requeued: bool | None = None
    requeue_at: Instant | None = None
    checks: dict[str, str] = {}
    pod_set_updates: dict[str, tuple[PodSetUpdate, ...]] = {}
    closed_gates: bool = False
    reclaimable: dict[str, int] = {}
    unhealthy_nodes: tuple[str, ...] = ()
    replaces: Key | None = None
    elastic: bool = False
    allowed_flavors: frozenset[str] | None = None
    parent_uid: str = ""
    is_parent: bool = False
    owned_by_pod: bool = False
    owner_uid: str = ""

    def tombstone(self) -> Workload:
        """Return what has to be remembered of a finished workload: its identity and its queue."""
        held = self.reservation
        return Workload(
            key=self.key,
            uid=self.uid,
            queue=self.queue,
            priority=self.priority,
            active=self.active,
            finished=True,
            reservation=held
            and Reservation(cluster_queue=held.cluster_queue, pod_sets=(), usage={}),
            parent_uid=self.parent_uid,
            is_parent=self.is_parent,
        )

    @property
    def replaces_nodes(self) -> bool:
        """Whether nodes failed to which the pods of its reservation may be assigned."""
        return bool(self.unhealthy_nodes) and self.reservation is not None

    @property
    def local_queue(self) -> Key:
        return Key(self.key.namespace, self.queue)

    @property
    def charged(self) -> bool:
        """Whether its reservation counts as usage.

        For a parent, the variant's reservation counts.
        """
        holds = self.reservation is not None and not self.is_parent
        return holds and self.active and not self.finished

    @property
    def queueable(self) -> bool:
        """Whether it may be queued."""
        return (
            self.active
            and not self.finished
            and self.reservation is None
            and not self.on_hold
            and not self.waiting_for_pods
            and not self.gated_by
            and not self.is_parent
        )
