# SPDX-License-Identifier: Apache-2.0
"""Finds the Workload of a pod."""

from __future__ import annotations

from kuota.api.base import Json, Key
from kuota.bridge.draft import StoredWorkload
from kuota.bridge.jobs.ancestor import group_kind
from kuota.bridge.jobs.kind import JobKey
from kuota.bridge.workload_pods import workload_pod

from .cached_object import CachedObject
from .cluster_cache import ClusterCache


def workload_of_pod(cache: ClusterCache, pod: Json) -> CachedObject[StoredWorkload] | None:
    """Return the Workload of a pod: by its annotation, or else by its controller."""
    metadata = pod["metadata"]
    found = workload_pod(pod)
    if found.workload:
        return cache.workload(Key(found.key.namespace, found.workload))
    for owner in metadata.get("ownerReferences") or ():
        if owner.get("controller"):
            job = JobKey(group_kind(owner), Key(found.key.namespace, owner["name"]))
            return next(iter(cache.workloads_of(job)), None)
    return None
