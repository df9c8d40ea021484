# SPDX-License-Identifier: Apache-2.0
"""Provides the descriptions that kinds share: quotas, usage, conditions, tolerations."""

from __future__ import annotations

from collections.abc import Mapping

from ..constraints.rule import under

Words = Mapping[str, str]

OBJECT: Words = {
    "apiVersion": "Group and version of the API in which the object is written.",
    "kind": "What the object is.",
}

CONDITIONS: Words = {
    "": "What holds for the object now, one entry for each kind of claim.",
    "[].type": "What is claimed.",
    "[].status": "Whether it holds: True, False or Unknown.",
    "[].reason": "Why, as one word for programs.",
    "[].message": "Why, in words for people.",
    "[].lastTransitionTime": "When the status last became another.",
    "[].observedGeneration": "The metadata.generation of the object that was judged.",
}

RESOURCE_GROUPS: Words = {
    "": (
        "What is offered. Each group covers some resources, which a pod set then gets from the "
        "same flavor; no resource is in two groups."
    ),
    "[].coveredResources": "Names of the resources of this group, such as cpu or nvidia.com/gpu.",
    "[].flavors": "Flavors that offer these resources, the one to try first at the top.",
    "[].flavors[].name": "Name of a ResourceFlavor.",
    "[].flavors[].resources": "Quota of each covered resource, in the order of coveredResources.",
    "[].flavors[].resources[].name": "Name of the resource.",
    "[].flavors[].resources[].nominalQuota": (
        "How much of the resource belongs here. Others in the cohort may borrow what is not used."
    ),
    "[].flavors[].resources[].borrowingLimit": (
        "How much may be used beyond nominalQuota, borrowed from the cohort. No limit if unset."
    ),
    "[].flavors[].resources[].lendingLimit": (
        "How much of what is not used others in the cohort may borrow. All of it if unset."
    ),
}

FLAVOR_USAGE: Words = {
    "[].name": "Name of the flavor.",
    "[].resources": "Usage of each resource of the flavor.",
    "[].resources[].name": "Name of the resource.",
    "[].resources[].total": "How much is taken, with what is borrowed.",
}
BORROWED: Words = {
    "[].resources[].borrowed": "How much of the total is borrowed from the cohort.",
}

FAIR_SHARING: Words = {
    "": "How this one fares where unused quota is shared out fairly.",
    "weight": (
        "How much it is entitled to compared with its siblings: twice the weight, twice the "
        "share. With 0 it borrows only what nobody else wants."
    ),
}
FAIR_SHARING_STATUS: Words = {
    "": "Where it stands in fair sharing, if that is switched on.",
    "weightedShare": (
        "How much it borrows: the largest part, over all resources, of what the cohort can lend, "
        "in thousandths and divided by its weight. 0 while it keeps within its own quota."
    ),
    "admissionFairSharingStatus": "What past usage counts when LocalQueues take turns.",
    "admissionFairSharingStatus.consumedResources": (
        "Usage of the past, of which older parts count less and less."
    ),
    "admissionFairSharingStatus.lastUpdate": "When that usage was last added up.",
}

COUNTS: Words = {
    "pendingWorkloads": "How many Workloads wait for quota.",
    "reservingWorkloads": "How many Workloads hold quota, admitted or not yet.",
    "admittedWorkloads": "How many Workloads are admitted and have not finished.",
}

TOLERATIONS: Words = {
    "[].key": "Key of the taints that are tolerated, all keys if empty.",
    "[].operator": "Equal compares values too, Exists does not.",
    "[].value": "Value of the taints that are tolerated.",
    "[].effect": "Effect that is tolerated, all effects if empty.",
    "[].tolerationSeconds": "How long a NoExecute taint is tolerated, for ever if unset.",
}

LABEL_SELECTOR: Words = {
    "matchLabels": "Labels that all must be there, with these values.",
    "matchExpressions": "Claims about labels that all must hold.",
    "matchExpressions[].key": "Key of the label.",
    "matchExpressions[].operator": "In, NotIn, Exists or DoesNotExist.",
    "matchExpressions[].values": "Values for In and NotIn.",
}


def conditions() -> Words:
    return under("status.conditions", CONDITIONS)
