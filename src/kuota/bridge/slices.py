# SPDX-License-Identifier: Apache-2.0
"""Elastic jobs: which Workload takes over the quota of which.

Growth makes a new slice, a Workload of another size, that replaces the running one once it has
quota of its own.
"""

from __future__ import annotations

from kuota.api.base import Key
from kuota.api.workload import Workload

REPLACES = "kueue.x-k8s.io/workload-slice-replacement-for"
REPLACED = "WorkloadSliceReplaced"


def replaces(obj: Workload) -> Key | None:
    """The slice that this one takes over from. A bare name is one of its own namespace."""
    named = obj.metadata.annotation(REPLACES)
    if not named:
        return None
    key = Key.parse(named)
    return key if key.namespace else Key(obj.metadata.namespace, key.name)
