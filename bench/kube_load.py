# SPDX-License-Identifier: Apache-2.0
"""Plays everybody but the controller, as Kueue's own benchmark runner does.

All queues are created at once, each with its Workloads at their pace right after it, while the
controller starts. A Workload that is admitted finishes after its running time; one that is evicted
gives its quota back at once, but keeps its admission for the controller to remove. Both are server-
side apply requests of the whole status, so that objects and their managed fields grow as they do
there. No more than WORKERS of them are under way. Nothing is ever deleted.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Iterator
from datetime import UTC, datetime

import msgspec

from kuota.api.base import Json
from kuota.api.gates import Gates
from kuota.api.workload import Workload
from kuota.bridge.admission import released_status
from kuota.kube import resources as kinds
from kuota.kube.client import Client
from kuota.kube.errors import Conflict
from kuota.kube.informer import Informer
from kuota.kube.requests import PatchType
from kuota.kube.resources import key_of

from .installation import named
from .shapes import Kind, Shape

V1BETA2 = "kueue.x-k8s.io/v1beta2"
CLASS = "kueue.x-k8s.io/performance-scheduler-class"
RUNNING_MS = "kueue.x-k8s.io/performance-scheduler-running-ms"
CLEANUP = "kueue.x-k8s.io/performance-scheduler-cleanup"
WORKERS = 5
_GATES = Gates()


def queues(shape: Shape) -> Iterator[tuple[str, str]]:
    """The name of each queue, and of its cohort."""
    for cohort in range(shape.cohorts):
        for queue in range(shape.queues):
            yield f"cq-{queue}-cohort-{cohort}", f"cohort-{cohort}"


def _cluster_queue(name: str, cohort: str) -> Json:
    quota = {"name": "cpu", "nominalQuota": "20", "borrowingLimit": "100"}
    group = {
        "coveredResources": ["cpu"],
        "flavors": [{"name": "default", "resources": [quota]}],
    }
    spec = {
        "cohortName": cohort,
        "namespaceSelector": {},
        "queueingStrategy": "BestEffortFIFO",
        "flavorFungibility": {"whenCanBorrow": "MayStopSearch", "whenCanPreempt": "TryNextFlavor"},
        "preemption": {"reclaimWithinCohort": "Any", "withinClusterQueue": "LowerPriority"},
        "resourceGroups": [group],
    }
    made = named(V1BETA2, "ClusterQueue", name, spec=spec)
    made["metadata"]["labels"] = {CLASS: "cq", CLEANUP: "true"}
    return made


def _workload(queue: str, kind: Kind, number: int) -> Json:
    resources = {"requests": {"cpu": str(kind.cpu)}}
    container = {"name": "c", "resources": resources}
    template = {"spec": {"containers": [container], "restartPolicy": "Never"}}
    pod_set = {"name": "main", "count": 1, "template": template}
    spec = {"queueName": queue, "priority": kind.priority, "podSets": [pod_set]}
    made = named(V1BETA2, "Workload", f"{kind.name}-{number}", queue, spec=spec)
    made["metadata"]["labels"] = {CLASS: kind.name, RUNNING_MS: str(kind.runs_ms)}
    return made


class Load:
    """One run of a shape. `requests` counts what was sent; `waits_s` is by class."""

    def __init__(self, client: Client, shape: Shape) -> None:
        self.requests = 0
        self.evictions = 0
        self.waits_s: dict[str, list[float]] = defaultdict(list)
        self._client = client
        self._shape = shape
        self._kinds = {kind.name: kind for kind in shape.kinds}
        self._left = shape.workloads
        self._done = asyncio.Event()
        self._ending: dict[str, asyncio.Task[None]] = {}
        self._workers = asyncio.Semaphore(WORKERS)

    async def run(self) -> None:
        """Submit everything at its pace, and return when all of it has finished."""
        workloads: Informer[Json] = Informer(self._client, kinds.WORKLOADS)
        workloads.observe(self._see)
        following = asyncio.create_task(workloads.run())
        await workloads.synced.wait()
        await self._client.create(
            kinds.RESOURCE_FLAVORS, named(V1BETA2, "ResourceFlavor", "default")
        )
        async with asyncio.TaskGroup() as group:
            for name, cohort in queues(self._shape):
                group.create_task(self._fill(name, cohort, group))
            await self._done.wait()
        following.cancel()

    async def _fill(self, name: str, cohort: str, group: asyncio.TaskGroup) -> None:
        """Create one queue, and submit its Workloads from then on."""
        local = named(V1BETA2, "LocalQueue", name, name, spec={"clusterQueue": name})
        await self._client.create(kinds.CLUSTER_QUEUES, _cluster_queue(name, cohort))
        await self._client.create(kinds.NAMESPACES, named("v1", "Namespace", name))
        await self._client.create(kinds.LOCAL_QUEUES, local)
        for kind in self._shape.kinds:
            group.create_task(self._submit(name, kind))

    async def _submit(self, queue: str, kind: Kind) -> None:
        for number in range(kind.count):
            await asyncio.sleep(kind.every_ms / 1000)
            self.requests += 1
            await self._client.create(kinds.WORKLOADS, _workload(queue, kind, number))

    def _see(self, old: Json | None, obj: Json | None) -> None:
        if obj is None or "Finished" in _true(old or {}):
            return
        uid, true = obj["metadata"]["uid"], _true(obj)
        if "Finished" in true:
            self._waited(obj)
        elif "Evicted" in true and "QuotaReserved" in true:
            self._stop(uid)
            self.evictions += 1
            self._ending[uid] = asyncio.create_task(self._release(obj))
        elif "Admitted" in true and uid not in self._ending:
            kind = self._kinds[obj["metadata"]["labels"][CLASS]]
            self._ending[uid] = asyncio.create_task(self._finish(obj, kind.runs_ms / 1000))
        elif "QuotaReserved" not in true:
            self._stop(uid)

    def _stop(self, uid: str) -> None:
        task = self._ending.pop(uid, None)
        if task is not None:
            task.cancel()

    def _waited(self, obj: Json) -> None:
        created = datetime.fromisoformat(obj["metadata"]["creationTimestamp"])
        admitted = next(e for e in obj["status"]["conditions"] if e["type"] == "Admitted")
        moment = datetime.fromisoformat(admitted["lastTransitionTime"])
        kind = obj["metadata"]["labels"][CLASS]
        self.waits_s[kind].append((moment - created).total_seconds())
        self._left -= 1
        if not self._left:
            self._done.set()

    async def _finish(self, obj: Json, after_s: float) -> None:
        await asyncio.sleep(after_s)
        done = {
            "type": "Finished",
            "status": "True",
            "reason": "ByTest",
            "message": "Finished by the load",
            "lastTransitionTime": datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
        }
        status = obj["status"] | {"conditions": [*obj["status"]["conditions"], done]}
        await self._write(obj, status, "kueue-job-controller-Finished")

    async def _release(self, obj: Json) -> None:
        found = msgspec.convert(obj, Workload)
        released = released_status(found, datetime.now(UTC).timestamp(), _GATES)
        await self._write(obj, {"conditions": released["conditions"]}, "kueue-admission")

    async def _write(self, obj: Json, status: Json, manager: str) -> None:
        """Write, unless somebody else was faster: then the watch brings what to do instead."""
        self.requests += 1
        key, version = key_of(obj), obj["metadata"]["resourceVersion"]
        body = named(V1BETA2, "Workload", key.name, key.namespace, status=status)
        body["metadata"]["resourceVersion"] = version
        try:
            async with self._workers:
                await self._client.patch(
                    kinds.WORKLOADS,
                    key,
                    body,
                    kind=PatchType.APPLY,
                    subresource="status",
                    manager=manager,
                    force=True,
                )
        except Conflict:
            self._ending.pop(obj["metadata"]["uid"], None)


def _true(obj: Json) -> set[str]:
    conditions = (obj.get("status") or {}).get("conditions") or ()
    return {each["type"] for each in conditions if each["status"] == "True"}
