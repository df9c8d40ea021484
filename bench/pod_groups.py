# SPDX-License-Identifier: Apache-2.0
"""What pod groups cost: CPU per changed Pod, and memory per waiting Pod."""

from __future__ import annotations

import gc
import tracemalloc
from functools import partial
from time import process_time
from typing import Any, cast

from kuota.api.base import Json, Key
from kuota.bridge.effects import Create
from kuota.bridge.job_pass.steps import reconcile_job
from kuota.bridge.jobs.ancestor import owners_of
from kuota.bridge.jobs.job_webhook import NAMESPACE, defaulted
from kuota.bridge.jobs.kind import JobKey
from kuota.bridge.jobs.registry import JobKindRegistry
from kuota.bridge.lifecycle_view import LifecycleConfig
from kuota.control.cluster_cache import ClusterCache
from kuota.control.reconcile_job import JobReconciler
from kuota.kube.clock import SystemClock
from kuota.kube.resources import NAMESPACES, PODS, WORKLOADS

WAITING = 10_000
CHANGED = 10
"""The number of groups whose Pods change. They are admitted."""
SIZES = (10, 100, 1000)
_PREFIX = "kueue.x-k8s.io/"
_POD = ("", "Pod")
_GROUP = ("", "PodGroup")
_SPACE: Json = {
    "apiVersion": "v1",
    "kind": "Namespace",
    "metadata": {"name": "team", "uid": "team", "resourceVersion": "1"},
}


def bench_pod_groups() -> None:
    """Measure changes without effect, of whole groups, and of single Pods, which complete."""
    print(f"\nPod groups, {WAITING} waiting Pods; CPU us per changed Pod and KiB per Pod:")
    head = ("without effect", "all of a group", "one of a group", "memory")
    print(f"  {'Pods of a group':<20}" + "".join(f"{each:>16}" for each in head))
    for size in SIZES:
        groups = _Groups(size)
        whole, single = groups.change_us(size, "Running"), groups.change_us(1, "Succeeded")
        costs = (groups.change_us(size, ""), whole, single)
        figures = "".join(f"{each:>16.0f}" for each in costs)
        print(f"  {size:<20}{figures}{groups.kib:>16.2f}", flush=True)


class _Groups:
    """Waiting Pods in groups of one size, as a controller keeps them."""

    def __init__(self, size: int) -> None:
        clock, registry = SystemClock(), JobKindRegistry()
        self._kind = registry.kind(_POD)
        self._config = LifecycleConfig(owners=owners_of(["pod"]))
        # Nothing is read from a server or written to one.
        self._cache = ClusterCache(cast(Any, None), clock, [self._kind, registry.kind(_GROUP)])
        self._cache.wrote(NAMESPACES, _SPACE)
        self._reconciler = JobReconciler(self._cache, cast(Any, None), clock, self._config)
        self._size, self._revision = size, 10
        self._changed: set[JobKey] = set()
        gc.collect()
        tracemalloc.start()
        for number in range(WAITING):
            self._store(self._pod(number))
        gc.collect()
        self.kib = tracemalloc.get_traced_memory()[0] / WAITING / 1024
        tracemalloc.stop()
        for kind, informer in self._cache.job_caches.observed():
            informer.observe(partial(self._observed, kind))
        self.change_us(1, "Pending")  # The first passes fill caches.
        for number in range(CHANGED):
            self._admit(JobKey(_GROUP, Key("team", f"g{number}")))

    def _pod(self, number: int) -> Json:
        labels = {
            f"{_PREFIX}queue-name": "main",
            f"{_PREFIX}pod-group-name": f"g{number // self._size}",
        }
        meta: Json = {
            "name": f"p{number}",
            "namespace": "team",
            "uid": f"u{number}",
            "labels": labels,
            "annotations": {f"{_PREFIX}pod-group-total-count": str(self._size)},
            "creationTimestamp": "2026-01-02T03:04:05Z",
        }
        container = {"name": "c", "image": "i", "resources": {"requests": {"cpu": "1"}}}
        made: Json = {"apiVersion": "v1", "kind": "Pod", "metadata": meta}
        made |= {"spec": {"containers": [container]}, "status": {"phase": "Pending"}}
        return defaulted(self._kind, made, _look_up, self._config)

    def _store(self, pod: Json) -> None:
        self._revision += 1
        pod["metadata"]["resourceVersion"] = str(self._revision)
        self._cache.wrote(PODS, pod)

    def _observed(self, kind: tuple[str, str], old: Json | None, new: Json | None) -> None:
        self._changed |= {job for job, _ in self._cache.job_caches.jobs_affected_by(kind, old, new)}

    def change_us(self, together: int, phase: str) -> float:
        """The CPU for one of the Pods that change together; a status without effect for ""."""
        pods = [self._pod(number) for number in range(min(self._size, together) * CHANGED)]
        for pod in pods:
            pod["status"] |= {"phase": phase} if phase else {"hostIP": "10.0.0.1"}
        began = process_time()
        for number, pod in enumerate(pods, 1):
            self._store(pod)
            if number % together == 0:
                self._pass()
        return (process_time() - began) / len(pods) * 1e6

    def _admit(self, group: JobKey) -> None:
        """Store the Workload of a group, with quota."""
        found = reconcile_job(self._reconciler.view(group), 0.0).effects
        made: Json = next(each.object for each in found if isinstance(each, Create))
        sets = made["spec"]["podSets"]
        assigned = [{"name": each["name"], "count": each["count"]} for each in sets]
        conditions = [
            {"type": type_, "status": "True", "reason": type_, "message": ""}
            for type_ in ("QuotaReserved", "Admitted")
        ]
        admission = {"clusterQueue": "main", "podSetAssignments": assigned}
        meta = made["metadata"] | {"uid": group.key.name, "resourceVersion": "1"}
        status = {"admission": admission, "conditions": conditions}
        self._cache.wrote(WORKLOADS, made | {"metadata": meta, "status": status})

    def _pass(self) -> None:
        for job in self._changed:
            reconcile_job(self._reconciler.view(job), 0.0)
        self._changed.clear()


def _look_up(kind: tuple[str, str], key: Key) -> Json | None:
    return _SPACE if kind == NAMESPACE else None
