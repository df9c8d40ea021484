# SPDX-License-Identifier: Apache-2.0
"""The complete system with an in-memory API server and a fake kubelet, in virtual time."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Coroutine
from typing import Any

from control.fake_api import FakeApi
from control.kubelet import Kubelet
from control.objects import condition, flavor, local_queue, namespace, queue
from control.virtual import VirtualClock, played
from kuota.api.base import Json, Key
from kuota.api.config.load import load
from kuota.api.gates import Gates
from kuota.control.parts import ALL, Parts
from kuota.control.system import System
from kuota.kube.resources import (
    ADMISSION_CHECKS,
    CLUSTER_QUEUES,
    CORE_EVENTS,
    JOBS,
    WORKLOADS,
    Resource,
)

CONFIG = {"apiVersion": "config.kueue.x-k8s.io/v1beta2", "kind": "Configuration"}

Scene = Callable[["Stage"], Coroutine[Any, Any, None]]


class Stage:
    """What a story is told on. Time passes only by `rest`."""

    def __init__(self, config: Json | None = None, gates: dict[str, bool] | None = None) -> None:
        self.clock = VirtualClock()
        self.api = FakeApi(VirtualClock())  # On another machine.
        self.kubelet = Kubelet(self.api)
        chosen = Gates.of(gates or {}, check=False)
        self._config = load(json.dumps(CONFIG | config)) if config is not None else None
        self._gates = chosen
        self.parts: Parts = ALL

    async def play(self, scene: Scene) -> None:
        await self.api.apply(namespace("team"))
        kubelet = asyncio.create_task(self.kubelet.run())
        self.start()
        try:
            await scene(self)
        finally:
            await _ended(kubelet)
            await _ended(self.running)

    async def stop(self) -> None:
        """Stop the system."""
        await _ended(self.running)

    async def restart(self, gates: dict[str, bool] | None = None) -> None:
        """Stop the system, and start another on the same objects, maybe with other gates."""
        await _ended(self.running)
        if gates is not None:
            self._gates = Gates.of(gates, check=False)
        self.start()

    def start(self) -> None:
        """Start a system on the objects that are there."""
        self.system = System(
            self.api, config=self._config, gates=self._gates, clock=self.clock, parts=self.parts
        )
        self.running = asyncio.create_task(self.system.run())

    async def furnish(self, cpu: int = 4) -> None:
        """The plain setting: one queue with so many CPUs."""
        await self.api.apply(flavor(), queue("cq", cpu), local_queue())

    async def rest(self, seconds: float = 3) -> None:
        await asyncio.sleep(seconds)

    def job(self, name: str) -> Json:
        found = self.api.find(JOBS, name)
        assert found is not None, f"no job {name}"
        return found

    def suspended(self, name: str) -> bool:
        return bool(self.job(name)["spec"].get("suspend"))

    def active(self, name: str) -> int:
        return int((self.job(name).get("status") or {}).get("active", 0))

    def workloads(self, job: str) -> list[Json]:
        return [
            each
            for each in self.api.all(WORKLOADS)
            if any(o["name"] == job for o in each["metadata"].get("ownerReferences") or ())
        ]

    def workload(self, job: str) -> Json:
        (found,) = self.workloads(job)
        return found

    def condition(self, job: str, type_: str) -> Json:
        return condition(self.workload(job), type_)

    def says(self, job: str, type_: str) -> str:
        """Status and reason of a condition of the job's Workload, "" without it."""
        found = self.condition(job, type_)
        return f"{found['status']}/{found['reason']}" if found else ""

    def get(self, resource: Resource, name: str) -> Json:
        found = self.api.find(resource, name)
        assert found is not None, f"no {resource} {name}"
        return found

    def events(self, kind: str, name: str = "") -> list[str]:
        """The reasons of all events about objects of a kind, in the order they were sent."""
        return [
            each["reason"]
            for each in self.api.all(CORE_EVENTS)
            if each["involvedObject"].get("kind") == kind
            and (not name or each["involvedObject"]["name"] == name)
        ]

    async def edit(self, resource: Resource, name: str, body: Json) -> None:
        space = "team" if resource.namespaced else ""
        await self.api.patch(resource, Key(space, name), body)

    async def edit_queue(self, spec: Json) -> None:
        """Change the spec of the plain setting's queue."""
        await self.edit(CLUSTER_QUEUES, "cq", {"spec": spec})

    async def edit_queue_quota(self, cpu: int) -> None:
        """Give the plain setting's queue so many CPUs."""
        await self.edit_queue({"resourceGroups": queue("cq", cpu)["spec"]["resourceGroups"]})

    async def edit_workload(self, job: str, body: Json) -> None:
        await self.edit(WORKLOADS, self.workload(job)["metadata"]["name"], body)

    async def status(self, resource: Resource, name: str, body: Json) -> None:
        space = "team" if resource.namespaced else ""
        await self.api.patch(resource, Key(space, name), {"status": body}, subresource="status")

    async def activate(self, check: str) -> None:
        """Let an AdmissionCheck take part, as its controller does."""
        active = {"type": "Active", "status": "True", "reason": "Active", "message": ""}
        active["lastTransitionTime"] = "2026-01-02T03:04:05Z"
        await self.status(ADMISSION_CHECKS, check, {"conditions": [active]})

    async def answer(self, workload: Json, check: str, state: str, **more: object) -> None:
        """What the controller of a check writes: its own entry, and the others as they are."""
        now = self.clock.now().replace(microsecond=0).isoformat().replace("+00:00", "Z")
        said = {"name": check, "state": state, "message": "", "lastTransitionTime": now, **more}
        listed = [said if e["name"] == check else e for e in workload["status"]["admissionChecks"]]
        await self.status(WORKLOADS, workload["metadata"]["name"], {"admissionChecks": listed})


async def _ended(task: asyncio.Task[None]) -> None:
    """Cancel a task; one that died before is a fault."""
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    if not task.cancelled() and task.exception() is not None:
        raise AssertionError("a part of the system died") from task.exception()


def run_scene(
    scene: Scene, config: Json | None = None, gates: dict[str, bool] | None = None
) -> Stage:
    """Play a scene in virtual time."""

    async def run() -> Stage:
        stage = Stage(config, gates)
        await stage.play(scene)
        return stage

    return played(run())
