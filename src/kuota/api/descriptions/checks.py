# SPDX-License-Identifier: Apache-2.0
"""Provides the descriptions of AdmissionCheck and of the kinds that its parameters reference."""

from __future__ import annotations

from ..constraints.rule import under
from .shared import Words, conditions

ADMISSION_CHECK: Words = {
    "": "A condition besides quota that must be met before a Workload is admitted.",
    "spec": "The controller of the check, and its parameters.",
    "spec.controllerName": "The controller that performs the check.",
    "spec.retryDelayMinutes": "Deprecated and without effect.",
    "spec.parameters": "The object with the parameters of the check.",
    "spec.parameters.apiGroup": "API group of that object.",
    "spec.parameters.kind": "Kind of that object.",
    "spec.parameters.name": "Name of that object.",
    "status": "Whether the check can be used.",
    **conditions(),
}

PROVISIONING_REQUEST_CONFIG: Words = {
    "": "Parameters of checks that request nodes from an autoscaler with ProvisioningRequests.",
    "spec": "The properties of the requests.",
    "spec.provisioningClassName": "The provisioning class, which the autoscaler defines.",
    "spec.parameters": "Parameters for the autoscaler.",
    "spec.managedResources": (
        "Only pods that request one of these resources are provisioned. Empty for all pods."
    ),
    "spec.retryStrategy": "When to retry after a request failed.",
    "spec.retryStrategy.backoffLimitCount": "The maximum number of retries.",
    "spec.retryStrategy.backoffBaseSeconds": (
        "The delay before the first retry. It doubles with each further retry."
    ),
    "spec.retryStrategy.backoffMaxSeconds": "The maximum delay before a retry.",
    "spec.podSetUpdates": "Changes of pods for which capacity was provisioned.",
    "spec.podSetUpdates.nodeSelector": "Node labels to add to the node selector.",
    "spec.podSetUpdates.nodeSelector[].key": "Key of the label.",
    "spec.podSetUpdates.nodeSelector[].valueFromProvisioningClassDetail": (
        "The detail in the status of the ProvisioningRequest that is the value."
    ),
    "spec.podSetMergePolicy": (
        "Which pod sets are merged in a request: those with identical templates, or also those "
        "that are equivalent for scheduling. The default is to merge none."
    ),
}

MULTIKUEUE_CONFIG: Words = {
    "": "The worker clusters of a MultiKueue check.",
    "spec": "The worker clusters.",
    "spec.clusters": "Names of MultiKueueClusters.",
    "spec.quotaManagement": (
        "Manual keeps the quota of the manager, Automated sets it to the sum of the workers."
    ),
}

_ACCESS: Words = {
    "kubeConfig": "A kubeconfig for the cluster.",
    "kubeConfig.location": "The name of the Secret, or the path of the file, that contains it.",
    "kubeConfig.locationType": "Secret or Path.",
    "clusterProfileRef": "A ClusterProfile that describes how to connect to the cluster.",
    "clusterProfileRef.name": "Name of the ClusterProfile.",
}

MULTIKUEUE_CLUSTER: Words = {
    "": "A worker cluster of MultiKueue.",
    "spec": "How to connect to the cluster.",
    "spec.clusterSource": "The source of the connection settings.",
    **under("spec.clusterSource", _ACCESS),
    **under("spec", _ACCESS),
    "status": "Whether the manager is connected to the cluster.",
    **conditions(),
}
