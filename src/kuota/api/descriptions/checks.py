# SPDX-License-Identifier: Apache-2.0
"""Provides the descriptions of AdmissionCheck and of the kinds that its parameters reference."""

from __future__ import annotations

from ..constraints.rule import under
from .shared import Words, conditions

ADMISSION_CHECK: Words = {
    "": "Something that must be settled, beside quota, before a Workload is admitted.",
    "spec": "Who makes the check, and with which settings.",
    "spec.controllerName": "The controller that makes the check.",
    "spec.retryDelayMinutes": "How long to wait after a failure. Not used any more.",
    "spec.parameters": "The object that holds the settings for this check.",
    "spec.parameters.apiGroup": "API group of that object.",
    "spec.parameters.kind": "Kind of that object.",
    "spec.parameters.name": "Name of that object.",
    "status": "Whether the check can be made.",
    **conditions(),
}

PROVISIONING_REQUEST_CONFIG: Words = {
    "": "Settings for checks that ask an autoscaler for nodes by ProvisioningRequests.",
    "spec": "What is asked for, and how often.",
    "spec.provisioningClassName": "How capacity is provided: a name that the autoscaler knows.",
    "spec.parameters": "Passed on to the autoscaler.",
    "spec.managedResources": (
        "Only pods that ask for one of these resources are provided for. All are, if empty."
    ),
    "spec.retryStrategy": "When to ask again after a request failed.",
    "spec.retryStrategy.backoffLimitCount": "How often to ask again.",
    "spec.retryStrategy.backoffBaseSeconds": "How long to wait first; each wait is twice the last.",
    "spec.retryStrategy.backoffMaxSeconds": "The longest wait.",
    "spec.podSetUpdates": "What pods are given once there is capacity for them.",
    "spec.podSetUpdates.nodeSelector": "Node labels to select by.",
    "spec.podSetUpdates.nodeSelector[].key": "Key of the label.",
    "spec.podSetUpdates.nodeSelector[].valueFromProvisioningClassDetail": (
        "Which detail of the ProvisioningRequest's status is the value."
    ),
    "spec.podSetMergePolicy": (
        "Which pod sets are asked for as one: those with equal templates, or also those that "
        "differ in what does not matter for placing them. None are, if unset."
    ),
}

MULTIKUEUE_CONFIG: Words = {
    "": "Which other clusters a check may send work to.",
    "spec": "The clusters.",
    "spec.clusters": "Names of MultiKueueClusters.",
    "spec.quotaManagement": (
        "Manual leaves quota here as it is written, Automated makes it the sum of theirs."
    ),
}

_ACCESS: Words = {
    "kubeConfig": "A kubeconfig that leads to the cluster.",
    "kubeConfig.location": "Name of the Secret, or path of the file, that holds it.",
    "kubeConfig.locationType": "Secret or Path.",
    "clusterProfileRef": "A ClusterProfile that tells how to reach the cluster.",
    "clusterProfileRef.name": "Name of the ClusterProfile.",
}

MULTIKUEUE_CLUSTER: Words = {
    "": "Another cluster that work can be sent to.",
    "spec": "How to reach it.",
    "spec.clusterSource": "Where the way to the cluster is written down.",
    **under("spec.clusterSource", _ACCESS),
    **under("spec", _ACCESS),
    "status": "Whether the cluster can be reached.",
    **conditions(),
}
