# SPDX-License-Identifier: Apache-2.0
"""Defines the kinds of `kueue.x-k8s.io/v1beta2`, except Workload, which has its own module."""

from __future__ import annotations

from datetime import datetime

from .base import Condition, LabelSelector, Object, Quantity, ResourceList, Struct
from .core import Taint, Toleration
from .workload import Workload

GROUP = "kueue.x-k8s.io"
V1BETA2 = f"{GROUP}/v1beta2"
MULTIKUEUE = f"{GROUP}/multikueue"
PROVISIONING = f"{GROUP}/provisioning-request"
"""Controllers of admission checks that are part of Kueue."""

# --- shared ---------------------------------------------------------------------------------


class FairSharing(Struct):
    weight: Quantity | None = None


class ResourceQuota(Struct):
    name: str = ""
    nominal_quota: Quantity = 0
    borrowing_limit: Quantity | None = None
    lending_limit: Quantity | None = None


class FlavorQuotas(Struct):
    name: str = ""
    resources: list[ResourceQuota] | None = None


class ResourceGroup(Struct):
    covered_resources: list[str] | None = None
    flavors: list[FlavorQuotas] | None = None


class FairSharingStatus(Struct):
    weighted_share: int = 0


# --- ClusterQueue ---------------------------------------------------------------------------


class BorrowWithinCohort(Struct):
    policy: str = ""
    max_priority_threshold: int | None = None


class ClusterQueuePreemption(Struct):
    within_cluster_queue: str = ""
    reclaim_within_cohort: str = ""
    borrow_within_cohort: BorrowWithinCohort | None = None


class FlavorFungibility(Struct):
    when_can_borrow: str = ""
    when_can_preempt: str = ""
    preference: str | None = None


class AdmissionCheckRule(Struct):
    name: str = ""
    on_flavors: list[str] | None = None


class AdmissionChecksStrategy(Struct):
    admission_checks: list[AdmissionCheckRule] | None = None


class AdmissionScope(Struct):
    admission_mode: str = ""


class MigrationConstraints(Struct):
    last_acceptable_flavor_name: str | None = None


class Migration(Struct):
    mode: str = ""
    constraints: MigrationConstraints | None = None


class ConcurrentAdmissionPolicy(Struct):
    migration: Migration = Migration()


class ClusterQueueSpec(Struct):
    resource_groups: list[ResourceGroup] | None = None
    cohort_name: str = ""
    queueing_strategy: str = ""
    namespace_selector: LabelSelector | None = None
    flavor_fungibility: FlavorFungibility | None = None
    preemption: ClusterQueuePreemption | None = None
    admission_checks_strategy: AdmissionChecksStrategy | None = None
    stop_policy: str | None = None
    fair_sharing: FairSharing | None = None
    admission_scope: AdmissionScope | None = None
    concurrent_admission_policy: ConcurrentAdmissionPolicy | None = None


class ResourceUsage(Struct):
    name: str = ""
    total: Quantity | None = None
    borrowed: Quantity | None = None


class FlavorUsage(Struct):
    name: str = ""
    resources: list[ResourceUsage] | None = None


class ClusterQueueStatus(Struct):
    conditions: list[Condition] | None = None
    flavors_reservation: list[FlavorUsage] | None = None
    flavors_usage: list[FlavorUsage] | None = None
    pending_workloads: int = 0
    reserving_workloads: int = 0
    admitted_workloads: int = 0
    fair_sharing: FairSharingStatus | None = None


class ClusterQueue(Object):
    spec: ClusterQueueSpec = ClusterQueueSpec()
    status: ClusterQueueStatus = ClusterQueueStatus()


# --- Cohort ---------------------------------------------------------------------------------


class CohortSpec(Struct):
    parent_name: str = ""
    resource_groups: list[ResourceGroup] | None = None
    fair_sharing: FairSharing | None = None


class CohortStatus(Struct):
    fair_sharing: FairSharingStatus | None = None


class Cohort(Object):
    spec: CohortSpec = CohortSpec()
    status: CohortStatus = CohortStatus()


# --- LocalQueue -----------------------------------------------------------------------------


class LocalQueueSpec(Struct):
    cluster_queue: str = ""
    stop_policy: str | None = None
    fair_sharing: FairSharing | None = None


class AdmissionFairSharingStatus(Struct):
    consumed_resources: ResourceList | None = None
    last_update: datetime | None = None


class LocalQueueFairSharingStatus(FairSharingStatus):
    admission_fair_sharing_status: AdmissionFairSharingStatus | None = None


class LocalQueueStatus(Struct):
    conditions: list[Condition] | None = None
    pending_workloads: int = 0
    reserving_workloads: int = 0
    admitted_workloads: int = 0
    flavors_reservation: list[FlavorUsage] | None = None
    flavors_usage: list[FlavorUsage] | None = None
    fair_sharing: LocalQueueFairSharingStatus | None = None


class LocalQueue(Object):
    spec: LocalQueueSpec = LocalQueueSpec()
    status: LocalQueueStatus = LocalQueueStatus()


# --- ResourceFlavor, Topology ---------------------------------------------------------------


class ResourceFlavorSpec(Struct):
    node_labels: dict[str, str] | None = None
    node_taints: list[Taint] | None = None
    tolerations: list[Toleration] | None = None
    topology_name: str | None = None


class ResourceFlavor(Object):
    spec: ResourceFlavorSpec = ResourceFlavorSpec()


class TopologyLevel(Struct):
    node_label: str = ""


class TopologySpec(Struct):
    levels: list[TopologyLevel] | None = None


class Topology(Object):
    spec: TopologySpec = TopologySpec()


# --- AdmissionCheck, WorkloadPriorityClass --------------------------------------------------


class AdmissionCheckParameters(Struct):
    api_group: str = ""
    kind: str = ""
    name: str = ""


class AdmissionCheckSpec(Struct):
    controller_name: str = ""
    parameters: AdmissionCheckParameters | None = None


class AdmissionCheckStatus(Struct):
    conditions: list[Condition] | None = None


class AdmissionCheck(Object):
    spec: AdmissionCheckSpec = AdmissionCheckSpec()
    status: AdmissionCheckStatus = AdmissionCheckStatus()


class WorkloadPriorityClass(Object):
    value: int = 0
    description: str = ""


# --- ProvisioningRequestConfig, MultiKueue --------------------------------------------------


class RetryStrategy(Struct):
    backoff_limit_count: int | None = None
    backoff_base_seconds: int | None = None
    backoff_max_seconds: int | None = None


class NodeSelectorUpdate(Struct):
    key: str = ""
    value_from_provisioning_class_detail: str = ""


class PodSetUpdates(Struct):
    node_selector: list[NodeSelectorUpdate] | None = None


class ProvisioningRequestConfigSpec(Struct):
    provisioning_class_name: str = ""
    parameters: dict[str, str] | None = None
    managed_resources: list[str] | None = None
    retry_strategy: RetryStrategy | None = None
    pod_set_updates: PodSetUpdates | None = None
    pod_set_merge_policy: str | None = None


class ProvisioningRequestConfig(Object):
    spec: ProvisioningRequestConfigSpec = ProvisioningRequestConfigSpec()


class MultiKueueConfigSpec(Struct):
    clusters: list[str] | None = None
    quota_management: str | None = None


class MultiKueueConfig(Object):
    spec: MultiKueueConfigSpec = MultiKueueConfigSpec()


class KubeConfig(Struct):
    location: str = ""
    location_type: str = ""


class ClusterProfileReference(Struct):
    name: str = ""


class ClusterSource(Struct):
    kube_config: KubeConfig | None = None
    cluster_profile_ref: ClusterProfileReference | None = None


class MultiKueueClusterSpec(Struct):
    cluster_source: ClusterSource = ClusterSource()


class MultiKueueClusterStatus(Struct):
    conditions: list[Condition] | None = None


class MultiKueueCluster(Object):
    spec: MultiKueueClusterSpec = MultiKueueClusterSpec()
    status: MultiKueueClusterStatus = MultiKueueClusterStatus()


KINDS: dict[str, type[Object]] = {
    kind.__name__: kind
    for kind in (
        Workload,
        ClusterQueue,
        Cohort,
        LocalQueue,
        ResourceFlavor,
        Topology,
        AdmissionCheck,
        WorkloadPriorityClass,
        ProvisioningRequestConfig,
        MultiKueueConfig,
        MultiKueueCluster,
    )
}
