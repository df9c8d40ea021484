# SPDX-License-Identifier: Apache-2.0
"""`python -m bench.kube multikueue`: how fast a manager dispatches Jobs to four workers.

Everything is on this machine: etcd, five API servers, `kuota controller` as the manager, and the
load. A stand-in replaces the controllers of the workers, which run elsewhere in a real fleet: it
admits each copy at once. So all workers admit each Job, which is the most work for the manager: it
creates four copies, chooses one, creates the Job there, and deletes the three others.

Then a client that decides nothing sends the same writes. No manager is faster than that on this
machine, so the two rates show whether the manager or the API servers are the bottleneck.
"""

from __future__ import annotations

import asyncio
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import AsyncExitStack, contextmanager
from datetime import UTC, datetime
from pathlib import Path

from cluster.kube_fleet import MULTIKUEUE, SPACE, SYSTEM, Cluster, connect, started_worker
from cluster.kube_install import install_crds
from cluster.kube_server import KubeServer
from control.objects import job
from kuota.api.base import Json
from kuota.kube.client import Client
from kuota.kube.errors import KubeError
from kuota.kube.informer import Informer
from kuota.kube.resources import JOBS, WORKLOADS, key_of

from .controller_process import controller_command
from .fleet_costs import Meter, print_costs
from .fleet_writes import PlainWrites

WORKERS = 4
JOBS_IN_ALL = 400
PLAIN_JOBS = 200
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
                asyncio.run(_dispatched(manager, workers, controller))
            finally:
                controller.terminate()


async def _dispatched(
    manager: KubeServer, workers: dict[str, KubeServer], controller: subprocess.Popen[bytes]
) -> None:
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
        meter = Meter(manager, workers, controller.pid)
        idle = await meter.idle(IDLE_S)
        await meter.begin()
        creating = asyncio.create_task(_submit(here.client))
        while not _settled(local, standins):
            await asyncio.sleep(0.05)
        dispatched = await meter.end()
        await creating
        controller.terminate()
        await asyncio.to_thread(controller.wait)
        meter = Meter(manager, workers)
        await meter.begin()
        await PlainWrites(here.client, there, local, standins[0].workloads).run(PLAIN_JOBS)
        plain = await meter.end()
        for each in running:
            each.cancel()
        await asyncio.gather(*running, return_exceptions=True)
    print(f"multikueue: {JOBS_IN_ALL} Jobs, {WORKERS} workers, all of which admit each Job")
    print_costs(dispatched, idle, JOBS_IN_ALL)
    print(f"\nthe writes of {PLAIN_JOBS} dispatches, sent by a client that decides nothing")
    print_costs(plain, idle, PLAIN_JOBS)


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
