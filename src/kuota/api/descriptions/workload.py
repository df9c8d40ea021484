# SPDX-License-Identifier: Apache-2.0
"""Provides the descriptions of Workload."""

from __future__ import annotations

from ..constraints.rule import under
from .shared import TOLERATIONS, Words, conditions

_POD_SET: Words = {
    "name": "Name of the pod set, unique in the Workload.",
    "template": "What each of its pods looks like.",
    "count": "How many pods it has.",
    "minCount": "With how few pods it may start where there is no quota for all of them.",
    "topologyRequest": "How close to each other the pods should be.",
}
_TOPOLOGY_REQUEST: Words = {
    "required": "Node label of the level within one place of which all pods must be.",
    "preferred": "Node label of the level within one place of which all pods should be.",
    "unconstrained": "Any free places will do, wherever they are.",
    "podIndexLabel": "Label of pods that holds their index.",
    "subGroupIndexLabel": "Label of pods that holds the index of their group in the pod set.",
    "subGroupCount": "How many such groups there are.",
    "podSetGroupName": "Pod sets of the same group are placed together.",
    "podSetSliceRequiredTopology": "Node label of the level that each slice must be within.",
    "podSetSliceSize": "How many pods make a slice.",
    "podsetSliceRequiredTopologyConstraints": "Slices within slices, the widest first.",
    "podsetSliceRequiredTopologyConstraints[].topology": "Node label of the level.",
    "podsetSliceRequiredTopologyConstraints[].size": "How many pods make a slice there.",
}
_SPEC: Words = {
    "": "What the job asks for, and where it queues.",
    "podSets": "Pods that are alike, by the set: all sets are admitted together or none is.",
    "queueName": "Name of the LocalQueue, in the same namespace.",
    "priorityClassRef": "The class that the priority comes from.",
    "priorityClassRef.group": "API group of the class.",
    "priorityClassRef.kind": "WorkloadPriorityClass or PriorityClass.",
    "priorityClassRef.name": "Name of the class.",
    "priorityClassName": "Name of the class that the priority comes from.",
    "priorityClassSource": "Of which kind that class is.",
    "priority": "Higher goes first, and may displace what is lower.",
    "active": "Whether it may run. False evicts it, and keeps it from queueing.",
    "maximumExecutionTimeSeconds": (
        "The total time that it may be admitted before it is evicted and deactivated."
    ),
    "preemptionGates": "Gates that must be open before it may displace others.",
    "preemptionGates[].name": "Name of the gate.",
}
_ASSIGNMENT: Words = {
    "name": "Name of the pod set.",
    "flavors": "The flavor of each resource.",
    "resourceUsage": "How much quota all pods of the set take, by resource.",
    "count": "How many pods were admitted.",
    "topologyAssignment": "On which places of the topology the pods go.",
    "delayedTopologyRequest": "Pending while places are found only after admission checks.",
}
_SLICE: Words = {
    "domainCount": "How many places the slice describes.",
    "valuesPerLevel": "Where these places are, level by level.",
    "valuesPerLevel[].universal": "Value of the label, the same for all.",
    "valuesPerLevel[].individual": "Values of the label, one for each place.",
    "valuesPerLevel[].individual.prefix": "How all values begin.",
    "valuesPerLevel[].individual.suffix": "How all values end.",
    "valuesPerLevel[].individual.roots": "What stands between, for each place.",
    "podCounts": "How many pods go to each place.",
    "podCounts.universal": "The same number for all.",
    "podCounts.individual": "A number for each place.",
}
_TOPOLOGY_ASSIGNMENT: Words = {
    "levels": "Node labels that name a place, the widest level first.",
    "slices": "The places, many at a time; together they hold all pods.",
    **under("slices[]", _SLICE),
    "domains": "The places, one by one.",
    "domains[].values": "Values of the labels, level by level.",
    "domains[].count": "How many pods go there.",
}
_CHECK: Words = {
    "name": "Name of the AdmissionCheck.",
    "state": (
        "Pending, or how it ended: Ready lets the Workload be admitted, Retry gives its quota "
        "back for now, Rejected deactivates it."
    ),
    "message": "What the controller of the check has to say.",
    "lastTransitionTime": "When the state last became another.",
    "podSetUpdates": "What the check adds to pods.",
    "podSetUpdates[].name": "Name of the pod set.",
    "podSetUpdates[].labels": "Labels to add.",
    "podSetUpdates[].annotations": "Annotations to add.",
    "podSetUpdates[].nodeSelector": "Node labels to select by as well.",
    "podSetUpdates[].tolerations": "Tolerations to add.",
    **under("podSetUpdates[].tolerations", TOLERATIONS),
    "requeueAfterSeconds": "How long to wait at least before the next try.",
    "retryCount": "How often the check has said Retry.",
}
_PAST_TIME = "The total time that it was admitted before it was evicted."
_STATUS: Words = {
    "": "How far the Workload has come: waiting, admitted, evicted or finished, and why.",
    "admission": "The quota that it holds. Absent while it holds none.",
    "admission.clusterQueue": "The ClusterQueue that admitted it.",
    "admission.podSetAssignments": "What each pod set got.",
    **under("admission.podSetAssignments[]", _ASSIGNMENT),
    **under("admission.podSetAssignments[].topologyAssignment", _TOPOLOGY_ASSIGNMENT),
    "requeueState": "How often it had to start over, and when it may again.",
    "requeueState.count": "How often it was put back because its pods were not ready in time.",
    "requeueState.requeueAt": "Not before this time it queues again.",
    "reclaimablePods": "Pods that are done and whose quota is free again.",
    "reclaimablePods[].name": "Name of the pod set.",
    "reclaimablePods[].count": "How many of its pods are done.",
    "admissionChecks": "How far each admission check has come.",
    **under("admissionChecks[]", _CHECK),
    "resourceRequests": "What each pod set asks for, while it holds no quota.",
    "resourceRequests[].name": "Name of the pod set.",
    "resourceRequests[].resources": "What all its pods ask for together, as quota counts it.",
    "accumulatedPastExecutionTimeSeconds": _PAST_TIME,
    "accumulatedPastExexcutionTimeSeconds": _PAST_TIME,
    "schedulingStats": "What has happened to it so far, in numbers.",
    "schedulingStats.evictions": "How often it was evicted, by reason.",
    "schedulingStats.evictions[].reason": "Why it was evicted.",
    "schedulingStats.evictions[].underlyingCause": "What was behind that, if more is known.",
    "schedulingStats.evictions[].count": "How often.",
    "nominatedClusterNames": "Other clusters that may take it.",
    "clusterName": "The other cluster that took it.",
    "unhealthyNodes": "Nodes with its pods that failed and are to be replaced.",
    "unhealthyNodes[].name": "Name of the node.",
    "preemptionGates": "How its gates stand.",
    "preemptionGates[].name": "Name of the gate.",
    "preemptionGates[].position": "Open or Closed.",
    "preemptionGates[].lastTransitionTime": "When the gate was last opened or closed.",
}

WORKLOAD: Words = {
    "": (
        "One job, or another group of pods, as queues see it: what it asks for, and whether it "
        "was admitted. Kuota makes it from the job; people rarely write one."
    ),
    **under("spec", _SPEC),
    **under("spec.podSets[]", _POD_SET),
    **under("spec.podSets[].topologyRequest", _TOPOLOGY_REQUEST),
    **under("status", _STATUS),
    **conditions(),
}
