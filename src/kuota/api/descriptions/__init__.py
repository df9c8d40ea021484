# SPDX-License-Identifier: Apache-2.0
"""What each field is for, in a sentence or two: shown by `kubectl explain`, kept in the CRDs.

One table per kind for both versions, keyed by paths as `kuota.api.constraints` writes them; "" is
the kind itself. A path that a version does not have says nothing there.
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
    """The table of one kind. KeyError for a kind Kueue has not."""
    return MappingProxyType({**OBJECT, **_TABLES[kind]})
