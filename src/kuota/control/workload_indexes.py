# SPDX-License-Identifier: Apache-2.0
"""The indexes of Workloads: by owner, queue, chain, class and check."""

from __future__ import annotations

from kuota.api.base import Json, Key
from kuota.api.rules.metadata import ELASTIC_JOB, annotation
from kuota.bridge.draft import StoredWorkload
from kuota.bridge.job_pass.slices import chain_name
from kuota.bridge.jobs.ancestor import group_kind
from kuota.bridge.jobs.kind import JobKey
from kuota.bridge.lifecycle_checks import priority_class_of
from kuota.kube.cache import Indexer

from .cached_object import CachedObject
from .job_caches import PRIORITY, reference_index_key

OWNER = "owner"
QUEUE = "queue"
WAITING = "waiting"
CHAIN = "chain"
CHECK = "admission check"


def is_over(cached: CachedObject[StoredWorkload]) -> bool:
    """Whether the Workload is finished. Finished Workloads never change and may be numerous."""
    return cached.value is not None and cached.value.true("Finished")


def _queues(cached: CachedObject[StoredWorkload]) -> list[str]:
    if is_over(cached):
        return []
    spec = cached.json.get("spec")
    name = spec.get("queueName") if isinstance(spec, dict) else None
    return [str(Key(cached.key.namespace, name))] if isinstance(name, str) and name else []


def is_waiting(cached: CachedObject[StoredWorkload]) -> list[str]:
    """Index pending Workloads by namespace."""
    stored = cached.value
    waits = stored is not None and not stored.reserved and not stored.true("Finished")
    return [cached.key.namespace] if waits else []


def _chains(cached: CachedObject[StoredWorkload]) -> list[str]:
    """Index the open slices of elastic jobs by chain."""
    stored = cached.value
    if stored is None or is_over(cached) or annotation(stored.json, ELASTIC_JOB) != "true":
        return []
    return [str(Key(cached.key.namespace, chain_name(stored)))]


def listed_check_names(cached: CachedObject[StoredWorkload]) -> list[str]:
    """Index unfinished Workloads by the admission checks that they list."""
    if cached.value is None or is_over(cached):
        return []
    return [each.name for each in cached.value.obj.status.admission_checks or ()]


def _named(cached: CachedObject[StoredWorkload]) -> list[str]:
    """Index unfinished Workloads by WorkloadPriorityClass."""
    value = cached.value
    name = priority_class_of(value) if value is not None and not is_over(cached) else ""
    return [name] if name else []


def workload_indexers() -> dict[str, Indexer[CachedObject[StoredWorkload]]]:
    return {
        OWNER: _owners,
        QUEUE: _queues,
        WAITING: is_waiting,
        PRIORITY: _named,
        CHAIN: _chains,
        CHECK: listed_check_names,
    }


def _owners(cached: CachedObject[StoredWorkload]) -> list[str]:
    return [reference_index_key(*each) for each in controlling_jobs(cached.json)]


def controlling_jobs(workload: Json) -> list[JobKey]:
    """Return the owner that controls a Workload, of whatever kind."""
    return owners_of(workload, controlling=True)


def owners_of(workload: Json, *, controlling: bool) -> list[JobKey]:
    """Return the owners of a Workload: the one that controls it, or the others."""
    meta = workload["metadata"]
    return [
        JobKey(group_kind(each), Key(meta.get("namespace", ""), each["name"]))
        for each in meta.get("ownerReferences") or ()
        if bool(each.get("controller")) is controlling
    ]
