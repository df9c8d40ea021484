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

_RESERVATION = "Quota that is held, by flavor, by Workloads that are admitted or about to be."
_USAGE = "Quota that admitted Workloads use, by flavor."
_CHECKS = "spec.admissionChecksStrategy"
_MIGRATION = "spec.concurrentAdmissionPolicy.migration"

_BORROWING: Words = {**FLAVOR_USAGE, **BORROWED}

_CLUSTER_QUEUE_SPEC: Words = {
    "spec": "What the queue offers, to whom, and by which rules.",
    "spec.cohort": "Name of the cohort to borrow from and lend to. None if empty.",
    "spec.cohortName": (
        "Name of the cohort to borrow from and lend to. None if empty; a Cohort object of that "
        "name need not exist."
    ),
    "spec.queueingStrategy": (
        "StrictFIFO lets nobody overtake the first in line, even if it does not fit; with "
        "BestEffortFIFO those behind it that fit go ahead."
    ),
    "spec.namespaceSelector": (
        "Namespaces whose work may use the queue, by their labels: {} is all of them, and without "
        "a selector none may."
    ),
    "spec.flavorFungibility": "When to take a flavor, and when to look at the next one.",
    "spec.flavorFungibility.whenCanBorrow": (
        "What to do where a flavor fits only by borrowing: MayStopSearch takes it, TryNextFlavor "
        "looks for one that fits without."
    ),
    "spec.flavorFungibility.whenCanPreempt": (
        "What to do where a flavor fits only by preemption: MayStopSearch takes it, TryNextFlavor "
        "looks for one that fits without."
    ),
    "spec.flavorFungibility.preference": (
        "Which of the two is better if no flavor fits without either. Borrowing, if unset."
    ),
    "spec.preemption": "Which running Workloads may have to make room for one that waits.",
    "spec.preemption.withinClusterQueue": (
        "Whom a Workload may displace in its own queue: nobody (Never), those of lower priority, "
        "or also newer ones of the same priority (LowerOrNewerEqualPriority)."
    ),
    "spec.preemption.reclaimWithinCohort": (
        "Whom a Workload that fits into the queue's own quota may displace in other queues of the "
        "cohort that borrow: nobody (Never), those of lower priority, or Any."
    ),
    "spec.preemption.borrowWithinCohort": (
        "Whether a Workload that needs to borrow may displace others in the cohort too."
    ),
    "spec.preemption.borrowWithinCohort.policy": "Never, or those of LowerPriority.",
    "spec.preemption.borrowWithinCohort.maxPriorityThreshold": (
        "Workloads above this priority are not displaced. No bound if unset."
    ),
    "spec.admissionChecks": "Names of AdmissionChecks that every Workload must pass.",
    _CHECKS: "AdmissionChecks that Workloads must pass once they have quota.",
    f"{_CHECKS}.admissionChecks": "The checks, and for which flavors each is made.",
    f"{_CHECKS}.admissionChecks[].name": "Name of an AdmissionCheck.",
    f"{_CHECKS}.admissionChecks[].onFlavors": (
        "Only Workloads that got one of these flavors are checked. All are, if empty."
    ),
    "spec.stopPolicy": (
        "None lets the queue work. Hold admits nothing more; HoldAndDrain also evicts what is "
        "admitted."
    ),
    "spec.admissionScope": "Within the queue, how LocalQueues take turns.",
    "spec.admissionScope.admissionMode": (
        "UsageBasedAdmissionFairSharing prefers LocalQueues that have used little; "
        "NoAdmissionFairSharing goes by priority and time alone."
    ),
    "spec.concurrentAdmissionPolicy": (
        "Try all flavors at once, by a variant of the Workload for each. Cannot be changed later."
    ),
    _MIGRATION: "What becomes of a Workload that runs when a better flavor is free.",
    f"{_MIGRATION}.mode": (
        "TryPreferredFlavors moves it to the better flavor, RetainFirstAdmission leaves it."
    ),
    f"{_MIGRATION}.constraints": "Bounds to moving.",
    f"{_MIGRATION}.constraints.lastAcceptableFlavorName": (
        "The last flavor in the list that is worth moving to."
    ),
}

_PENDING = "status.pendingWorkloadsStatus"

CLUSTER_QUEUE: Words = {
    "": (
        "A pool of quota, for the whole cluster. Work reaches it through LocalQueues and is "
        "admitted as the quota of its flavors allows."
    ),
    **_CLUSTER_QUEUE_SPEC,
    **under("spec.resourceGroups", RESOURCE_GROUPS),
    **under("spec.namespaceSelector", LABEL_SELECTOR),
    **under("spec.fairSharing", FAIR_SHARING),
    "status": "What the queue uses, how many wait, and whether it works.",
    **conditions(),
    "status.flavorsReservation": _RESERVATION,
    **under("status.flavorsReservation", _BORROWING),
    "status.flavorsUsage": _USAGE,
    **under("status.flavorsUsage", _BORROWING),
    **under("status", COUNTS),
    **under("status.fairSharing", FAIR_SHARING_STATUS),
    _PENDING: "No longer filled in: ask the visibility API who waits.",
    f"{_PENDING}.clusterQueuePendingWorkload": "The first of those that wait.",
    f"{_PENDING}.clusterQueuePendingWorkload[].name": "Name of the Workload.",
    f"{_PENDING}.clusterQueuePendingWorkload[].namespace": "Namespace of the Workload.",
    f"{_PENDING}.lastChangeTime": "When that list last changed.",
}

COHORT: Words = {
    "": (
        "A group of ClusterQueues, and of other Cohorts, that lend each other what they do not "
        "use. It may have quota of its own, which all of them may borrow."
    ),
    "spec": "Where the cohort belongs, and what it has of its own.",
    "spec.parentName": "Name of the cohort above this one. Without, it is the top of its tree.",
    **under("spec.resourceGroups", RESOURCE_GROUPS),
    **under("spec.fairSharing", FAIR_SHARING),
    "status": "Where the cohort stands.",
    **under("status.fairSharing", FAIR_SHARING_STATUS),
}

LOCAL_QUEUE: Words = {
    "": (
        "The door to a ClusterQueue in one namespace: jobs there name it in the label "
        "kueue.x-k8s.io/queue-name."
    ),
    "spec": "Where the queue leads.",
    "spec.clusterQueue": "Name of the ClusterQueue whose quota is used.",
    "spec.stopPolicy": (
        "None lets the queue work. Hold admits nothing more from it; HoldAndDrain also evicts "
        "what is admitted."
    ),
    **under("spec.fairSharing", FAIR_SHARING),
    "status": "How many wait here, what is used, and whether the queue works.",
    **conditions(),
    **under("status", COUNTS),
    "status.flavorsReservation": _RESERVATION,
    **under("status.flavorsReservation", FLAVOR_USAGE),
    "status.flavorsUsage": _USAGE,
    **under("status.flavorsUsage", FLAVOR_USAGE),
    "status.flavorUsage": _USAGE,
    **under("status.flavorUsage", FLAVOR_USAGE),
    **under("status.fairSharing", FAIR_SHARING_STATUS),
    "status.flavors": "Flavors of the ClusterQueue, with what nodes they stand for.",
    "status.flavors[].name": "Name of the flavor.",
    "status.flavors[].resources": "Resources that the flavor offers.",
    "status.flavors[].nodeLabels": "Labels of its nodes.",
    "status.flavors[].nodeTaints": "Taints of its nodes.",
    "status.flavors[].topology": "The topology in which its nodes are arranged.",
    "status.flavors[].topology.name": "Name of the Topology.",
    "status.flavors[].topology.levels": "Node labels that make up its levels, widest first.",
}


RESOURCE_FLAVOR: Words = {
    "": "A kind of hardware or of nodes, such as one model of GPU, that quota is given out in.",
    "spec": "Which nodes are of this flavor, and what their pods need.",
    "spec.nodeLabels": (
        "Labels of the nodes of this flavor. Pods that get the flavor are sent to such nodes; "
        "without labels they may go anywhere."
    ),
    "spec.nodeTaints": (
        "Taints of the nodes of this flavor. Only work that tolerates them gets the flavor."
    ),
    "spec.tolerations": "Tolerations that pods are given together with the flavor.",
    **under("spec.tolerations", TOLERATIONS),
    "spec.topologyName": "Name of the Topology in which the nodes of this flavor are arranged.",
}

TOPOLOGY: Words = {
    "": "How nodes are arranged in racks, blocks and the like, for pods that should be close.",
    "spec": "The levels.",
    "spec.levels": "Levels of the arrangement, the widest first.",
    "spec.levels[].nodeLabel": "Node label whose value tells the places of this level apart.",
}

PRIORITY_CLASS: Words = {
    "": (
        "A name for a priority in queues. Jobs name it in the label "
        "kueue.x-k8s.io/priority-class; the priority of their pods stays as it is."
    ),
    "value": "The priority: higher goes first, and may displace what is lower.",
    "description": "For people: when to use this class.",
}
