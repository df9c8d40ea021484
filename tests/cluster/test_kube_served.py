# SPDX-License-Identifier: Apache-2.0
"""A real API server forwards requests to our visibility API, and authorizes metrics readers."""

from __future__ import annotations

import asyncio
import base64
import ssl
import subprocess
import sys
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from contextlib import aclosing, asynccontextmanager, suppress
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
from kuota.install.network import AGGREGATED
from kuota.install.rbac import people_roles
from kuota.kube.client import Client
from kuota.kube.errors import AlreadyExists, Forbidden, NotFound
from kuota.kube.requests import LogOptions
from kuota.kube.resources import NAMESPACES, SERVICES, Resource
from kuota.listening import bound
from kuota.metrics.http import MetricsServer
from kuota.metrics.metrics import Metrics
from kuota.visibility.api import PREFIX, VisibilityApi
from kuota.visibility.explanation import ExplanationApi, explanation_path
from kuota.visibility.http import VisibilityServer
from kuota.visibility.pending import GROUP, VERSIONS
from kuota.visibility.remote_paths import pods_path
from kuota.visibility.remote_pods import RemotePodsApi
from kuota.webhook.injection import API_SERVICES

KUBECTL = str(Path(sys.executable).with_name("kubectl"))
ROLES = Resource("rbac.authorization.k8s.io", "v1", "clusterroles", "ClusterRole", False)
BINDINGS = Resource(
    "rbac.authorization.k8s.io", "v1", "clusterrolebindings", "ClusterRoleBinding", False
)
SERVICE = Key("visibility-test", "visibility-server")
LINE = f"{PREFIX}/v1beta2/clusterqueues/q/pendingworkloads"
OWN = f"{PREFIX}/v1beta1/namespaces/default/localqueues/q/pendingworkloads"


class NoMetadata:
    """Workloads without owners."""

    def metadata(self, kind: str, key: Key) -> Json:
        return {}


class Elsewhere:
    """Another cluster with one pod, which writes one line and then nothing for a long time."""

    async def pods(self, key: Key) -> tuple[str, list[Json]]:
        return "far", [{"metadata": {"name": "j-0"}}]

    async def log(self, key: Key, pod: str, options: LogOptions) -> AsyncGenerator[bytes, None]:
        yield f"log of {pod}\n".encode()
        if options.follow:
            await asyncio.Event().wait()


@asynccontextmanager
async def served(client: Client) -> AsyncIterator[None]:
    """Serve the visibility API behind the API server."""
    engine, authority = Engine(), trustme.CA()
    for each in (namespace(), queue("q", gpu=1), local_queue("q"), job("j", queue="q", gpu=2)):
        engine.apply(ObjectStored(value=each), 0.0)
    objects = NoMetadata()
    explanations = ExplanationApi(engine, objects)
    remote = RemotePodsApi(Elsewhere())
    api = VisibilityApi(engine, objects)
    server = VisibilityServer(api, explanations, client, remote=remote)
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert(f"{SERVICE.name}.{SERVICE.namespace}.svc").configure_cert(tls)
    port = await server.serve(bound("127.0.0.1", 0), tls)
    try:
        await ensured(client, NAMESPACES, {"metadata": {"name": SERVICE.namespace}})
        await ensured(client, SERVICES, service(SERVICE))
        trusted = base64.b64encode(authority.cert_pem.bytes()).decode()
        for version, group in AGGREGATED:
            registered = api_service(version, SERVICE, port, group, caBundle=trusted)
            await ensured(client, API_SERVICES, registered)
        await eventually(lambda: available(client))
        yield
    finally:
        for version, group in AGGREGATED:
            await client.delete(API_SERVICES, Key("", f"{version}.{group}"))
        await client.delete(SERVICES, SERVICE)
        await server.close()


async def ensured(client: Client, resource: Resource, obj: Json) -> None:
    named = {"apiVersion": resource.api_version, "kind": resource.kind}
    with suppress(AlreadyExists):
        await client.create(resource, named | obj)


async def available(client: Client) -> bool:
    """Whether the API server reaches us in all groups and versions."""
    return all([await available_group(client, *each) for each in AGGREGATED])


async def available_group(client: Client, version: str, group: str) -> bool:
    """Whether the API server reaches the server of one version of a group."""
    found = await client.get(API_SERVICES, Key("", f"{version}.{group}"))
    listed = (found.get("status") or {}).get("conditions") or ()
    return any(each["type"] == "Available" and each["status"] == "True" for each in listed)


async def eventually(claim: Callable[[], Awaitable[bool]]) -> None:
    async with asyncio.timeout(HANG_S):
        while not await claim():
            await asyncio.sleep(0.05)


def test_the_api_server_forwards_the_user_and_kubectl_reads_positions(kube: KubeServer) -> None:
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
            await granted(admin, {"metadata": {"name": "lines"}, "rules": [rule]}, "ann")
            await eventually(lambda: may(ann, OWN))
            with pytest.raises(Forbidden):
                await ann.fetch(LINE)
            said = await asyncio.to_thread(kubectl, kube, "get", "--raw", f"{LINE}?limit=1")
            assert '"positionInClusterQueue":0' in said
            listed = await asyncio.to_thread(kubectl, kube, "api-versions")
            assert {f"{GROUP}/{each}" for each in VERSIONS} <= set(listed.split())
            await eventually(lambda: described(admin))

    asyncio.run(story())


def test_a_user_with_the_role_of_the_installation_reads_explanations(kube: KubeServer) -> None:
    async def story() -> None:
        async with kube.client() as admin, served(admin), kube.client("eve") as eve:
            path = explanation_path(Key("default", "j"))
            with pytest.raises(Forbidden):
                await eve.fetch(path)
            name = "kueue-workload-explanation-viewer-role"
            role = next(each for each in people_roles() if each["metadata"]["name"] == name)
            await granted(admin, role, "eve")
            await eventually(lambda: may(eve, path))
            found = await eve.fetch(path)
            assert found["why"]["text"].startswith("ClusterQueue q is inactive: ")
            with pytest.raises(Forbidden):
                await eve.fetch(LINE)
            with pytest.raises(NotFound) as missing:
                await eve.fetch(explanation_path(Key("default", "none")))
            assert "visibility.kuota.dev" == missing.value.details["group"]

    asyncio.run(story())


def test_a_log_in_another_cluster_needs_two_permissions_and_arrives_line_by_line(
    kube: KubeServer,
) -> None:
    wanted, remote = (
        Key("default", "j"),
        Resource("visibility.kuota.dev", "v1alpha1", "workloads", ""),
    )
    options = LogOptions(pod="j-0", follow=True)

    async def first(user: Client) -> bytes:
        async with aclosing(user.log(wanted, options, pods=remote)) as chunks:
            return await anext(chunks)

    async def story() -> None:
        async with kube.client() as admin, served(admin), kube.client("lea") as lea:
            name = "kueue-workload-remote-pods-viewer-role"
            role = next(each for each in people_roles() if each["metadata"]["name"] == name)
            await granted(admin, role, "lea")

            async def refused(why: str) -> bool:
                with pytest.raises(Forbidden) as error:
                    await first(lea)
                return why in error.value.message

            await eventually(lambda: refused("pods/log"))
            logs = [
                {"apiGroups": [""], "resources": ["pods", "pods/log"], "verbs": ["get", "list"]}
            ]
            await granted(admin, {"metadata": {"name": "logs"}, "rules": logs}, "mia")
            async with kube.client("mia") as mia:
                with pytest.raises(Forbidden):
                    await first(mia)
                await granted(
                    admin, {"metadata": {"name": "logs-too"}, "rules": role["rules"]}, "mia"
                )
                await eventually(lambda: may(mia, pods_path(wanted)))
                assert b"log of j-0\n" == await first(mia)

    asyncio.run(story())


async def granted(admin: Client, role: Json, user: str) -> None:
    """Create the ClusterRole, and bind the user to it."""
    await ensured(admin, ROLES, role)
    name, group = role["metadata"]["name"], ROLES.group
    of = {"apiGroup": group, "kind": "ClusterRole", "name": name}
    subject = {"apiGroup": group, "kind": "User", "name": user}
    bound = {"metadata": {"name": name}, "roleRef": of, "subjects": [subject]}
    await ensured(admin, BINDINGS, bound)


async def may(client: Client, path: str) -> bool:
    try:
        await client.fetch(path)
    except Forbidden:
        return False
    return True


async def described(client: Client) -> bool:
    """Whether the API server has read our OpenAPI documents and serves them."""
    at = f"apis/{GROUP}/v1beta2"
    index = await client.fetch("/openapi/v3")
    if at not in index["paths"]:
        return False
    document = await client.fetch(index["paths"][at]["serverRelativeURL"].split("?")[0])
    return any(path.endswith("/pendingworkloads") for path in document["paths"])


def kubectl(kube: KubeServer, *arguments: str) -> str:
    command = [KUBECTL, f"--kubeconfig={kube.kubeconfig}", *arguments]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def test_the_api_server_authorizes_readers_of_metrics(kube: KubeServer) -> None:
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
