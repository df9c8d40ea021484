# SPDX-License-Identifier: Apache-2.0
"""Provides the descriptions that kinds share: quotas, usage, conditions, tolerations."""

from __future__ import annotations

from collections.abc import Mapping

from ..constraints.rule import under

Words = Mapping[str, str]

OBJECT: Words = {
    "apiVersion": "The API group and version of the object.",
    "kind": "The kind of the object.",
}

CONDITIONS: Words = {
    "": "The latest observations about the object, one for each type.",
    "[].type": "The type of the condition.",
    "[].status": "True, False or Unknown.",
    "[].reason": "The reason for the status, as one word for programs.",
    "[].message": "The reason for the status, as text for people.",
    "[].lastTransitionTime": "The time of the last change of the status.",
    "[].observedGeneration": "The metadata.generation of the object that was observed.",
}

RESOURCE_GROUPS: Words = {
    "": (
        "The quota, in groups of resources. A pod set gets all resources of a group from the same "
        "flavor. A resource belongs to one group only."
    ),
    "[].coveredResources": "The resources of this group, such as cpu or nvidia.com/gpu.",
    "[].flavors": "The flavors of these resources, in the order in which they are tried.",
    "[].flavors[].name": "Name of a ResourceFlavor.",
    "[].flavors[].resources": "Quota of each covered resource, in the order of coveredResources.",
    "[].flavors[].resources[].name": "Name of the resource.",
    "[].flavors[].resources[].nominalQuota": (
        "The quota of the resource. Others in the cohort may borrow the unused part."
    ),
    "[].flavors[].resources[].borrowingLimit": (
        "The maximum that may be borrowed from the cohort. Optional; without it there is no limit."
    ),
    "[].flavors[].resources[].lendingLimit": (
        "The maximum of unused quota that others in the cohort may borrow. The default is all."
    ),
}

FLAVOR_USAGE: Words = {
    "[].name": "Name of the flavor.",
    "[].resources": "Usage of each resource of the flavor.",
    "[].resources[].name": "Name of the resource.",
    "[].resources[].total": "The used quota, including borrowed quota.",
}
BORROWED: Words = {
    "[].resources[].borrowed": "The part of the total that is borrowed from the cohort.",
}

FAIR_SHARING: Words = {
    "": "Settings for fair sharing of unused quota.",
    "weight": (
        "The share relative to siblings: twice the weight is twice the share. With 0, it can only "
        "borrow quota that no sibling needs."
    ),
}
FAIR_SHARING_STATUS: Words = {
    "": "The state of fair sharing, if it is enabled.",
    "weightedShare": (
        "The largest ratio, over all resources, of borrowed quota to the lendable quota of the "
        "cohort, in thousandths and divided by the weight. 0 if nothing is borrowed."
    ),
    "admissionFairSharingStatus": "The past usage that admission fair sharing considers.",
    "admissionFairSharingStatus.consumedResources": (
        "The past usage, in which older usage has less weight."
    ),
    "admissionFairSharingStatus.lastUpdate": "The time at which the usage was last updated.",
}

COUNTS: Words = {
    "pendingWorkloads": "The number of Workloads that wait for quota.",
    "reservingWorkloads": "The number of Workloads with reserved quota, admitted or not.",
    "admittedWorkloads": "The number of admitted Workloads that have not finished.",
}

TOLERATIONS: Words = {
    "[].key": "The key of the tolerated taints. Empty for all keys.",
    "[].operator": "Equal compares the value as well, Exists does not.",
    "[].value": "The value of the tolerated taints.",
    "[].effect": "The tolerated effect. Empty for all effects.",
    "[].tolerationSeconds": "How long a NoExecute taint is tolerated. The default is forever.",
}

LABEL_SELECTOR: Words = {
    "matchLabels": "Labels that must be present with these values.",
    "matchExpressions": "Requirements that must all be met.",
    "matchExpressions[].key": "Key of the label.",
    "matchExpressions[].operator": "In, NotIn, Exists or DoesNotExist.",
    "matchExpressions[].values": "Values for In and NotIn.",
}


def conditions() -> Words:
    return under("status.conditions", CONDITIONS)
