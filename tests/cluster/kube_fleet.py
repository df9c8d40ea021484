# SPDX-License-Identifier: Apache-2.0
"""Several real API servers on one etcd: a manager, and workers that it knows by their Secrets."""

from __future__ import annotations

import asyncio
import base64
import json
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from cluster.kube_install import install_crds
from cluster.kube_server import KubeServer
from control.objects import condition, flavor, namespace, queue
from hang import HANG_S
from kuota.api.base import Json, Key
from kuota.api.worker_role import ACCOUNT, worker_objects
from kuota.kube.client import Client
from kuota.kube.errors import AlreadyExists, KubeError, NotFound
from kuota.kube.resources import (
    ADMISSION_CHECKS,
    CLUSTER_QUEUES,
    LOCAL_QUEUES,
    MULTI_KUEUE_CLUSTERS,
    MULTI_KUEUE_CONFIGS,
    NAMESPACES,
    RESOURCE_FLAVORS,
    SECRETS,
    Resource,
)

SPACE, SYSTEM = "fleet", "kueue-system"
MANAGER_TOKEN = "manager-token"
MULTIKUEUE = "kueue.x-k8s.io/multikueue"
CLUSTER_ROLES, CLUSTER_ROLE_BINDINGS = (
    Resource("rbac.authorization.k8s.io", "v1", plural, kind, namespaced=False)
    for plural, kind in (
        ("clusterroles", "ClusterRole"),
        ("clusterrolebindings", "ClusterRoleBinding"),
    )
)
_KUEUE = {"apiVersion": "kueue.x-k8s.io/v1beta2"}


def started_worker(manager: KubeServer, folder: Path) -> KubeServer:
    """Return a second cluster with Kueue's kinds, in which the manager has its shipped role."""
    server = manager.beside(folder)
    with (server.folder / "tokens.csv").open("a") as tokens:
        tokens.write(f"{MANAGER_TOKEN},{ACCOUNT},{ACCOUNT}\n")
    server.start()
    asyncio.run(install_crds(server))
    asyncio.run(_grant(server))
    return server


async def _grant(server: KubeServer) -> None:
    """Let the manager do what `kuota cluster role` prints, and nothing else."""
    subjects = [{"kind": "User", "name": ACCOUNT, "apiGroup": "rbac.authorization.k8s.io"}]
    async with server.client() as client:
        for each in worker_objects(SYSTEM):
            if each["kind"] == "ClusterRole":
                await client.create(CLUSTER_ROLES, each)
            elif each["kind"] == "ClusterRoleBinding":
                await client.create(CLUSTER_ROLE_BINDINGS, each | {"subjects": subjects})


class Cluster:
    """The objects of one cluster."""

    def __init__(self, client: Client) -> None:
        self.client = client

    async def create(self, resource: Resource, obj: Json) -> None:
        with suppress(AlreadyExists):
            await self.client.create(resource, obj)

    async def get(self, resource: Resource, key: Key) -> Json:
        """An object, or an empty one if it is gone or the server does not answer."""
        try:
            return await self.client.get(resource, key)
        except KubeError:
            return {}

    async def listed(self, resource: Resource) -> list[Json]:
        return (await self.client.list(resource, SPACE)).items

    async def furnish(self, cpu: int = 4, **spec: Any) -> None:
        """Create a queue with so many CPUs."""
        local = {"kind": "LocalQueue", "spec": {"clusterQueue": "fleet-cq"}}
        await self.create(NAMESPACES, namespace(SPACE))
        await self.create(RESOURCE_FLAVORS, flavor("fleet-flavor"))
        made = queue("fleet-cq", flavors={"fleet-flavor": cpu}, **spec)
        await self.create(CLUSTER_QUEUES, made)
        meta = {"name": "main", "namespace": SPACE}
        await self.create(LOCAL_QUEUES, _KUEUE | local | {"metadata": meta})

    async def clear(self) -> None:
        """Delete what other tests on this server must not meet."""
        clusters = (await self.client.list(MULTI_KUEUE_CLUSTERS)).items
        for resource, key in (
            (LOCAL_QUEUES, Key(SPACE, "main")),
            (CLUSTER_QUEUES, Key("", "fleet-cq")),
            (ADMISSION_CHECKS, Key("", "fleet")),
            (MULTI_KUEUE_CONFIGS, Key("", "fleet")),
            *((MULTI_KUEUE_CLUSTERS, Key("", each["metadata"]["name"])) for each in clusters),
            (RESOURCE_FLAVORS, Key("", "fleet-flavor")),
        ):
            with suppress(NotFound):
                await self.client.delete(resource, key)
                await self.client.patch(resource, key, {"metadata": {"finalizers": None}})


async def until(claim: Callable[[], Awaitable[bool]], what: str) -> None:
    """Wait until the claim is true."""
    try:
        async with asyncio.timeout(HANG_S):
            while not await claim():
                await asyncio.sleep(0.05)
    except TimeoutError:
        raise AssertionError(f"not seen in time: {what}") from None


def kubeconfig(server: KubeServer, port: int = 0) -> str:
    """Return the kubeconfig that the manager has for a worker, which it may reach by a line."""
    authority = base64.b64encode(server.certificates.authority.read_bytes()).decode()
    url = f"https://127.0.0.1:{port or server.port}"
    at = {"server": url, "certificate-authority-data": authority}
    return json.dumps(
        {
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": "c",
            "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
            "clusters": [{"name": "c", "cluster": at}],
            "users": [{"name": "u", "user": {"token": MANAGER_TOKEN}}],
        }
    )


async def connect(
    manager: Cluster,
    workers: Mapping[str, KubeServer],
    cpu: int = 4,
    ports: Mapping[str, int] | None = None,
) -> None:
    """Tell the manager about its workers, and wait until all are connected."""
    await manager.create(NAMESPACES, namespace(SYSTEM))
    for name, server in workers.items():
        text = kubeconfig(server, (ports or {}).get(name, 0))
        content = base64.b64encode(text.encode()).decode()
        meta = {"name": f"{name}-secret", "namespace": SYSTEM}
        secret = {"apiVersion": "v1", "kind": "Secret", "metadata": meta}
        data = {"data": {"kubeconfig": content}}
        await manager.create(SECRETS, secret | data)
        await manager.client.patch(SECRETS, Key(SYSTEM, meta["name"]), data)
        source = {"kubeConfig": {"location": f"{name}-secret", "locationType": "Secret"}}
        named = {"metadata": {"name": name}, "spec": {"clusterSource": source}}
        await manager.create(MULTI_KUEUE_CLUSTERS, _KUEUE | {"kind": "MultiKueueCluster"} | named)
    named = {"metadata": {"name": "fleet"}, "spec": {"clusters": list(workers)}}
    await manager.create(MULTI_KUEUE_CONFIGS, _KUEUE | {"kind": "MultiKueueConfig"} | named)
    parameters = {"apiGroup": "kueue.x-k8s.io", "kind": "MultiKueueConfig", "name": "fleet"}
    spec = {"controllerName": MULTIKUEUE, "parameters": parameters}
    check = {"kind": "AdmissionCheck", "metadata": {"name": "fleet"}, "spec": spec}
    await manager.create(ADMISSION_CHECKS, _KUEUE | check)
    strategy = {"admissionChecks": [{"name": "fleet"}]}
    await manager.furnish(cpu, admissionChecksStrategy=strategy)

    async def active() -> bool:
        found = await manager.get(ADMISSION_CHECKS, Key("", "fleet"))
        return condition(found, "Active").get("reason") == "Active"

    await until(active, "all workers are connected")
