# SPDX-License-Identifier: Apache-2.0
"""The dashboard in front of a real API server: reviewed tokens, and exactly what RBAC allows."""

from __future__ import annotations

import asyncio
import json
import ssl
from contextlib import suppress
from typing import Any

import trustme
from msgspec.structs import replace

from cluster.kube_server import ADMIN_TOKEN, KubeServer
from controller.dashboards import cluster_dashboard
from kuota.api.base import Json, Key
from kuota.controller.flags import DashboardSettings
from kuota.install.dashboard import dashboard_rules
from kuota.kube.client import Client
from kuota.kube.config import KubeconfigUser, Secret
from kuota.kube.errors import AlreadyExists
from kuota.kube.resources import (
    CLUSTER_QUEUES,
    LOCAL_QUEUES,
    NAMESPACES,
    RESOURCE_FLAVORS,
    SERVICE_ACCOUNTS,
    WORKLOADS,
    Resource,
)

RBAC = "rbac.authorization.k8s.io"
ROLES = Resource(RBAC, "v1", "roles", "Role")
ROLE_BINDINGS = Resource(RBAC, "v1", "rolebindings", "RoleBinding")
CLUSTER_ROLES = Resource(RBAC, "v1", "clusterroles", "ClusterRole", False)
CLUSTER_BINDINGS = Resource(RBAC, "v1", "clusterrolebindings", "ClusterRoleBinding", False)
MINE, OTHER = "dashboard-mine", "dashboard-other"


async def put(
    client: Client, resource: Resource, name: str, namespace: str = "", **rest: Any
) -> None:
    metadata = {"name": name} | ({"namespace": namespace} if namespace else {})
    obj: Json = {"apiVersion": resource.api_version, "kind": resource.kind, "metadata": metadata}
    with suppress(AlreadyExists):
        await client.create(resource, obj | rest)


async def token(client: Client, namespace: str, account: str) -> str:
    """A token of a new service account."""
    await put(client, SERVICE_ACCOUNTS, account, namespace)
    request: Json = {
        "apiVersion": "authentication.k8s.io/v1",
        "kind": "TokenRequest",
        "metadata": {"name": account, "namespace": namespace},
        "spec": {},
    }
    made = await client.create(SERVICE_ACCOUNTS, request, subresource="token")
    return str(made["status"]["token"])


async def populate(client: Client) -> None:
    """Create a queue, and a pending Workload in each of two namespaces."""
    await put(client, RESOURCE_FLAVORS, "dashboard", spec={})
    quota = {"name": "cpu", "nominalQuota": "1"}
    group = {
        "coveredResources": ["cpu"],
        "flavors": [{"name": "dashboard", "resources": [quota]}],
    }
    spec = {"namespaceSelector": {}, "resourceGroups": [group]}
    await put(client, CLUSTER_QUEUES, "dashboard", spec=spec)
    container = {"name": "main", "image": "none", "resources": {"requests": {"cpu": "1"}}}
    template = {"spec": {"restartPolicy": "Never", "containers": [container]}}
    pods = {"name": "main", "count": 1, "template": template}
    for namespace in (MINE, OTHER):
        await put(client, NAMESPACES, namespace)
        await put(client, LOCAL_QUEUES, "queue", namespace, spec={"clusterQueue": "dashboard"})
        body = {"queueName": "queue", "podSets": [pods]}
        await put(client, WORKLOADS, f"work-of-{namespace}", namespace, spec=body)


async def grant(client: Client) -> None:
    """Let the viewer read its own namespace, and the dashboard what its role allows."""
    rule = {
        "apiGroups": ["kueue.x-k8s.io"],
        "resources": ["workloads", "localqueues"],
        "verbs": ["get", "list"],
    }
    await put(client, ROLES, "viewer", MINE, rules=[rule])
    rules = dashboard_rules(actions=False, proxy=True)
    await put(client, CLUSTER_ROLES, "dashboard-test", rules=rules)
    for resource, kind, role, account, namespace in (
        (ROLE_BINDINGS, "Role", "viewer", "viewer", MINE),
        (CLUSTER_BINDINGS, "ClusterRole", "dashboard-test", "server", ""),
    ):
        subject = {"kind": "ServiceAccount", "name": account, "namespace": MINE}
        ref = {"apiGroup": RBAC, "kind": kind, "name": role}
        await put(client, resource, role, namespace, roleRef=ref, subjects=[subject])


def test_a_viewer_sees_what_rbac_allows(kube: KubeServer) -> None:
    async def story() -> None:
        async with kube.client() as admin:
            await populate(admin)
            viewer, server = await token(admin, MINE, "viewer"), await token(admin, MINE, "server")
            await grant(admin)
        own = replace(kube.connection(), user=KubeconfigUser(token=Secret(server)))
        async with cluster_dashboard(own) as dashboard:
            async with dashboard.browser() as browser:
                url = dashboard.url("api/sign-in")
                async with browser.post(url, json={"token": f"{viewer}x"}) as response:
                    assert 401 == response.status
            async with dashboard.browser(viewer) as browser:
                found = await dashboard.session(browser)
                assert (f"system:serviceaccount:{MINE}:viewer", [MINE]) == (
                    found["user"],
                    found["namespaces"],
                )
                for view in ("workloads", f"workload&namespace={MINE}&name=work-of-{MINE}"):
                    text = await dashboard.first_event(browser, f"view={view}")
                    assert f"work-of-{MINE}" in text
                    assert OTHER not in text
                for view in ("tree", "queue&name=dashboard", "nodes", "topology"):
                    text = await dashboard.first_event(browser, f"view={view}")
                    assert 403 == json.loads(text.partition("data: ")[2])["code"], view
                text = await dashboard.first_event(
                    browser, f"view=workload&namespace={OTHER}&name=work-of-{OTHER}"
                )
                assert 404 == json.loads(text.partition("data: ")[2])["code"]
            async with dashboard.browser(ADMIN_TOKEN) as browser:
                for view in ("workloads", "tree", "queue&name=dashboard", "nodes", "topology"):
                    text = await dashboard.first_event(browser, f"view={view}")
                    assert "event: snapshot" in text, view
                    assert OTHER in text or view in ("nodes", "topology")
        async with kube.client() as admin:
            for namespace in (MINE, OTHER):
                await admin.delete(WORKLOADS, Key(namespace, f"work-of-{namespace}"))
            await admin.delete(CLUSTER_QUEUES, Key("", "dashboard"))

    asyncio.run(story())


def test_logs_of_viewers_behind_a_proxy_are_reviewed(kube: KubeServer) -> None:
    authority = trustme.CA()
    tls = ssl.create_default_context()
    tls.check_hostname, tls.verify_mode = False, ssl.CERT_NONE
    authority.issue_cert("proxy.example", common_name="proxy").configure_cert(tls)
    wanted = DashboardSettings(proxy_authority=authority.cert_pem.bytes().decode())
    rule = {"apiGroups": [""], "resources": ["pods/log"], "verbs": ["get"]}
    subject = {"apiGroup": RBAC, "kind": "Group", "name": "readers"}
    ref = {"apiGroup": RBAC, "kind": "Role", "name": "readers"}

    async def story() -> None:
        async with kube.client() as admin:
            for namespace in (MINE, OTHER):
                await put(admin, NAMESPACES, namespace)
            server = await token(admin, MINE, "server")
            await grant(admin)
            await put(admin, ROLES, "readers", MINE, rules=[rule])
            await put(admin, ROLE_BINDINGS, "readers", MINE, roleRef=ref, subjects=[subject])
        own = replace(kube.connection(), user=KubeconfigUser(token=Secret(server)))
        ann = {"X-Remote-User": "ann", "X-Remote-Group": "readers"}
        async with cluster_dashboard(own, wanted) as made, made.browser(tls=tls) as browser:
            # There is no such pod. Who learns that may read its log, and so may the dashboard.
            for namespace, status in ((MINE, 404), (OTHER, 403)):
                url = made.url(f"api/logs?namespace={namespace}&pod=absent")
                async with browser.get(url, headers=ann) as response:
                    assert status == response.status, await response.text()

    asyncio.run(story())
