# SPDX-License-Identifier: Apache-2.0
"""Defines the constraints of Workload."""

from __future__ import annotations

from .rule import (
    Table,
    amended,
    atomic,
    dns_label,
    field,
    int32,
    keyed,
    one_of,
    relaxed,
    subdomain,
    text,
    time,
    under,
)
from .shared import TOLERATIONS, conditions

_REQUEST = "spec.podSets[].topologyRequest"
_ASSIGNMENT = "status.admission.podSetAssignments[].topologyAssignment"

TOPOLOGY_REQUEST: Table = {
    "podIndexLabel": text(317),
    "podSetGroupName": text(256),
    "podSetSliceRequiredTopology": text(63),
    "podSetSliceSize": int32(minimum=1),
    "podsetSliceRequiredTopologyConstraints": atomic(3),
    "podsetSliceRequiredTopologyConstraints[].size": int32(required=True, minimum=1),
    "podsetSliceRequiredTopologyConstraints[].topology": text(63, required=True, min_length=1),
    "preferred": text(63),
    "required": text(63),
    "subGroupCount": int32(minimum=0),
    "subGroupIndexLabel": text(317),
}

TOPOLOGY_ASSIGNMENT: Table = {
    "levels": atomic(16, required=True, min_items=1),
    "levels[]": text(317),
    "slices": atomic(1000, required=True),
    "slices[].domainCount": int32(required=True, minimum=1),
    "slices[].podCounts": field(required=True),
    "slices[].podCounts.individual": atomic(100_000, min_items=1),
    "slices[].podCounts.individual[]": int32(minimum=1),
    "slices[].podCounts.universal": int32(minimum=1),
    "slices[].valuesPerLevel": atomic(16, required=True, min_items=1),
    "slices[].valuesPerLevel[].individual.prefix": text(63),
    "slices[].valuesPerLevel[].individual.roots": atomic(100_000, required=True, min_items=1),
    "slices[].valuesPerLevel[].individual.roots[]": text(63),
    "slices[].valuesPerLevel[].individual.suffix": text(63),
    "slices[].valuesPerLevel[].universal": text(63),
}

SPEC: Table = {
    "active": field(default=True),
    "maximumExecutionTimeSeconds": int32(minimum=1),
    "podSets": keyed(min_items=1, max_items=18),
    "podSets[].count": int32(default=1, minimum=0),
    "podSets[].minCount": int32(minimum=1),
    "podSets[].name": dns_label(default="main"),
    "podSets[].template": field(required=True),
    "preemptionGates": keyed(max_items=8),
    "preemptionGates[].name": text(63, required=True, min_length=1),
    "priority": int32(),
    "priorityClassRef.group": one_of("kueue.x-k8s.io", "scheduling.k8s.io", required=True),
    "priorityClassRef.kind": one_of("WorkloadPriorityClass", "PriorityClass", required=True),
    "priorityClassRef.name": subdomain(required=True, min_length=1),
    "queueName": subdomain(),
}

ADMISSION_CHECKS: Table = {
    "": keyed(max_items=8),
    "[].lastTransitionTime": time(required=True),
    "[].message": text(32768, required=True),
    "[].name": text(316, required=True, min_length=1),
    "[].podSetUpdates": atomic(18),
    "[].podSetUpdates[].name": dns_label(required=True),
    **under("[].podSetUpdates[].tolerations", TOLERATIONS),
    "[].requeueAfterSeconds": int32(minimum=0),
    "[].retryCount": int32(minimum=0),
    "[].state": one_of("Pending", "Ready", "Retry", "Rejected", required=True),
}

STATUS: Table = {
    "accumulatedPastExecutionTimeSeconds": int32(),
    "admission.clusterQueue": subdomain(),
    "admission.podSetAssignments": keyed(max_items=18),
    "admission.podSetAssignments[].count": int32(minimum=0),
    "admission.podSetAssignments[].delayedTopologyRequest": one_of(
        "Pending", "Ready", max_length=7
    ),
    "admission.podSetAssignments[].flavors{}": subdomain(),
    "admission.podSetAssignments[].name": dns_label(default="main"),
    "clusterName": text(256),
    "nominatedClusterNames": atomic(20),
    "nominatedClusterNames[]": text(256),
    "preemptionGates": keyed(max_items=8),
    "preemptionGates[].lastTransitionTime": time(required=True),
    "preemptionGates[].name": text(63, required=True, min_length=1),
    "preemptionGates[].position": one_of("Closed", "Open", required=True),
    "reclaimablePods": keyed(max_items=18),
    "reclaimablePods[].count": int32(required=True, minimum=0),
    "reclaimablePods[].name": dns_label(required=True),
    "requeueState.count": int32(minimum=0),
    "requeueState.requeueAt": time(),
    "resourceRequests": keyed(max_items=18),
    "resourceRequests[].name": dns_label(required=True),
    "schedulingStats.evictions": keyed("reason", "underlyingCause", max_items=256),
    "schedulingStats.evictions[].count": int32(required=True, minimum=0),
    "schedulingStats.evictions[].reason": text(316, required=True),
    "schedulingStats.evictions[].underlyingCause": text(316, required=True),
    "unhealthyNodes": keyed(max_items=8),
    "unhealthyNodes[].name": text(63, required=True),
}

V1BETA2: Table = {
    **under("spec", SPEC),
    **under(_REQUEST, TOPOLOGY_REQUEST),
    **under("status", STATUS),
    **under(_ASSIGNMENT, TOPOLOGY_ASSIGNMENT),
    **under("status.admissionChecks", ADMISSION_CHECKS),
    **conditions(),
}

_SOURCES = ("kueue.x-k8s.io/workloadpriorityclass", "scheduling.k8s.io/priorityclass", "")

V1BETA1: Table = relaxed(
    amended(
        V1BETA2,
        gone=(
            *(f"{_REQUEST}.{name}" for name in TOPOLOGY_REQUEST if name != "podSetSliceSize"),
            "status.clusterName",
            "status.nominatedClusterNames[]",
            "status.unhealthyNodes",
            f"{_ASSIGNMENT}.levels[]",
        ),
        changed={
            "spec.podSets": keyed(required=True, min_items=1, max_items=18),
            "spec.podSets[].count": int32(required=True, default=1, minimum=0),
            "spec.priorityClassName": subdomain(),
            "spec.priorityClassSource": one_of(*_SOURCES, default=""),
            f"{_REQUEST}.subGroupCount": int32(),
            "status.accumulatedPastExexcutionTimeSeconds": int32(),
            "status.admission.clusterQueue": subdomain(required=True),
            "status.admission.podSetAssignments": keyed(required=True, max_items=18),
            "status.admission.podSetAssignments[].delayedTopologyRequest": field(),
            "status.admission.podSetAssignments[].name": dns_label(required=True, default="main"),
            f"{_ASSIGNMENT}.domains": field(required=True),
            f"{_ASSIGNMENT}.domains[].values": atomic(16, required=True, min_items=1),
            f"{_ASSIGNMENT}.domains[].count": int32(required=True, minimum=1),
            "status.schedulingStats.evictions": keyed("reason", "underlyingCause"),
            "status.unhealthyNodes[].name": field(required=True),
        },
    )
)
