# SPDX-License-Identifier: Apache-2.0
"""Defines Workload, the `kueue.x-k8s.io/v1beta2` kind that represents a job waiting for quota."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from .base import Condition, Object, ResourceList, Struct
from .core import PodTemplateSpec, Toleration

PREEMPTOR_UID = "kuota.dev/preemptor-uid"
"""The annotation with the UID of the Workload that last preempted this one."""
TIMED_OUT = "kuota.dev/TimedOut"
"""The condition of a finished Workload whose job failed because it exceeded its own deadline."""


class SliceTopologyConstraint(Struct):
    topology: str = ""
    size: int = 0


class TopologyRequest(Struct):
    required: str | None = None
    preferred: str | None = None
    unconstrained: bool | None = None
    pod_index_label: str | None = None
    sub_group_index_label: str | None = None
    sub_group_count: int | None = None
    pod_set_group_name: str | None = None
    pod_set_slice_required_topology: str | None = None
    pod_set_slice_size: int | None = None
    podset_slice_required_topology_constraints: list[SliceTopologyConstraint] | None = None


class PodSet(Struct):
    name: str = ""
    template: PodTemplateSpec = PodTemplateSpec()
    count: int = 0
    min_count: int | None = None
    topology_request: TopologyRequest | None = None


class PriorityClassRef(Struct):
    group: str = ""
    kind: str = ""
    name: str = ""


class PreemptionGate(Struct):
    name: str = ""


class WorkloadSpec(Struct):
    pod_sets: list[PodSet] | None = None
    queue_name: str = ""
    priority_class_ref: PriorityClassRef | None = None
    priority: int | None = None
    active: bool | None = None
    maximum_execution_time_seconds: int | None = None
    preemption_gates: list[PreemptionGate] | None = None


class PodCounts(Struct):
    universal: int | None = None
    individual: list[int] | None = None


class LevelValues(Struct):
    prefix: str | None = None
    suffix: str | None = None
    roots: list[str] | None = None


class LevelSlice(Struct):
    universal: str | None = None
    individual: LevelValues | None = None


class TopologySlice(Struct):
    domain_count: int = 0
    values_per_level: list[LevelSlice] | None = None
    pod_counts: PodCounts = PodCounts()


class TopologyAssignment(Struct):
    levels: list[str] | None = None
    slices: list[TopologySlice] | None = None


class PodSetAssignment(Struct):
    name: str = ""
    flavors: dict[str, str] | None = None
    resource_usage: ResourceList | None = None
    count: int | None = None
    topology_assignment: TopologyAssignment | None = None
    delayed_topology_request: str | None = None


class Admission(Struct):
    cluster_queue: str = ""
    pod_set_assignments: list[PodSetAssignment] | None = None


class PodSetUpdate(Struct):
    name: str = ""
    labels: dict[str, str] | None = None
    annotations: dict[str, str] | None = None
    node_selector: dict[str, str] | None = None
    tolerations: list[Toleration] | None = None


class AdmissionCheckState(Struct):
    name: str = ""
    state: str = ""
    message: str = ""
    last_transition_time: datetime | None = None
    pod_set_updates: list[PodSetUpdate] | None = None
    requeue_after_seconds: int | None = None
    retry_count: int | None = None


class RequeueState(Struct):
    count: int | None = None
    requeue_at: datetime | None = None


class ReclaimablePod(Struct):
    name: str = ""
    count: int = 0


class PodSetRequest(Struct):
    name: str = ""
    resources: ResourceList | None = None


class Eviction(Struct):
    reason: str = ""
    underlying_cause: str = ""
    count: int = 0


class SchedulingStats(Struct):
    evictions: list[Eviction] | None = None


class UnhealthyNode(Struct):
    name: str = ""


class PreemptionGateState(Struct):
    name: str = ""
    position: str = ""
    last_transition_time: datetime | None = None


class WorkloadStatus(Struct):
    conditions: list[Condition] | None = None
    admission: Admission | None = None
    requeue_state: RequeueState | None = None
    reclaimable_pods: list[ReclaimablePod] | None = None
    admission_checks: list[AdmissionCheckState] | None = None
    resource_requests: list[PodSetRequest] | None = None
    accumulated_past_execution_time_seconds: int | None = None
    scheduling_stats: SchedulingStats | None = None
    nominated_cluster_names: list[str] | None = None
    cluster_name: str | None = None
    unhealthy_nodes: list[UnhealthyNode] | None = None
    preemption_gates: list[PreemptionGateState] | None = None


class Workload(Object):
    spec: WorkloadSpec = WorkloadSpec()
    status: WorkloadStatus = WorkloadStatus()

    @property
    def assignments(self) -> Sequence[PodSetAssignment]:
        """What the admission assigns to each pod set; empty without an admission."""
        admission = self.status.admission
        return (admission.pod_set_assignments if admission is not None else None) or ()
