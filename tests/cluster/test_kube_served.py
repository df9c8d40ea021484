# SPDX-License-Identifier: Apache-2.0
"""A real API server passes requests on to our visibility API, and says who may read metrics."""

from __future__ import annotations

import asyncio
import base64
import ssl
import subprocess
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import aiohttp
import pytest
import trustme

from build import job, local_queue, namespace, queue
from cluster.aggregation import api_service, service
from cluster.kube_server import ADMIN_TOKEN, KubeServer
from hang import HANG_S
from kuota.api.base import Json, Key
from kuota.engine.engine import Engine
from kuota.engine.facts import ObjectStored
from kuota.kube.client import Client
from kuota.kube.errors import AlreadyExists, Forbidden
from kuota.kube.resources import NAMESPACES, SERVICES, Resource
from kuota.listening import bound
from kuota.metrics.http import MetricsServer
from kuota.metrics.metrics import Metrics
from kuota.visibility.api import PREFIX, VisibilityApi
from kuota.visibility.http import VisibilityServer
from kuota.visibility.pending import GROUP, VERSIONS
from kuota.webhook.injection import API_SERVICES

KUBECTL = str(Path(sys.executable).with_name("kubectl"))
ROLES = Resource("rbac.authorization.k8s.io", "v1", "clusterroles", "ClusterRole", False)
BINDINGS = Resource(
    "rbac.authorization.k8s.io", "v1", "clusterrolebindings", "ClusterRoleBinding", False
)
SERVICE = Key("visibility-test", "visibility-server")
LINE = f"{PREFIX}/v1beta2/clusterqueues/q/pendingworkloads"
OWN = f"{PREFIX}/v1beta1/namespaces/default/localqueues/q/pendingworkloads"


class Shelf:
    def metadata(self, kind: str, key: Key) -> Json:
        return {}


@asynccontextmanager
async def served(client: Client) -> AsyncIterator[None]:
    """The visibility API beside the API server, and the API server told of it."""
    engine, authority = Engine(), trustme.CA()
    for each in (namespace(), queue("q", gpu=1), local_queue("q"), job("j", queue="q", gpu=2)):
        engine.apply(ObjectStored(value=each), 0.0)
    server = VisibilityServer(VisibilityApi(engine, Shelf()), client)
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert(f"{SERVICE.name}.{SERVICE.namespace}.svc").configure_cert(tls)
    port = await server.serve(bound("127.0.0.1", 0), tls)
    try:
        await ensured(client, NAMESPACES, {"metadata": {"name": SERVICE.namespace}})
        await ensured(client, SERVICES, service(SERVICE))
        trusted = base64.b64encode(authority.cert_pem.bytes()).decode()
        for version in VERSIONS:
            told = api_service(version, SERVICE, port, caBundle=trusted)
            await ensured(client, API_SERVICES, told)
        await eventually(lambda: available(client))
        yield
    finally:
        for version in VERSIONS:
            await client.delete(API_SERVICES, Key("", f"{version}.{GROUP}"))
        await client.delete(SERVICES, SERVICE)
        await server.close()


async def ensured(client: Client, resource: Resource, obj: Json) -> None:
    named = {"apiVersion": resource.api_version, "kind": resource.kind}
    with suppress(AlreadyExists):
        await client.create(resource, named | obj)


async def available(client: Client) -> bool:
    """Whether the API server reaches us in both versions."""
    for version in VERSIONS:
        found = await client.get(API_SERVICES, Key("", f"{version}.{GROUP}"))
        listed = (found.get("status") or {}).get("conditions") or ()
        if not any(each["type"] == "Available" and each["status"] == "True" for each in listed):
            return False
    return True


async def eventually(claim: Callable[[], Awaitable[bool]]) -> None:
    async with asyncio.timeout(HANG_S):
        while not await claim():
            await asyncio.sleep(0.05)


def test_the_api_server_passes_on_who_asks_and_kubectl_reads_the_line(kube: KubeServer) -> None:
    async def story() -> None:
        async with kube.client() as admin, served(admin), kube.client("ann") as ann:
            found = await admin.fetch(LINE)
            assert ["j"] == [each["metadata"]["name"] for each in found["items"]]
            with pytest.raises(Forbidden):
                await ann.fetch(LINE)
            rule = {
                "apiGroups": [GROUP],
                "resources": ["localqueues/pendingworkloads"],
                "verbs": ["get"],
            }
            await ensured(admin, ROLES, {"metadata": {"name": "lines"}, "rules": [rule]})
            of = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "lines"}
            who = {"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "ann"}
            bound = {"metadata": {"name": "lines"}, "roleRef": of, "subjects": [who]}
            await ensured(admin, BINDINGS, bound)
            await eventually(lambda: may(ann, OWN))
            with pytest.raises(Forbidden):
                await ann.fetch(LINE)
            said = await asyncio.to_thread(kubectl, kube, "get", "--raw", f"{LINE}?limit=1")
            assert '"positionInClusterQueue":0' in said
            listed = await asyncio.to_thread(kubectl, kube, "api-versions")
            assert {f"{GROUP}/{each}" for each in VERSIONS} <= set(listed.split())
            await eventually(lambda: described(admin))

    asyncio.run(story())


async def may(client: Client, path: str) -> bool:
    try:
        await client.fetch(path)
    except Forbidden:
        return False
    return True


async def described(client: Client) -> bool:
    """Whether the API server has read our documents, and tells them as its own."""
    at = f"apis/{GROUP}/v1beta2"
    index = await client.fetch("/openapi/v3")
    if at not in index["paths"]:
        return False
    document = await client.fetch(index["paths"][at]["serverRelativeURL"].split("?")[0])
    return any(path.endswith("/pendingworkloads") for path in document["paths"])


def kubectl(kube: KubeServer, *arguments: str) -> str:
    command = [KUBECTL, f"--kubeconfig={kube.kubeconfig}", *arguments]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def test_the_api_server_says_who_may_read_metrics(kube: KubeServer) -> None:
    async def story() -> None:
        authority = trustme.CA()
        tls, trusting = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER), ssl.create_default_context()
        authority.issue_cert("127.0.0.1").configure_cert(tls)
        authority.configure_trust(trusting)
        async with kube.client() as admin:
            server = MetricsServer(Metrics(Engine()), admin)
            port = await server.serve(bound("127.0.0.1", 0), tls)
            url = f"https://127.0.0.1:{port}/metrics"
            connector = aiohttp.TCPConnector(ssl=trusting)
            async with aiohttp.ClientSession(connector=connector) as session:
                for token, status in ((ADMIN_TOKEN, 200), ("unknown", 401)):
                    headers = {"Authorization": f"Bearer {token}"}
                    async with session.get(url, headers=headers) as answer:
                        assert status == answer.status
            await server.close()

    asyncio.run(story())
