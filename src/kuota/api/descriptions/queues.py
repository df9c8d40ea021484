# SPDX-License-Identifier: Apache-2.0
"""Provides the descriptions of ClusterQueue, Cohort, LocalQueue and the kinds they reference."""

from __future__ import annotations

from ..constraints.rule import under
from .shared import (
    BORROWED,
    COUNTS,
    FAIR_SHARING,
    FAIR_SHARING_STATUS,
    FLAVOR_USAGE,
    LABEL_SELECTOR,
    RESOURCE_GROUPS,
    TOLERATIONS,
    Words,
    conditions,
)

_RESERVATION = (
    "Reserved quota by flavor, including that of Workloads that wait for admission checks."
)
_USAGE = "Quota that admitted Workloads use, by flavor."
_CHECKS = "spec.admissionChecksStrategy"
_MIGRATION = "spec.concurrentAdmissionPolicy.migration"

_BORROWING: Words = {**FLAVOR_USAGE, **BORROWED}

_CLUSTER_QUEUE_SPEC: Words = {
    "spec": "The quota of the queue, and the rules for admission.",
    "spec.cohort": "The cohort that the queue shares unused quota with. Empty for none.",
    "spec.cohortName": (
        "The cohort that the queue shares unused quota with. Empty for none. A Cohort object of "
        "this name is optional."
    ),
    "spec.queueingStrategy": (
        "The order of admission. With StrictFIFO, a workload that does not fit blocks all "
        "others behind it. With BestEffortFIFO, workloads behind it are admitted if they fit."
    ),
    "spec.namespaceSelector": (
        "Selects the namespaces whose workloads may use the queue. An empty selector ({}) selects "
        "all namespaces; without a selector, no namespace is selected."
    ),
    "spec.flavorFungibility": "Whether to use a flavor or to try the next one.",
    "spec.flavorFungibility.whenCanBorrow": (
        "What to do if a workload fits in a flavor only by borrowing: MayStopSearch uses the "
        "flavor, TryNextFlavor tries the following ones first."
    ),
    "spec.flavorFungibility.whenCanPreempt": (
        "What to do if a workload fits in a flavor only after preemption: MayStopSearch uses the "
        "flavor, TryNextFlavor tries the following ones first."
    ),
    "spec.flavorFungibility.preference": (
        "Whether to prefer borrowing or preemption if every flavor requires one of them. The "
        "default is to prefer borrowing."
    ),
    "spec.preemption": "Which Workloads a pending Workload may preempt.",
    "spec.preemption.withinClusterQueue": (
        "Which Workloads of its own queue a pending Workload may preempt: none (Never), those of "
        "lower priority, or also newer ones of equal priority (LowerOrNewerEqualPriority)."
    ),
    "spec.preemption.reclaimWithinCohort": (
        "Which Workloads of borrowing queues in the cohort a pending Workload may preempt if it "
        "fits in the nominal quota of its own queue: none (Never), those of lower priority, or Any."
    ),
    "spec.preemption.borrowWithinCohort": (
        "Whether a pending Workload may preempt others in the cohort although it has to borrow."
    ),
    "spec.preemption.borrowWithinCohort.policy": "Never, or those of LowerPriority.",
    "spec.preemption.borrowWithinCohort.maxPriorityThreshold": (
        "Workloads with a higher priority than this are not preempted. Optional."
    ),
    "spec.admissionChecks": "The AdmissionChecks that every Workload must pass.",
    _CHECKS: "The AdmissionChecks that Workloads must pass after their quota is reserved.",
    f"{_CHECKS}.admissionChecks": "The checks, and the flavors that each applies to.",
    f"{_CHECKS}.admissionChecks[].name": "Name of an AdmissionCheck.",
    f"{_CHECKS}.admissionChecks[].onFlavors": (
        "The check applies only to Workloads with one of these flavors. Empty for all flavors."
    ),
    "spec.stopPolicy": (
        "Whether the queue is stopped. None: it is not. Hold: no further Workloads are admitted. "
        "HoldAndDrain: admitted Workloads are also evicted."
    ),
    "spec.admissionScope": "How the LocalQueues of this queue share its quota.",
    "spec.admissionScope.admissionMode": (
        "UsageBasedAdmissionFairSharing prefers LocalQueues with little past usage; "
        "NoAdmissionFairSharing considers only priority and time."
    ),
    "spec.concurrentAdmissionPolicy": (
        "Tries all flavors concurrently, with a variant of the Workload for each. Immutable."
    ),
    _MIGRATION: "What happens to an admitted Workload when a preferred flavor becomes available.",
    f"{_MIGRATION}.mode": (
        "TryPreferredFlavors migrates it to that flavor, RetainFirstAdmission does not."
    ),
    f"{_MIGRATION}.constraints": "Limits migration.",
    f"{_MIGRATION}.constraints.lastAcceptableFlavorName": (
        "The last flavor in the list that a Workload may migrate to."
    ),
}

_PENDING = "status.pendingWorkloadsStatus"

CLUSTER_QUEUE: Words = {
    "": (
        "A pool of quota for the whole cluster. LocalQueues refer to it, and their workloads are "
        "admitted when its quota allows."
    ),
    **_CLUSTER_QUEUE_SPEC,
    **under("spec.resourceGroups", RESOURCE_GROUPS),
    **under("spec.namespaceSelector", LABEL_SELECTOR),
    **under("spec.fairSharing", FAIR_SHARING),
    "status": "Usage, numbers of Workloads, and whether the queue is active.",
    **conditions(),
    "status.flavorsReservation": _RESERVATION,
    **under("status.flavorsReservation", _BORROWING),
    "status.flavorsUsage": _USAGE,
    **under("status.flavorsUsage", _BORROWING),
    **under("status", COUNTS),
    **under("status.fairSharing", FAIR_SHARING_STATUS),
    _PENDING: "Deprecated and always empty. Use the visibility API.",
    f"{_PENDING}.clusterQueuePendingWorkload": "The first pending Workloads.",
    f"{_PENDING}.clusterQueuePendingWorkload[].name": "Name of the Workload.",
    f"{_PENDING}.clusterQueuePendingWorkload[].namespace": "Namespace of the Workload.",
    f"{_PENDING}.lastChangeTime": "The time of the last change of the list.",
}

COHORT: Words = {
    "": (
        "A group of ClusterQueues and other Cohorts that lend each other unused quota. It may have "
        "quota of its own, which all of them may borrow."
    ),
    "spec": "The parent of the cohort, and its own quota.",
    "spec.parentName": "The parent cohort. Without one, the cohort is the root of its tree.",
    **under("spec.resourceGroups", RESOURCE_GROUPS),
    **under("spec.fairSharing", FAIR_SHARING),
    "status": "The observed state of the cohort.",
    **under("status.fairSharing", FAIR_SHARING_STATUS),
}

LOCAL_QUEUE: Words = {
    "": (
        "The queue to which the jobs of a namespace are submitted, with the label "
        "kueue.x-k8s.io/queue-name. It refers to a ClusterQueue."
    ),
    "spec": "The ClusterQueue, and the rules of this queue.",
    "spec.clusterQueue": "The ClusterQueue whose quota is used.",
    "spec.stopPolicy": (
        "Whether the queue is stopped. None: it is not. Hold: none of its Workloads are admitted "
        "any more. HoldAndDrain: its admitted Workloads are also evicted."
    ),
    **under("spec.fairSharing", FAIR_SHARING),
    "status": "Numbers of Workloads, usage, and whether the queue is active.",
    **conditions(),
    **under("status", COUNTS),
    "status.flavorsReservation": _RESERVATION,
    **under("status.flavorsReservation", FLAVOR_USAGE),
    "status.flavorsUsage": _USAGE,
    **under("status.flavorsUsage", FLAVOR_USAGE),
    "status.flavorUsage": _USAGE,
    **under("status.flavorUsage", FLAVOR_USAGE),
    **under("status.fairSharing", FAIR_SHARING_STATUS),
    "status.flavors": "The flavors of the ClusterQueue, and their nodes.",
    "status.flavors[].name": "Name of the flavor.",
    "status.flavors[].resources": "Resources that the flavor offers.",
    "status.flavors[].nodeLabels": "Labels of its nodes.",
    "status.flavors[].nodeTaints": "Taints of its nodes.",
    "status.flavors[].topology": "The topology of its nodes.",
    "status.flavors[].topology.name": "Name of the Topology.",
    "status.flavors[].topology.levels": "The node labels of its levels, largest domains first.",
}


RESOURCE_FLAVOR: Words = {
    "": "A variant of a resource, such as a model of GPU, and the nodes that provide it.",
    "spec": "The nodes of the flavor, and what pods need to run there.",
    "spec.nodeLabels": (
        "The labels of the nodes. Pods of admitted workloads get them as a node selector. Without "
        "labels, pods can run on any node."
    ),
    "spec.nodeTaints": (
        "The taints of the nodes. Only workloads that tolerate them can use the flavor."
    ),
    "spec.tolerations": "Tolerations that are added to pods that use the flavor.",
    **under("spec.tolerations", TOLERATIONS),
    "spec.topologyName": "The Topology of the nodes.",
}

TOPOLOGY: Words = {
    "": "The levels of the infrastructure, such as blocks and racks, for placing pods together.",
    "spec": "The levels of the topology.",
    "spec.levels": "The levels, from the largest domain to the smallest.",
    "spec.levels[].nodeLabel": "The node label whose value identifies a domain of this level.",
}

PRIORITY_CLASS: Words = {
    "": (
        "A named priority for queueing. Jobs refer to it in the label "
        "kueue.x-k8s.io/priority-class. It does not affect the priority of pods."
    ),
    "value": "The priority. Higher values are admitted first and can preempt lower ones.",
    "description": "A description for people, such as when to use this class.",
}
