# SPDX-License-Identifier: Apache-2.0
"""Defines the constraints of AdmissionCheck and of the kinds that its parameters reference."""

from __future__ import annotations

from .rule import (
    IDENTIFIER,
    QUALIFIED_NAME,
    Table,
    amended,
    atomic,
    dns_label,
    field,
    int32,
    int64,
    keyed,
    one_of,
    relaxed,
    set_of,
    subdomain,
    text,
)
from .shared import conditions

_UPDATES = "spec.podSetUpdates.nodeSelector"
_KUBE_CONFIG = "spec.clusterSource.kubeConfig"

ADMISSION_CHECK: Table = {
    "spec.controllerName": text(253, required=True, min_length=1),
    "spec.parameters.apiGroup": subdomain(required=True, min_length=1),
    "spec.parameters.kind": text(63, required=True, min_length=1, pattern=IDENTIFIER),
    "spec.parameters.name": dns_label(required=True, min_length=1),
    **conditions(),
}

PROVISIONING_REQUEST_CONFIG: Table = {
    "spec.managedResources": set_of(100),
    "spec.parameters": field(max_properties=100),
    "spec.parameters{}": text(255),
    "spec.podSetMergePolicy": one_of(
        "IdenticalPodTemplates", "IdenticalWorkloadSchedulingRequirements"
    ),
    _UPDATES: keyed("key", max_items=8),
    f"{_UPDATES}[].key": text(317, required=True, min_length=1, pattern=QUALIFIED_NAME),
    f"{_UPDATES}[].valueFromProvisioningClassDetail": text(32768, required=True, min_length=1),
    "spec.provisioningClassName": subdomain(required=True, min_length=1),
    "spec.retryStrategy": field(
        default={"backoffBaseSeconds": 60, "backoffLimitCount": 3, "backoffMaxSeconds": 1800}
    ),
    "spec.retryStrategy.backoffBaseSeconds": int32(default=60),
    "spec.retryStrategy.backoffLimitCount": int32(default=3),
    "spec.retryStrategy.backoffMaxSeconds": int32(default=1800),
}

MULTIKUEUE_CONFIG: Table = {
    "spec.clusters": atomic(20, required=True, min_items=1),
    "spec.clusters[]": text(256),
    "spec.quotaManagement": one_of("Manual", "Automated"),
}

MULTIKUEUE_CLUSTER: Table = {
    "spec.clusterSource": field(required=True),
    "spec.clusterSource.clusterProfileRef.name": text(256, required=True, min_length=1),
    f"{_KUBE_CONFIG}.location": text(256, required=True, min_length=1),
    f"{_KUBE_CONFIG}.locationType": one_of("Secret", "Path", default="Secret"),
    **conditions(),
}

ADMISSION_CHECK_V1BETA1: Table = relaxed(
    amended(
        ADMISSION_CHECK,
        changed={
            "spec.controllerName": field(required=True),
            "spec.retryDelayMinutes": int64(default=15),
        },
    )
)

PROVISIONING_REQUEST_CONFIG_V1BETA1: Table = relaxed(
    amended(PROVISIONING_REQUEST_CONFIG, changed={_UPDATES: field(max_items=8)}),
    keep=(f"{_UPDATES}[].key", f"{_UPDATES}[].valueFromProvisioningClassDetail"),
)

MULTIKUEUE_CONFIG_V1BETA1: Table = amended(
    MULTIKUEUE_CONFIG,
    gone=("spec.clusters[]",),
    changed={"spec.clusters": set_of(20, required=True, min_items=1)},
)

MULTIKUEUE_CLUSTER_V1BETA1: Table = relaxed(
    amended(
        MULTIKUEUE_CLUSTER,
        changed={
            "spec.kubeConfig": field(required=True),
            "spec.kubeConfig.location": field(required=True),
            "spec.kubeConfig.locationType": one_of(
                "Secret", "Path", required=True, default="Secret"
            ),
            "spec.clusterProfileRef.name": text(256, required=True, min_length=1),
        },
    ),
    keep=("spec.clusterProfileRef.name",),
)
