# SPDX-License-Identifier: Apache-2.0
"""MultiKueue with two real API servers: a manager, and a worker on the same etcd."""

from __future__ import annotations

import asyncio
import base64
import json
from collections.abc import Awaitable, Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from cluster.kube_install import install_crds
from cluster.kube_server import KubeServer
from cluster.kubelet import Kubelet
from control.objects import condition, flavor, job, namespace, queue
from hang import HANG_S
from kuota.api.base import Json, Key
from kuota.api.config.load import load
from kuota.api.worker_role import ACCOUNT, worker_objects
from kuota.control.system import System
from kuota.kube.client import Client
from kuota.kube.errors import AlreadyExists, KubeError, NotFound
from kuota.kube.resources import (
    ADMISSION_CHECKS,
    CLUSTER_QUEUES,
    JOBS,
    LOCAL_QUEUES,
    MULTI_KUEUE_CLUSTERS,
    MULTI_KUEUE_CONFIGS,
    NAMESPACES,
    PODS,
    RESOURCE_FLAVORS,
    SECRETS,
    WORKLOADS,
    Resource,
)

SPACE, SYSTEM = "fleet", "kueue-system"
MANAGER_TOKEN = "manager-token"
CLUSTER_ROLES, CLUSTER_ROLE_BINDINGS = (
    Resource("rbac.authorization.k8s.io", "v1", plural, kind, namespaced=False)
    for plural, kind in (
        ("clusterroles", "ClusterRole"),
        ("clusterrolebindings", "ClusterRoleBinding"),
    )
)
MULTIKUEUE = "kueue.x-k8s.io/multikueue"
CONFIG = {
    "apiVersion": "config.kueue.x-k8s.io/v1beta2",
    "kind": "Configuration",
    "namespace": SYSTEM,
    "multiKueue": {"workerLostTimeout": "2m", "gcInterval": "5s"},
}
KEY = Key(SPACE, "train")


@pytest.fixture(scope="module")
def worker(kube: KubeServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[KubeServer]:
    """A second cluster, with Kueue's kinds and the Job controller."""
    server = kube.beside(tmp_path_factory.mktemp("worker") / "worker")
    with (server.folder / "tokens.csv").open("a") as tokens:
        tokens.write(f"{MANAGER_TOKEN},{ACCOUNT},{ACCOUNT}\n")
    try:
        server.start()
        asyncio.run(install_crds(server))
        asyncio.run(_grant(server))
        server.run("kube-controller-manager")
        yield server
    finally:
        server.close()


async def _grant(server: KubeServer) -> None:
    """Let the manager do what `kuota cluster role` prints, and nothing else."""
    subjects = [{"kind": "User", "name": ACCOUNT, "apiGroup": "rbac.authorization.k8s.io"}]
    async with server.client() as client:
        for each in worker_objects(SYSTEM):
            if each["kind"] == "ClusterRole":
                await client.create(CLUSTER_ROLES, each)
            elif each["kind"] == "ClusterRoleBinding":
                await client.create(CLUSTER_ROLE_BINDINGS, each | {"subjects": subjects})


class Side:
    """One cluster: its client, and Kuota's controllers."""

    def __init__(self, client: Client) -> None:
        self.client = client
        self._system: asyncio.Task[None] | None = None

    def start(self) -> None:
        self._system = asyncio.create_task(
            System(self.client, config=load(json.dumps(CONFIG))).run()
        )

    async def stop(self) -> None:
        assert self._system is not None
        self._system.cancel()
        await asyncio.gather(self._system, return_exceptions=True)

    async def create(self, resource: Resource, obj: Json) -> None:
        with suppress(AlreadyExists):
            await self.client.create(resource, obj)

    async def get(self, resource: Resource, key: Key) -> Json:
        """An object, or an empty one if it is gone or the server does not answer."""
        try:
            return await self.client.get(resource, key)
        except (NotFound, KubeError):
            return {}

    async def listed(self, resource: Resource) -> list[Json]:
        return (await self.client.list(resource, SPACE)).items

    async def furnish(self, **spec: Any) -> None:
        local = {"clusterQueue": "fleet-cq"}
        made = {"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "LocalQueue", "spec": local}
        await self.create(NAMESPACES, namespace(SPACE))
        await self.create(RESOURCE_FLAVORS, flavor("fleet-flavor"))
        quota = {"fleet-flavor": 4}
        await self.create(CLUSTER_QUEUES, queue("fleet-cq", flavors=quota, **spec))
        meta = {"name": "main", "namespace": SPACE}
        await self.create(LOCAL_QUEUES, made | {"metadata": meta})


async def until(claim: Callable[[], Awaitable[bool]], what: str) -> None:
    """Wait until the claim is true."""
    async with asyncio.timeout(HANG_S):
        while not await claim():
            await asyncio.sleep(0.05)


def kubeconfig(server: KubeServer) -> str:
    authority = base64.b64encode(server.certificates.authority.read_bytes()).decode()
    return json.dumps(
        {
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": "c",
            "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
            "clusters": [
                {
                    "name": "c",
                    "cluster": {"server": server.url, "certificate-authority-data": authority},
                }
            ],
            "users": [{"name": "u", "user": {"token": MANAGER_TOKEN}}],
        }
    )


async def connect(manager: Side, worker: KubeServer) -> None:
    """Tell the manager about its worker, and wait until it is connected."""
    kueue = {"apiVersion": "kueue.x-k8s.io/v1beta2"}
    await manager.create(NAMESPACES, namespace(SYSTEM))
    content = base64.b64encode(kubeconfig(worker).encode()).decode()
    meta = {"name": "worker-secret", "namespace": SYSTEM}
    secret = {"apiVersion": "v1", "kind": "Secret", "metadata": meta}
    await manager.create(SECRETS, secret | {"data": {"kubeconfig": content}})
    source = {"kubeConfig": {"location": "worker-secret", "locationType": "Secret"}}
    named = {"metadata": {"name": "worker"}, "spec": {"clusterSource": source}}
    await manager.create(MULTI_KUEUE_CLUSTERS, kueue | {"kind": "MultiKueueCluster"} | named)
    named = {"metadata": {"name": "fleet"}, "spec": {"clusters": ["worker"]}}
    await manager.create(MULTI_KUEUE_CONFIGS, kueue | {"kind": "MultiKueueConfig"} | named)
    parameters = {"apiGroup": "kueue.x-k8s.io", "kind": "MultiKueueConfig", "name": "fleet"}
    spec = {"controllerName": MULTIKUEUE, "parameters": parameters}
    check = {"kind": "AdmissionCheck", "metadata": {"name": "fleet"}, "spec": spec}
    await manager.create(ADMISSION_CHECKS, kueue | check)
    await manager.furnish(admissionChecksStrategy={"admissionChecks": [{"name": "fleet"}]})

    async def active() -> bool:
        found = await manager.get(ADMISSION_CHECKS, Key("", "fleet"))
        return condition(found, "Active").get("status") == "True"

    await until(active, "the worker is connected")


def test_a_job_outlives_a_restart_of_the_manager_and_of_the_worker(
    kube: KubeServer, worker: KubeServer, tmp_path: Path
) -> None:
    async def story() -> None:
        async with kube.client() as here, worker.client() as there:
            manager, member = Side(here), Side(there)
            kubelet = Kubelet(there, lambda: None)
            await member.furnish()
            await kubelet.node()
            pods = asyncio.create_task(kubelet.run())
            manager.start()
            member.start()
            try:
                await connect(manager, worker)
                await _dispatch(manager, member, kube, worker, kubelet)
            finally:
                await manager.stop()
                await member.stop()
                pods.cancel()
                await asyncio.gather(pods, return_exceptions=True)
                await _clear(manager)

    asyncio.run(story())


async def _dispatch(
    manager: Side, member: Side, kube: KubeServer, worker: KubeServer, kubelet: Kubelet
) -> None:
    made = job("train", "1", suspend=True, managedBy=MULTIKUEUE)
    made["metadata"]["namespace"] = SPACE
    await manager.create(JOBS, made)

    async def active() -> bool:
        found = await manager.get(JOBS, KEY)
        return (found.get("status") or {}).get("active") == 1 and not found["spec"]["suspend"]

    await until(active, "the status of the copy comes back")
    assert not await manager.listed(PODS)
    (copy,) = await member.listed(JOBS)
    assert "managedBy" not in copy["spec"]
    await manager.stop()
    worker.kill("kube-apiserver")
    manager.start()
    await asyncio.to_thread(worker.run, "kube-apiserver")
    (local,) = await manager.listed(WORKLOADS)
    assert local["status"]["clusterName"] == "worker"
    (pod,) = await member.listed(PODS)
    await kubelet.end([pod], "Succeeded")

    async def over() -> bool:
        (found,) = await manager.listed(WORKLOADS)
        return condition(found, "Finished").get("reason") == "Succeeded"

    await until(over, "the end of the copy ends the job")
    assert condition(await manager.get(JOBS, KEY), "Complete")["status"] == "True"

    async def clean() -> bool:
        return not await member.listed(WORKLOADS) and not await member.listed(JOBS)

    await until(clean, "nothing is left in the worker")


async def _clear(manager: Side) -> None:
    """Delete what other tests on this server must not meet."""
    for resource, key in (
        (JOBS, KEY),
        (LOCAL_QUEUES, Key(SPACE, "main")),
        (CLUSTER_QUEUES, Key("", "fleet-cq")),
        (ADMISSION_CHECKS, Key("", "fleet")),
        (MULTI_KUEUE_CONFIGS, Key("", "fleet")),
        (MULTI_KUEUE_CLUSTERS, Key("", "worker")),
        (RESOURCE_FLAVORS, Key("", "fleet-flavor")),
    ):
        with suppress(NotFound):
            await manager.client.delete(resource, key)
            await manager.client.patch(resource, key, {"metadata": {"finalizers": None}})
