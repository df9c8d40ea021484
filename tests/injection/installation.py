# SPDX-License-Identifier: Apache-2.0
"""A small installation in virtual time, with points in its controllers and its runner.

Server and pod processes survive the process of the controllers and the runner, which is restarted
whenever it exits.
"""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

from control.virtual import VirtualClock
from injection.check import switch_controller
from injection.machine import Machine, SimulatedProcess
from injection.points import PLAN, rewritten
from kuota.api.base import Json, Key
from kuota.api.config.load import load
from kuota.api.gates import Gates
from kuota.bridge.jobs.registry import JOB
from kuota.bridge.lifecycle_view import lifecycle_config
from kuota.kube.client import Client
from kuota.kube.errors import Conflict, ServerError
from kuota.kube.resources import CORE_EVENTS, PODS, WORKLOADS, Resource
from kuota.server.api import ApiServer
from kuota.server.store import Store
from kuota.up.job_hook import job_hook
from kuota.up.local import local_client

GPU = "nvidia.com/gpu"
LATENCY_S = 0.01
ELASTIC = "grows"
"""The name of the elastic Job."""
MOST_RESTARTS = 4
GATES = Gates.of({"FailureRecoveryPolicy": True, "ConcurrentAdmission": True}, check=False)
CONFIG = load(
    json.dumps(
        {
            "apiVersion": "config.kueue.x-k8s.io/v1beta2",
            "kind": "Configuration",
            "waitForPodsReady": {"timeout": "300s"},
            "integrations": {
                "frameworks": [
                    "batch/job",
                    "jobset.x-k8s.io/jobset",
                    "pod",
                    "deployment",
                    "statefulset",
                ]
            },
            "admissionFairSharing": {
                "usageHalfLifeTime": "60s",
                "usageSamplingInterval": "30s",
            },
        }
    )
)

_modules = rewritten(
    "kuota.control.system",
    "kuota.runner.runner",
    "kuota.runner.pod_runs",
    "kuota.runner.settings",
    "kuota.runner.nodes",
    "kuota.runner.inventory",
    "kuota.runner.cgroups",
    "kuota.runner.run_as",
    "kuota.runner.job_rules",
    "kuota.runner.pod_steps",
    "kuota.runner.devices",
    "kuota.runner.pod_home",
    "kuota.runner.pod_informer",
    "kuota.control.checks.controller",
    "kuota.control.checks.states",
)
system, runner, pod_runs, settings, nodes, inventory, cgroups, run_as, job_rules = _modules[:9]
pod_steps, devices, pod_home, pod_informer, check_contract, check_states = _modules[9:]
vars(pod_runs)["Process"] = SimulatedProcess
vars(nodes)["HEARTBEAT_S"] = 40
vars(system)["PLUGINS"] = (switch_controller(check_contract, check_states),)


class UnreliableClient(Client):
    """A client of the server that fails in the ordinary ways, each a few times, even without any
    injection: only so are the awaits reached that come after such failures.
    """

    def __init__(self, inner: Client) -> None:
        vars(self).update(vars(inner))
        down = ServerError(500, "InternalError", "out of order")
        stale = Conflict(409, "Conflict", "somebody was faster")
        self._faults: dict[tuple[str, Resource], list[Exception]] = {
            ("status", WORKLOADS): [stale, down],
            ("waiting", WORKLOADS): [down],
            ("status", PODS): [down, stale],
            ("binding", PODS): [down],
            ("leave", PODS): [down],
            ("ungate", PODS): [down],
            ("check", WORKLOADS): [down],
        }

    async def create(self, resource: Resource, obj: Json, **more: Any) -> Json:
        if resource == CORE_EVENTS:
            return obj  # nothing depends on them, and they are half of all writes
        self._stumble(more.get("subresource", ""), resource)
        return await super().create(resource, obj, **more)

    async def patch(self, resource: Resource, key: Key, body: Any, **more: Any) -> Json:
        self._stumble(more.get("subresource", ""), resource)
        if resource == PODS and key.name.startswith(ELASTIC) and "schedulingGates" in str(body):
            self._stumble("ungate", resource)
        if resource == WORKLOADS and "'state': 'Ready'" in str(body):
            self._stumble("check", resource)
        if "WaitingForQuota" in str(body):
            self._stumble("waiting", resource)
        return await super().patch(resource, key, body, **more)

    async def delete(self, resource: Resource, key: Key, **more: Any) -> Json:
        self._stumble("leave" if more.get("grace_s") == 0 else "delete", resource)
        return await super().delete(resource, key, **more)

    async def _object(self, resource: Resource, request: Any) -> Json:
        await asyncio.sleep(LATENCY_S)
        return await super()._object(resource, request)

    def _stumble(self, verb: str, resource: Resource) -> None:
        faults = self._faults.get((verb, resource))
        if faults:
            raise faults.pop(0)


class Installation:
    """The server, the machine, and the process that may end and is started again."""

    def __init__(self, state_dir: Path) -> None:
        self.clock = VirtualClock()
        self.machine = SimulatedProcess.machine = Machine()
        self.restarts = 0
        self._state_dir = state_dir
        self._store = Store.open(":memory:")
        hook = job_hook(self._store, lifecycle_config(CONFIG, GATES))
        self._api = ApiServer(self._store, hooks=(hook,), clock=self.clock.now, gates=GATES)
        self.client = local_client(self._api)
        self._theirs = UnreliableClient(self.client)
        self._ending = False

    async def open(self) -> None:
        await self._api.start()
        self._supervisor = asyncio.create_task(self._supervise())

    async def close(self) -> None:
        """Stop as on SIGTERM: finish what was begun, then end the process."""
        self._ending = True
        await self._finish()
        await self._supervisor
        await self._api.close()
        self._store.close()

    async def roll(self) -> None:
        """Replace the process by a new one while decisions are being written."""
        while not self.system.driver.busy():
            await asyncio.sleep(LATENCY_S)
        await self._finish()

    async def _finish(self) -> None:
        finishing = asyncio.create_task(self.system.finish())
        first = asyncio.FIRST_COMPLETED
        await asyncio.wait((finishing, self._process), return_when=first)
        finishing.cancel()
        await asyncio.gather(finishing, return_exceptions=True)
        self._process.cancel()

    async def _supervise(self) -> None:
        """Run the process; when it ends, start it again."""
        while not self._ending:
            self._process = asyncio.create_task(self._run())
            PLAN.stop = self._stop
            await asyncio.wait((self._process,))
            failure = None if self._process.cancelled() else self._process.exception()
            if not self._ending:
                self.restarts += 1
                if self.restarts > MOST_RESTARTS:
                    raise AssertionError("it never comes up again") from failure
                await asyncio.sleep(1)

    async def _stop(self) -> None:
        """What an orderly end of the process looks like from inside: a cancellation."""
        self._process.cancel()
        await asyncio.Event().wait()

    async def _run(self) -> None:
        self.system = system.System(self._theirs, config=CONFIG, gates=GATES, clock=self.clock)
        events = self.system.deferred_events()
        theirs = runner.Runner(
            self._theirs,
            self.system.cache.jobs[JOB.group_kind],
            pod_informer.shared_informer(self.system.cache.pods),
            _plans(),
            settings.RunnerSettings(
                state_dir=str(self._state_dir),
                run_as=run_as.RunAsPolicy(uid=1000),
                crash_backoff=pod_steps.CrashBackoff(first_s=1),
            ),
            clock=self.clock,
            backoff=job_rules.ReplacementBackoff(first_s=1),
            recorder=events,
            cgroups=cgroups.Cgroups(refusal="there is no cgroup v2 in tests"),
            others=self.system.cache.jobs,
        )
        await nodes.check(self._theirs, _plans())
        async with asyncio.TaskGroup() as group:
            group.create_task(theirs.run())
            group.create_task(self.system.run(self._leading))
            group.create_task(events.run())

    async def _leading(self) -> None:
        await asyncio.sleep(0)

    def devices(self) -> Any:
        """Who holds which devices, as it is written down."""
        return devices.DeviceAllocations(f"{self._state_dir}/devices.json", {})

    def homes(self) -> list[str]:
        """The uids of pods that have a folder."""
        found: list[str] = pod_home.homes(f"{self._state_dir}/pods")
        return found

    async def all(self, resource: Resource) -> list[Json]:
        return (await self.client.list(resource)).items

    async def apply(self, *objects: tuple[Resource, Json]) -> None:
        for resource, obj in objects:
            await self.client.create(resource, obj)


def _plans() -> list[Any]:
    found = inventory.Machine(
        cpu_milli=64_000, memory_bytes=64 << 30, disk_bytes=1 << 30, gpus=inventory.pretended(8)
    )
    return [nodes.this_machine("here", found)]
