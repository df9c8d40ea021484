# SPDX-License-Identifier: Apache-2.0
"""Provides the field descriptions of the CRDs, which `kubectl explain` shows.

There is one table per kind for both versions. The keys are paths as in `kuota.api.constraints`; ""
is the kind itself. A path that a version does not have is ignored in that version.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from . import checks, queues, workload
from .shared import OBJECT, Words

__all__ = ["OBJECT", "descriptions"]

_TABLES: Mapping[str, Words] = {
    "Workload": workload.WORKLOAD,
    "ClusterQueue": queues.CLUSTER_QUEUE,
    "Cohort": queues.COHORT,
    "LocalQueue": queues.LOCAL_QUEUE,
    "ResourceFlavor": queues.RESOURCE_FLAVOR,
    "Topology": queues.TOPOLOGY,
    "WorkloadPriorityClass": queues.PRIORITY_CLASS,
    "AdmissionCheck": checks.ADMISSION_CHECK,
    "ProvisioningRequestConfig": checks.PROVISIONING_REQUEST_CONFIG,
    "MultiKueueConfig": checks.MULTIKUEUE_CONFIG,
    "MultiKueueCluster": checks.MULTIKUEUE_CLUSTER,
}


def descriptions(kind: str) -> Mapping[str, str]:
    """Return the table of one kind. Raises KeyError if Kueue does not have the kind."""
    return MappingProxyType({**OBJECT, **_TABLES[kind]})
