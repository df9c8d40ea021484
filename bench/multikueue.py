# SPDX-License-Identifier: Apache-2.0
"""`python -m bench.kube multikueue`: how fast a manager dispatches Jobs to four workers.

Everything is on this machine: etcd, five API servers, `kuota controller` as the manager, and the
load. A stand-in replaces the controllers of the workers, which run elsewhere in a real fleet: it
admits each copy at once. So all workers admit each Job, which is the most work for the manager: it
creates four copies, chooses one, creates the Job there, and deletes the three others.
"""

from __future__ import annotations

import asyncio
import os
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import AsyncExitStack, contextmanager
from datetime import UTC, datetime
from pathlib import Path
from time import perf_counter

from cluster.kube_fleet import MULTIKUEUE, SPACE, SYSTEM, Cluster, connect, started_worker
from cluster.kube_install import install_crds
from cluster.kube_server import KubeServer
from control.objects import job
from kuota.api.base import Json
from kuota.kube.client import Client
from kuota.kube.errors import KubeError
from kuota.kube.http_client import HttpTransport
from kuota.kube.informer import Informer
from kuota.kube.resources import JOBS, WORKLOADS, key_of

from . import process
from .controller_process import controller_command
from .request_counts import WRITES, counted

WORKERS = 4
JOBS_IN_ALL = 400
IDLE_S = 10.0
AT_ONCE = 16
"""How many Jobs are created, and copies admitted, at the same time."""


class Standin:
    """The controllers of a worker: admits every copy as soon as it appears."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self.workloads: Informer[Json] = Informer(client, WORKLOADS, SPACE)
        self.jobs: Informer[Json] = Informer(client, JOBS, SPACE)
        self._turns = asyncio.Semaphore(AT_ONCE)

    async def run(self) -> None:
        async with asyncio.TaskGroup() as group:

            def seen(old: Json | None, new: Json | None) -> None:
                if old is None and new is not None:
                    group.create_task(self._admit(new))

            self.workloads.observe(seen)
            group.create_task(self.workloads.run())
            group.create_task(self.jobs.run())

    async def _admit(self, workload: Json) -> None:
        async with self._turns:
            try:
                body = {"status": _admitted(workload)}
                await self._client.patch(WORKLOADS, key_of(workload), body, subresource="status")
            except KubeError:
                return  # Another worker was faster, and the copy is gone.


def _admitted(workload: Json) -> Json:
    now = datetime.now(UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
    sets = [
        {"name": each["name"], "flavors": {"cpu": "fleet-flavor"}, "count": each["count"]}
        for each in workload["spec"]["podSets"]
    ]
    conditions = [
        {
            "type": type_,
            "status": "True",
            "reason": type_,
            "message": "",
            "lastTransitionTime": now,
        }
        for type_ in ("QuotaReserved", "Admitted")
    ]
    admission = {"clusterQueue": "fleet-cq", "podSetAssignments": sets}
    return {"admission": admission, "conditions": conditions}


@contextmanager
def servers(found: dict[str, Path]) -> Iterator[tuple[KubeServer, dict[str, KubeServer]]]:
    """The API servers of a manager and of its workers."""
    with tempfile.TemporaryDirectory(prefix="kuota-bench-") as folder:
        (Path(folder) / "manager").mkdir()
        manager = KubeServer(Path(folder) / "manager", found)
        workers: dict[str, KubeServer] = {}
        try:
            manager.start()
            asyncio.run(install_crds(manager))
            for number in range(1, WORKERS + 1):
                name = f"worker-{number}"
                workers[name] = started_worker(manager, Path(folder) / name)
            yield manager, workers
        finally:
            for each in (*workers.values(), manager):
                each.close()


def measure(found: dict[str, Path]) -> None:
    """Start everything, dispatch the Jobs, and print what it cost."""
    with servers(found) as (manager, workers):
        command = controller_command(
            manager.folder,
            parts="core,scheduler,jobs",
            clientConnection={"qps": 1000, "burst": 2000},
            namespace=SYSTEM,
        )
        log = (manager.folder / "controller.log").open("wb")
        with (
            log,
            subprocess.Popen(
                [*command, "--kubeconfig", str(manager.kubeconfig)], stdout=log, stderr=log
            ) as controller,
        ):
            try:
                asyncio.run(_dispatched(manager, workers, controller.pid))
            finally:
                controller.terminate()


async def _dispatched(manager: KubeServer, workers: dict[str, KubeServer], pid: int) -> None:
    async with AsyncExitStack() as stack:
        here = Cluster(await stack.enter_async_context(manager.client()))
        there = [await stack.enter_async_context(each.client()) for each in workers.values()]
        for client in there:
            await Cluster(client).furnish()
        standins = [Standin(client) for client in there]
        local: Informer[Json] = Informer(here.client, WORKLOADS, SPACE)
        running = [asyncio.create_task(each.run()) for each in standins]
        running.append(asyncio.create_task(local.run()))
        await connect(here, workers, JOBS_IN_ALL)
        api_servers = [manager, *workers.values()]
        idle = await _idle(manager, api_servers, pid)
        writes = await _writes(api_servers)
        before, begin = _used(manager, api_servers, pid), perf_counter()
        creating = asyncio.create_task(_submit(here.client))
        while not _settled(local, standins):
            await asyncio.sleep(0.05)
        wall_s, after = perf_counter() - begin, _used(manager, api_servers, pid)
        writes = await _writes(api_servers) - writes
        await creating
        for each in running:
            each.cancel()
        await asyncio.gather(*running, return_exceptions=True)
    _report(wall_s, {name: after[name] - before[name] for name in after}, idle, writes)


async def _idle(manager: KubeServer, api_servers: list[KubeServer], pid: int) -> dict[str, float]:
    """How many CPUs everything uses before the load begins."""
    before = _used(manager, api_servers, pid)
    await asyncio.sleep(IDLE_S)
    after = _used(manager, api_servers, pid)
    return {name: (after[name] - before[name]) / IDLE_S for name in after}


async def _writes(api_servers: list[KubeServer]) -> int:
    """How many writes the API servers have answered."""
    total = 0
    for each in api_servers:
        transport = HttpTransport(each.connection())
        try:
            found = await counted(transport)
        finally:
            await transport.close()
        total += sum(number for (verb, _), number in found.items() if verb in WRITES)
    return total


async def _submit(client: Client) -> None:
    turns = asyncio.Semaphore(AT_ONCE)

    async def submit(number: int) -> None:
        made = job(f"j{number}", "1", suspend=True, managedBy=MULTIKUEUE)
        made["metadata"]["namespace"] = SPACE
        async with turns:
            await client.create(JOBS, made)

    await asyncio.gather(*(submit(number) for number in range(JOBS_IN_ALL)))


def _settled(local: Informer[Json], standins: list[Standin]) -> bool:
    """Whether each Job is in one worker, and nothing of it is in the others."""
    chosen = sum(bool((each.get("status") or {}).get("clusterName")) for each in local.values())
    copies = sum(len(list(each.workloads.keys())) for each in standins)
    jobs = sum(len(list(each.jobs.keys())) for each in standins)
    return chosen == copies == jobs == JOBS_IN_ALL


def _used(manager: KubeServer, api_servers: list[KubeServer], pid: int) -> dict[str, float]:
    """The CPU time of everything, in seconds."""
    return {
        "manager": process.cpu_s(pid),
        "API servers": sum(each.cpu_s("kube-apiserver") for each in api_servers),
        "etcd": manager.cpu_s("etcd"),
        "load and workers": process.cpu_s(os.getpid()),
    }


def _report(wall_s: float, cpu_s: dict[str, float], idle: dict[str, float], writes: int) -> None:
    print(f"multikueue: {JOBS_IN_ALL} Jobs, {WORKERS} workers, all of which admit each Job")
    print(f"wall time                 {wall_s:10.1f} s")
    print(f"dispatches                {JOBS_IN_ALL / wall_s:10.1f} a second")
    print(f"writes to API servers     {writes / JOBS_IN_ALL:10.1f} per dispatch")
    print("CPU time per dispatch, and the part of it that an idle fleet uses as well:")
    for name, used_s in cpu_s.items():
        idle_s = min(used_s, idle[name] * wall_s)
        each_ms, idle_ms = (total / JOBS_IN_ALL * 1000 for total in (used_s, idle_s))
        print(f"  {name:<24}{each_ms:10.1f} ms{idle_ms:10.1f} ms")
    print(f"CPUs in use               {sum(cpu_s.values()) / wall_s:10.2f} by these processes")
