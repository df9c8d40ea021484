# SPDX-License-Identifier: Apache-2.0
"""The writes of dispatches without their decisions: what API servers can do at the most."""

from __future__ import annotations

import asyncio

from cluster.kube_fleet import MULTIKUEUE, SPACE
from control.objects import job
from kuota.api.base import Json, Key
from kuota.kube.client import Client
from kuota.kube.informer import Informer
from kuota.kube.resources import JOBS, WORKLOADS

AT_ONCE = 16
"""How many dispatches are written at the same time."""


class PlainWrites:
    """Repeats the writes of a dispatch that took place, with other names.

    Events are left out, and so is what happens before the manager creates the Workload. The first
    worker keeps its copy. `local` and `copies` are the Workloads of the dispatches that took place.
    """

    def __init__(
        self,
        manager: Client,
        workers: list[Client],
        local: Informer[Json],
        copies: Informer[Json],
    ) -> None:
        self._manager, self._workers = manager, workers
        copy = next(iter(copies.values()))
        name = copy["metadata"]["name"]
        self._copy, self._local = copy, next(w for w in local.values() if name == _name(w))

    async def run(self, number: int) -> None:
        """Write so many dispatches."""
        turns = asyncio.Semaphore(AT_ONCE)

        async def dispatch(name: str) -> None:
            async with turns:
                await self._dispatch(name)

        await asyncio.gather(*(dispatch(f"plain-{each}") for each in range(number)))

    async def _dispatch(self, name: str) -> None:
        made = job(name, "1", suspend=True, managedBy=MULTIKUEUE)
        made["metadata"]["namespace"] = SPACE
        await self._manager.create(JOBS, made)
        await self._manager.create(WORKLOADS, _renamed(self._local, name))
        for status in self._reservation():
            await self._status(name, status)
        copy = _renamed(self._copy, name)
        await asyncio.gather(*(each.create(WORKLOADS, copy) for each in self._workers))
        await self._status(name, {"clusterName": "worker-1", "nominatedClusterNames": None})
        first, *others = self._workers
        remote = {**made, "spec": {k: v for k, v in made["spec"].items() if k != "managedBy"}}
        gone = [each.delete(WORKLOADS, Key(SPACE, name)) for each in others]
        await asyncio.gather(first.create(JOBS, remote), *gone)
        for status in self._admission():
            await self._status(name, status)
        await self._manager.patch(JOBS, Key(SPACE, name), {"spec": {"suspend": False}})

    def _reservation(self) -> list[Json]:
        status = self._local["status"]
        waiting = [each | {"state": "Pending"} for each in status["admissionChecks"]]
        reserved = [each for each in status["conditions"] if each["type"] == "QuotaReserved"]
        return [
            {"admissionChecks": waiting},
            {"admission": status["admission"], "conditions": reserved},
            {"nominatedClusterNames": [f"worker-{n + 1}" for n in range(len(self._workers))]},
        ]

    def _admission(self) -> list[Json]:
        status = self._local["status"]
        return [
            {"admissionChecks": status["admissionChecks"]},
            {"conditions": status["conditions"]},
        ]

    async def _status(self, name: str, status: Json) -> None:
        body = {"status": status}
        await self._manager.patch(WORKLOADS, Key(SPACE, name), body, subresource="status")


def _name(workload: Json) -> str:
    return str(workload["metadata"]["name"])


def _renamed(workload: Json, name: str) -> Json:
    """Return a Workload to create, like this one."""
    kept = ("labels", "annotations")
    meta = {field: workload["metadata"].get(field) for field in kept}
    named = {"apiVersion": WORKLOADS.api_version, "kind": WORKLOADS.kind}
    return named | {"metadata": meta | {"name": name, "namespace": SPACE}, "spec": workload["spec"]}
