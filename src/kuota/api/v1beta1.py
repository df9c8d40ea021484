# SPDX-License-Identifier: Apache-2.0
"""Defines the structs of `kueue.x-k8s.io/v1beta1` that differ from v1beta2, and all its kinds.

The structs describe the wire format, and schemas are generated from them. The scheduler uses only
v1beta2, after `kuota.api.convert`. A struct has the fields of its v1beta2 counterpart and those
that only v1beta1 has. `GONE` lists the fields that only v1beta2 has. Schemas omit them.
"""

from __future__ import annotations

from datetime import datetime

from . import kueue as v2
from . import workload as w
from .base import Object, Struct
from .core import Taint

V1BETA1 = f"{v2.GROUP}/v1beta1"


class WorkloadSpec(w.WorkloadSpec):
    priority_class_name: str = ""
    priority_class_source: str = ""


class TopologyDomain(Struct):
    values: list[str] | None = None
    count: int = 0


class TopologyAssignment(w.TopologyAssignment):
    domains: list[TopologyDomain] | None = None


class PodSetAssignment(w.PodSetAssignment):
    topology_assignment: TopologyAssignment | None = None


class Admission(w.Admission):
    # mypy rejects the narrower list because lists are mutable, but this one is never modified.
    pod_set_assignments: list[PodSetAssignment] | None = None  # type: ignore[assignment]


class WorkloadStatus(w.WorkloadStatus):
    admission: Admission | None = None
    # The misspelling is the wire name in this version.
    accumulated_past_exexcution_time_seconds: int | None = None


class Workload(w.Workload):
    spec: WorkloadSpec = WorkloadSpec()
    status: WorkloadStatus = WorkloadStatus()


class ClusterQueueSpec(v2.ClusterQueueSpec):
    cohort: str = ""
    admission_checks: list[str] | None = None


class ClusterQueuePendingWorkload(Struct):
    name: str = ""
    namespace: str = ""


class PendingWorkloadsStatus(Struct):
    cluster_queue_pending_workload: list[ClusterQueuePendingWorkload] | None = None
    last_change_time: datetime | None = None


class ClusterQueueStatus(v2.ClusterQueueStatus):
    pending_workloads_status: PendingWorkloadsStatus | None = None
    fair_sharing: v2.LocalQueueFairSharingStatus | None = None


class ClusterQueue(v2.ClusterQueue):
    spec: ClusterQueueSpec = ClusterQueueSpec()
    status: ClusterQueueStatus = ClusterQueueStatus()


class CohortStatus(v2.CohortStatus):
    fair_sharing: v2.LocalQueueFairSharingStatus | None = None


class Cohort(v2.Cohort):
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


class LocalQueueStatus(v2.LocalQueueStatus):
    flavor_usage: list[v2.FlavorUsage] | None = None
    flavors: list[LocalQueueFlavorStatus] | None = None


class LocalQueue(v2.LocalQueue):
    status: LocalQueueStatus = LocalQueueStatus()


class AdmissionCheckSpec(v2.AdmissionCheckSpec):
    retry_delay_minutes: int | None = None


class AdmissionCheck(v2.AdmissionCheck):
    spec: AdmissionCheckSpec = AdmissionCheckSpec()


class MultiKueueClusterSpec(v2.MultiKueueClusterSpec):
    kube_config: v2.KubeConfig = v2.KubeConfig()
    cluster_profile_ref: v2.ClusterProfileReference | None = None


class MultiKueueCluster(v2.MultiKueueCluster):
    spec: MultiKueueClusterSpec = MultiKueueClusterSpec()


_OWN = (Workload, ClusterQueue, Cohort, LocalQueue, AdmissionCheck, MultiKueueCluster)

KINDS: dict[str, type[Object]] = v2.KINDS | {kind.__name__: kind for kind in _OWN}

GONE: dict[str, frozenset[str]] = {
    "Workload": frozenset(
        {
            "spec.podSets[].topologyRequest.podsetSliceRequiredTopologyConstraints",
            "spec.preemptionGates",
            "spec.priorityClassRef",
            "status.accumulatedPastExecutionTimeSeconds",
            "status.admission.podSetAssignments[].topologyAssignment.slices",
            "status.preemptionGates",
        }
    ),
    "ClusterQueue": frozenset({"spec.cohortName", "spec.concurrentAdmissionPolicy"}),
    "LocalQueue": frozenset({"status.flavorsUsage"}),
    "MultiKueueConfig": frozenset({"spec.quotaManagement"}),
    "MultiKueueCluster": frozenset({"spec.clusterSource"}),
}
"""The paths of fields that v1beta1 does not have, by kind."""
