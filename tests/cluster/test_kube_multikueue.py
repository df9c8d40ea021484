# SPDX-License-Identifier: Apache-2.0
"""MultiKueue with real API servers: a manager, and two workers on the same etcd.

One story has a Job in every phase at once, so that a fault meets all of them: submitted, nominated,
running, finishing, being evicted, and being deleted.
"""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial

import pytest

from cluster.cut_line import Line
from cluster.kube_fleet import MULTIKUEUE, SPACE, SYSTEM, Cluster, connect, started_worker, until
from cluster.kube_server import KubeServer
from cluster.kubelet import Kubelet
from control.objects import condition, job
from kuota.api.base import Json, Key
from kuota.api.config.load import load
from kuota.control.system import System
from kuota.kube.client import Client
from kuota.kube.informer import Informer
from kuota.kube.resources import CLUSTER_QUEUES, JOBS, PODS, WORKLOADS

NEAR, FAR = "near", "far"
CONFIG = {
    "apiVersion": "config.kueue.x-k8s.io/v1beta2",
    "kind": "Configuration",
    "namespace": SYSTEM,
    "multiKueue": {"workerLostTimeout": "2s", "gcInterval": "1s"},
}
QUEUE = Key("", "fleet-cq")
COMPLETED = ("submitted", "nominated", "running", "finishing", "evicted")


@pytest.fixture(scope="module")
def workers(
    kube: KubeServer, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[dict[str, KubeServer]]:
    """Two more clusters, with Kueue's kinds and the Job controller."""
    found: dict[str, KubeServer] = {}
    try:
        for name in (NEAR, FAR):
            found[name] = started_worker(kube, tmp_path_factory.mktemp(name) / name)
            found[name].run("kube-controller-manager")
        yield found
    finally:
        for each in found.values():
            each.close()


class Side(Cluster):
    """One cluster with Kuota's controllers."""

    def __init__(self, client: Client) -> None:
        super().__init__(client)
        self._system: asyncio.Task[None] | None = None

    def start(self) -> None:
        system = System(self.client, config=load(json.dumps(CONFIG)))
        self._system = asyncio.create_task(system.run())

    async def stop(self) -> None:
        assert self._system is not None
        self._system.cancel()
        await asyncio.gather(self._system, return_exceptions=True)

    async def restart(self) -> None:
        await self.stop()
        self.start()


class Worker(Side):
    """A worker with its pods, and the manager's line to it."""

    def __init__(self, client: Client, server: KubeServer) -> None:
        super().__init__(client)
        self.line = Line(server.port)
        self.kubelet = Kubelet(client, lambda: None)

    async def end(self, *names: str) -> None:
        """Let the pods of these Jobs succeed."""
        for name in names:
            await self.kubelet.end(self.kubelet.of(Key(SPACE, name)), "Succeeded")

    async def pause(self, paused: bool) -> None:
        """Admit nothing, or admit again."""
        policy = {"spec": {"stopPolicy": "Hold" if paused else "None"}}
        await self.client.patch(CLUSTER_QUEUES, QUEUE, policy)

    async def empty(self) -> bool:
        return not any([await self.listed(each) for each in (WORKLOADS, JOBS, PODS)])


class Fleet:
    """The manager and its workers."""

    def __init__(self, manager: Side, near: Worker, far: Worker) -> None:
        self.manager, self.near, self.far = manager, near, far
        self.workloads: Informer[Json] = Informer(manager.client, WORKLOADS, SPACE)
        self.released: Counter[str] = Counter()
        """How often each Job has given its quota back before it finished."""
        self.workloads.observe(self._seen)

    def _seen(self, old: Json | None, new: Json | None) -> None:
        held, holds = (condition(each or {}, "QuotaReserved").get("status") for each in (old, new))
        if held == "True" and holds == "False":
            self.released[_name(new or {})] += 1

    async def submit(self, name: str, cpu: str = "1") -> None:
        made = job(name, cpu, suspend=True, managedBy=MULTIKUEUE)
        made["metadata"]["namespace"] = SPACE
        await self.manager.client.create(JOBS, made)

    def workload(self, name: str) -> Json:
        return next((each for each in self.workloads.values() if _name(each) == name), {})

    def place(self, name: str) -> str:
        return str((self.workload(name).get("status") or {}).get("clusterName") or "")

    async def runs(self, name: str, place: str) -> bool:
        found = await self.manager.get(JOBS, Key(SPACE, name))
        return (found.get("status") or {}).get("active") == 1 and self.place(name) == place

    def finished(self, name: str) -> bool:
        return condition(self.workload(name), "Finished").get("reason") == "Succeeded"


def _name(workload: Json) -> str:
    owners = (workload.get("metadata") or {}).get("ownerReferences") or [{}]
    return str(owners[0].get("name"))


@asynccontextmanager
async def running(
    kube: KubeServer, workers: dict[str, KubeServer], controlled: tuple[str, ...] = (NEAR, FAR)
) -> AsyncIterator[Fleet]:
    """A fleet until it is left. Kuota runs in the manager and in `controlled` workers."""
    async with AsyncExitStack() as stack:
        manager = Side(await stack.enter_async_context(kube.client()))
        made = {
            name: Worker(await stack.enter_async_context(server.client()), server)
            for name, server in workers.items()
        }
        fleet = Fleet(manager, made[NEAR], made[FAR])
        tasks = [asyncio.create_task(fleet.workloads.run())]
        for each in made.values():
            await each.furnish(16)
            await each.line.mend()
            await each.kubelet.node()
            tasks.append(asyncio.create_task(each.kubelet.run()))
        sides = (manager, *(made[name] for name in controlled))
        for side in sides:
            side.start()
        try:
            ports = {name: each.line.port for name, each in made.items()}
            await connect(manager, workers, 1000, ports)
            yield fleet
        finally:
            for side in sides:
                await side.stop()
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            for each in made.values():
                await each.line.cut()
            await manager.clear()


async def in_every_phase(fleet: Fleet) -> None:
    """Bring a Job into every phase, in the near worker."""
    await fleet.far.pause(True)
    for name in ("running", "finishing", "evicted", "deleted"):
        await fleet.submit(name)
    for name in ("running", "finishing", "evicted", "deleted"):
        await until(partial(fleet.runs, name, NEAR), f"{name} runs in the worker")
    await fleet.submit("nominated", "99")

    async def nominated() -> bool:
        name = (fleet.workload("nominated").get("metadata") or {}).get("name")
        return name in [each["metadata"]["name"] for each in await fleet.far.listed(WORKLOADS)]

    await until(nominated, "copies of a Job that no worker admits yet")
    fleet.near.kubelet.hold()
    await activate(fleet, "evicted", False)

    async def stopping() -> bool:
        found = await fleet.near.get(JOBS, Key(SPACE, "evicted"))
        return bool(found) and found["spec"]["suspend"]

    await until(stopping, "the worker stops the evicted Job")
    await fleet.submit("submitted")


async def activate(fleet: Fleet, name: str, active: bool) -> None:
    key = Key(SPACE, fleet.workload(name)["metadata"]["name"])
    await fleet.manager.client.patch(WORKLOADS, key, {"spec": {"active": active}})


@pytest.mark.parametrize(
    ("lost", "restarted"),
    [(True, False), (False, True), (True, True)],
    ids=["a worker is lost", "the manager is restarted", "both"],
)
def test_jobs_in_every_phase_outlive_a_fault(
    kube: KubeServer, workers: dict[str, KubeServer], lost: bool, restarted: bool
) -> None:
    async def story() -> None:
        async with running(kube, workers) as fleet:
            await in_every_phase(fleet)
            if lost:
                await fleet.near.line.cut()
            if restarted:
                await fleet.manager.stop()
            await _meanwhile(fleet)
            if restarted:
                fleet.manager.start()
            await _recovered(fleet, lost=lost)
            await _completed(fleet)

    asyncio.run(story())


async def _meanwhile(fleet: Fleet) -> None:
    """What happens while the manager or its worker is away."""
    await fleet.near.end("finishing")
    await fleet.manager.client.delete(JOBS, Key(SPACE, "deleted"), propagation="Background")
    patch = {"spec": {"resourceGroups": _quota(200)}}
    await fleet.far.client.patch(CLUSTER_QUEUES, QUEUE, patch)
    await fleet.far.pause(False)


def _quota(cpu: int) -> list[Json]:
    resources = [{"name": "cpu", "nominalQuota": str(cpu)}]
    flavors = [{"name": "fleet-flavor", "resources": resources}]
    return [{"coveredResources": ["cpu"], "flavors": flavors}]


async def _recovered(fleet: Fleet, *, lost: bool) -> None:
    """Wait until every Job runs once, and let the worker return."""
    place = FAR if lost else NEAR

    async def released() -> bool:
        held = condition(fleet.workload("evicted"), "QuotaReserved").get("status")
        return held == "False"

    if not lost:
        fleet.near.kubelet.let_go()
    await until(released, "the evicted Job gives its quota back")
    await until(lambda: fleet.runs("running", place), "the running Job runs where it can")
    await until(lambda: fleet.runs("nominated", FAR), "the nominated Job runs")
    await activate(fleet, "evicted", True)
    if lost:
        await fleet.near.line.mend()
        fleet.near.kubelet.let_go()
        await until(fleet.near.empty, "nothing is left in the worker that was lost")


async def _completed(fleet: Fleet) -> None:
    """Let all Jobs succeed, and check that nothing is left."""

    async def over() -> bool:
        for each in (fleet.near, fleet.far):
            await each.end(*COMPLETED)
        return all(fleet.finished(name) for name in COMPLETED)

    await until(over, "all Jobs have finished")
    for name in COMPLETED:
        found = await fleet.manager.get(JOBS, Key(SPACE, name))
        assert condition(found, "Complete")["status"] == "True", name
        assert found["status"]["succeeded"] == 1, name
        assert fleet.released[name] <= 1, name
    assert fleet.released["evicted"] == 1
    for each in (fleet.near, fleet.far):
        await until(each.empty, "nothing is left in the workers")

    async def unused() -> bool:
        status = (await fleet.manager.get(CLUSTER_QUEUES, QUEUE)).get("status") or {}
        used = [each["resources"][0]["total"] for each in status.get("flavorsReservation") or ()]
        return used == ["0"] and not status.get("reservingWorkloads")

    await until(unused, "the quota of the manager is released")
    for name in COMPLETED:
        await fleet.manager.client.delete(JOBS, Key(SPACE, name), propagation="Background")


def test_a_job_outlives_a_crash_of_the_api_server_of_its_worker(
    kube: KubeServer, workers: dict[str, KubeServer]
) -> None:
    async def story() -> None:
        async with running(kube, workers) as fleet:
            await fleet.far.pause(True)
            await fleet.submit("running")
            await until(lambda: fleet.runs("running", NEAR), "it runs in the worker")
            (copy,) = await fleet.near.listed(JOBS)
            assert "managedBy" not in copy["spec"]
            assert not await fleet.manager.listed(PODS)
            await fleet.manager.stop()
            workers[NEAR].kill("kube-apiserver")
            fleet.manager.start()
            await asyncio.to_thread(workers[NEAR].run, "kube-apiserver")

            async def over() -> bool:
                await fleet.near.end("running")
                return fleet.finished("running")

            await until(over, "the end of the copy ends the Job")
            await until(fleet.near.empty, "nothing is left in the worker")
            await fleet.manager.client.delete(JOBS, Key(SPACE, "running"), propagation="Background")

    asyncio.run(story())
