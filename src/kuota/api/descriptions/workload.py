# SPDX-License-Identifier: Apache-2.0
"""Provides the descriptions of Workload."""

from __future__ import annotations

from ..constraints.rule import under
from .shared import TOLERATIONS, Words, conditions

_POD_SET: Words = {
    "name": "Name of the pod set, unique in the Workload.",
    "template": "The template of its pods.",
    "count": "The number of pods.",
    "minCount": "The minimum number of pods, if the job can start with fewer than count.",
    "topologyRequest": "How pods are placed in a topology.",
}
_TOPOLOGY_REQUEST: Words = {
    "required": "The node label of the level; all pods must be in one domain of it.",
    "preferred": "The node label of the level; all pods should be in one domain of it.",
    "unconstrained": "Whether pods can be placed in any domains with free capacity.",
    "podIndexLabel": "The pod label with the index of the pod.",
    "subGroupIndexLabel": "The pod label with the index of its group in the pod set.",
    "subGroupCount": "The number of these groups.",
    "podSetGroupName": "Pod sets of the same group are placed together.",
    "podSetSliceRequiredTopology": "The node label of the level of each slice's domain.",
    "podSetSliceSize": "The number of pods of a slice.",
    "podsetSliceRequiredTopologyConstraints": "Nested slices, largest domains first.",
    "podsetSliceRequiredTopologyConstraints[].topology": "The node label of the level.",
    "podsetSliceRequiredTopologyConstraints[].size": "The number of pods of a slice at this level.",
}
_SPEC: Words = {
    "": "The pods of the job, its queue and its priority.",
    "podSets": "Sets of identical pods. All sets are admitted together.",
    "queueName": "The LocalQueue, in the same namespace.",
    "priorityClassRef": "The class that defines the priority.",
    "priorityClassRef.group": "API group of the class.",
    "priorityClassRef.kind": "WorkloadPriorityClass or PriorityClass.",
    "priorityClassRef.name": "Name of the class.",
    "priorityClassName": "The name of the class that defines the priority.",
    "priorityClassSource": "The kind of that class.",
    "priority": "Workloads of higher priority are admitted first and can preempt others.",
    "active": "Whether it may be admitted. If false, it is evicted and not queued.",
    "maximumExecutionTimeSeconds": (
        "The maximum total time for which it is admitted; then it is evicted and deactivated."
    ),
    "preemptionGates": "Gates that must be open before it may preempt others.",
    "preemptionGates[].name": "Name of the gate.",
}
_ASSIGNMENT: Words = {
    "name": "Name of the pod set.",
    "flavors": "The flavor of each resource.",
    "resourceUsage": "The quota that all pods of the set use, by resource.",
    "count": "The number of admitted pods.",
    "topologyAssignment": "The topology domains of the pods.",
    "delayedTopologyRequest": "Pending if domains are assigned only after the admission checks.",
}
_SLICE: Words = {
    "domainCount": "The number of domains that the slice describes.",
    "valuesPerLevel": "The values of the domains for each level.",
    "valuesPerLevel[].universal": "The value that all domains have in common.",
    "valuesPerLevel[].individual": "The values, one for each domain.",
    "valuesPerLevel[].individual.prefix": "The common prefix of all values.",
    "valuesPerLevel[].individual.suffix": "The common suffix of all values.",
    "valuesPerLevel[].individual.roots": "The part between prefix and suffix, for each domain.",
    "podCounts": "The number of pods in each domain.",
    "podCounts.universal": "The number, if it is the same for all domains.",
    "podCounts.individual": "The number for each domain.",
}
_TOPOLOGY_ASSIGNMENT: Words = {
    "levels": "The node labels of the levels, from the largest domain to the smallest.",
    "slices": "The domains in compact form.",
    **under("slices[]", _SLICE),
    "domains": "The domains.",
    "domains[].values": "The value of each level's label.",
    "domains[].count": "The number of pods in the domain.",
}
_CHECK: Words = {
    "name": "Name of the AdmissionCheck.",
    "state": (
        "Pending, Ready, Retry (the Workload is evicted and queued again) or Rejected (it is "
        "deactivated)."
    ),
    "message": "A message of the controller of the check.",
    "lastTransitionTime": "The time of the last change of the state.",
    "podSetUpdates": "Changes of pods that the check requires.",
    "podSetUpdates[].name": "Name of the pod set.",
    "podSetUpdates[].labels": "Labels to add.",
    "podSetUpdates[].annotations": "Annotations to add.",
    "podSetUpdates[].nodeSelector": "Node labels to add to the node selector.",
    "podSetUpdates[].tolerations": "Tolerations to add.",
    **under("podSetUpdates[].tolerations", TOLERATIONS),
    "requeueAfterSeconds": "The minimum time before the next attempt.",
    "retryCount": "The number of times the check was in state Retry.",
}
_PAST_TIME = "The total time of earlier admissions, which ended with an eviction."
_STATUS: Words = {
    "": "The state of the Workload, such as pending, admitted, evicted or finished, and why.",
    "admission": "The reserved quota. Absent if no quota is reserved.",
    "admission.clusterQueue": "The ClusterQueue that admitted it.",
    "admission.podSetAssignments": "The assignment of each pod set.",
    **under("admission.podSetAssignments[]", _ASSIGNMENT),
    **under("admission.podSetAssignments[].topologyAssignment", _TOPOLOGY_ASSIGNMENT),
    "requeueState": "How often the Workload was requeued, and when it may be admitted again.",
    "requeueState.count": "How often it was requeued because its pods were not ready in time.",
    "requeueState.requeueAt": "The time at which it is queued again.",
    "reclaimablePods": "Pods that have finished, so that their quota is released.",
    "reclaimablePods[].name": "Name of the pod set.",
    "reclaimablePods[].count": "The number of its finished pods.",
    "admissionChecks": "The state of each admission check.",
    **under("admissionChecks[]", _CHECK),
    "resourceRequests": "The requests of each pod set, as long as no quota is reserved.",
    "resourceRequests[].name": "Name of the pod set.",
    "resourceRequests[].resources": "The requests of all its pods, as they are charged to quota.",
    "accumulatedPastExecutionTimeSeconds": _PAST_TIME,
    "accumulatedPastExexcutionTimeSeconds": _PAST_TIME,
    "schedulingStats": "Statistics about the scheduling of the Workload.",
    "schedulingStats.evictions": "The number of evictions by reason.",
    "schedulingStats.evictions[].reason": "The reason for the eviction.",
    "schedulingStats.evictions[].underlyingCause": "A more specific cause, if there is one.",
    "schedulingStats.evictions[].count": "The number of these evictions.",
    "nominatedClusterNames": "The clusters that MultiKueue dispatches the Workload to.",
    "clusterName": "The cluster that runs the Workload.",
    "unhealthyNodes": "Failed nodes that have to be replaced.",
    "unhealthyNodes[].name": "Name of the node.",
    "preemptionGates": "The state of each preemption gate.",
    "preemptionGates[].name": "Name of the gate.",
    "preemptionGates[].position": "Open or Closed.",
    "preemptionGates[].lastTransitionTime": "The time of the last change of the position.",
}

WORKLOAD: Words = {
    "": (
        "A job, or another group of pods, as a unit of queueing: its requests, and whether it is "
        "admitted. Kuota creates it for each job."
    ),
    **under("spec", _SPEC),
    **under("spec.podSets[]", _POD_SET),
    **under("spec.podSets[].topologyRequest", _TOPOLOGY_REQUEST),
    **under("status", _STATUS),
    **conditions(),
}
