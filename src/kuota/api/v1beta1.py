# SPDX-License-Identifier: Apache-2.0
"""The shapes of `kueue.x-k8s.io/v1beta1` that differ from v1beta2, and the table of all kinds.

These describe what is on the wire (schemas are made from them); decisions are made on v1beta2
only, after `kuota.api.convert`.
"""

from __future__ import annotations

from datetime import datetime

from . import kueue as v2
from . import workload as w
from .base import Condition, LabelSelector, Object, ResourceList, Struct
from .core import PodTemplateSpec, Taint

V1BETA1 = f"{v2.GROUP}/v1beta1"


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


class PodSet(Struct):
    name: str = ""
    template: PodTemplateSpec = PodTemplateSpec()
    count: int = 0
    min_count: int | None = None
    topology_request: TopologyRequest | None = None


class WorkloadSpec(Struct):
    pod_sets: list[PodSet] | None = None
    queue_name: str = ""
    priority_class_name: str = ""
    priority_class_source: str = ""
    priority: int | None = None
    active: bool | None = None
    maximum_execution_time_seconds: int | None = None


class TopologyDomain(Struct):
    values: list[str] | None = None
    count: int = 0


class TopologyAssignment(Struct):
    levels: list[str] | None = None
    domains: list[TopologyDomain] | None = None


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


class WorkloadStatus(Struct):
    conditions: list[Condition] | None = None
    admission: Admission | None = None
    requeue_state: w.RequeueState | None = None
    reclaimable_pods: list[w.ReclaimablePod] | None = None
    admission_checks: list[w.AdmissionCheckState] | None = None
    resource_requests: list[w.PodSetRequest] | None = None
    # The misspelling is the wire name in this version.
    accumulated_past_exexcution_time_seconds: int | None = None
    scheduling_stats: w.SchedulingStats | None = None
    nominated_cluster_names: list[str] | None = None
    cluster_name: str | None = None
    unhealthy_nodes: list[w.UnhealthyNode] | None = None


class Workload(Object):
    spec: WorkloadSpec = WorkloadSpec()
    status: WorkloadStatus = WorkloadStatus()


class FairSharingStatus(Struct):
    weighted_share: int = 0
    admission_fair_sharing_status: v2.AdmissionFairSharingStatus | None = None


class ClusterQueueSpec(Struct):
    resource_groups: list[v2.ResourceGroup] | None = None
    cohort: str = ""
    queueing_strategy: str = ""
    namespace_selector: LabelSelector | None = None
    flavor_fungibility: v2.FlavorFungibility | None = None
    preemption: v2.ClusterQueuePreemption | None = None
    admission_checks: list[str] | None = None
    admission_checks_strategy: v2.AdmissionChecksStrategy | None = None
    stop_policy: str | None = None
    fair_sharing: v2.FairSharing | None = None
    admission_scope: v2.AdmissionScope | None = None


class ClusterQueuePendingWorkload(Struct):
    name: str = ""
    namespace: str = ""


class PendingWorkloadsStatus(Struct):
    cluster_queue_pending_workload: list[ClusterQueuePendingWorkload] | None = None
    last_change_time: datetime | None = None


class ClusterQueueStatus(Struct):
    conditions: list[Condition] | None = None
    flavors_reservation: list[v2.FlavorUsage] | None = None
    flavors_usage: list[v2.FlavorUsage] | None = None
    pending_workloads: int = 0
    reserving_workloads: int = 0
    admitted_workloads: int = 0
    pending_workloads_status: PendingWorkloadsStatus | None = None
    fair_sharing: FairSharingStatus | None = None


class ClusterQueue(Object):
    spec: ClusterQueueSpec = ClusterQueueSpec()
    status: ClusterQueueStatus = ClusterQueueStatus()


class CohortStatus(Struct):
    fair_sharing: FairSharingStatus | None = None


class Cohort(Object):
    spec: v2.CohortSpec = v2.CohortSpec()
    status: CohortStatus = CohortStatus()


class FlavorTopology(Struct):
    name: str = ""
    levels: list[str] | None = None


class LocalQueueFlavorStatus(Struct):
    name: str = ""
    resources: list[str] | None = None
    node_labels: dict[str, str] | None = None
    node_taints: list[Taint] | None = None
    topology: FlavorTopology | None = None


class LocalQueueStatus(Struct):
    conditions: list[Condition] | None = None
    pending_workloads: int = 0
    reserving_workloads: int = 0
    admitted_workloads: int = 0
    flavors_reservation: list[v2.FlavorUsage] | None = None
    flavor_usage: list[v2.FlavorUsage] | None = None
    flavors: list[LocalQueueFlavorStatus] | None = None
    fair_sharing: FairSharingStatus | None = None


class LocalQueue(Object):
    spec: v2.LocalQueueSpec = v2.LocalQueueSpec()
    status: LocalQueueStatus = LocalQueueStatus()


class AdmissionCheckSpec(Struct):
    controller_name: str = ""
    retry_delay_minutes: int | None = None
    parameters: v2.AdmissionCheckParameters | None = None


class AdmissionCheck(Object):
    spec: AdmissionCheckSpec = AdmissionCheckSpec()
    status: v2.AdmissionCheckStatus = v2.AdmissionCheckStatus()


class MultiKueueConfigSpec(Struct):
    clusters: list[str] | None = None


class MultiKueueConfig(Object):
    spec: MultiKueueConfigSpec = MultiKueueConfigSpec()


class MultiKueueClusterSpec(Struct):
    kube_config: v2.KubeConfig = v2.KubeConfig()
    cluster_profile_ref: v2.ClusterProfileReference | None = None


class MultiKueueCluster(Object):
    spec: MultiKueueClusterSpec = MultiKueueClusterSpec()
    status: v2.MultiKueueClusterStatus = v2.MultiKueueClusterStatus()


_OWN = (
    Workload,
    ClusterQueue,
    Cohort,
    LocalQueue,
    AdmissionCheck,
    MultiKueueConfig,
    MultiKueueCluster,
)

KINDS: dict[str, type[Object]] = v2.KINDS | {kind.__name__: kind for kind in _OWN}
