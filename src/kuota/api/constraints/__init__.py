# SPDX-License-Identifier: Apache-2.0
"""Defines the constraints on each field: bounds, lengths, enums, defaults, list keys.

There is one table per kind and version. The key is the path of the field:

    spec.podSets[].count    `[]` stands for each element of a list
    spec.parameters{}       `{}` stands for each value of a map

Only the type of a field without an entry is checked. The tables generate the CRDs, which a real API
server enforces, and also drive Kuota's own validation, so the two cannot diverge. Rules that
combine several fields, or the old and the new object, are in `kuota.api.schema.cel`.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from ..v1beta1 import GONE
from . import checks, queues, workload
from .rule import FieldRule, Table, amended

__all__ = ["FieldRule", "constraints"]

_TABLES: Mapping[str, tuple[Table, Table]] = {
    "Workload": (workload.V1BETA1, workload.V1BETA2),
    "ClusterQueue": (queues.CLUSTER_QUEUE_V1BETA1, queues.CLUSTER_QUEUE),
    "Cohort": (queues.COHORT_V1BETA1, queues.COHORT),
    "LocalQueue": (queues.LOCAL_QUEUE_V1BETA1, queues.LOCAL_QUEUE),
    "ResourceFlavor": (queues.RESOURCE_FLAVOR, queues.RESOURCE_FLAVOR),
    "Topology": (queues.TOPOLOGY, queues.TOPOLOGY),
    "WorkloadPriorityClass": (queues.PRIORITY_CLASS_V1BETA1, queues.PRIORITY_CLASS),
    "AdmissionCheck": (checks.ADMISSION_CHECK_V1BETA1, checks.ADMISSION_CHECK),
    "ProvisioningRequestConfig": (
        checks.PROVISIONING_REQUEST_CONFIG_V1BETA1,
        checks.PROVISIONING_REQUEST_CONFIG,
    ),
    "MultiKueueConfig": (checks.MULTIKUEUE_CONFIG_V1BETA1, checks.MULTIKUEUE_CONFIG),
    "MultiKueueCluster": (checks.MULTIKUEUE_CLUSTER_V1BETA1, checks.MULTIKUEUE_CLUSTER),
}


def constraints(kind: str, version: str = "v1beta2") -> Mapping[str, FieldRule]:
    """Return the table of one kind in one version. Raises KeyError if Kueue does not have it."""
    older, newer = _TABLES[kind]
    table = {"v1beta1": amended(older, gone=GONE.get(kind, ())), "v1beta2": newer}[version]
    return MappingProxyType(table)
