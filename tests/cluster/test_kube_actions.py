# SPDX-License-Identifier: Apache-2.0
"""Actions of viewers behind a proxy on a real API server, and how little the dashboard may change.

The dashboard has the account, the role and the policy of an installation.
"""

from __future__ import annotations

import asyncio
import ssl
from typing import Any

import aiohttp
import pytest
import trustme
from msgspec.structs import replace

from cluster.kube_server import KubeServer
from cluster.test_kube_dashboard import (
    CLUSTER_BINDINGS,
    CLUSTER_ROLES,
    RBAC,
    ROLE_BINDINGS,
    ROLES,
    put,
    token,
)
from cluster.test_kube_served import eventually
from control.objects import job, queue
from controller.dashboards import ClusterDashboard, cluster_dashboard
from kuota.api.base import Json, Key
from kuota.api.rules.job_common import PRIORITY_CLASS
from kuota.controller.flags import DashboardSettings
from kuota.install.dashboard import DASHBOARD, dashboard_rules
from kuota.install.dashboard_policy import dashboard_policy
from kuota.install.objects import DEPLOYMENTS, resource_of
from kuota.install.settings import Settings
from kuota.kube.client import Client
from kuota.kube.config import KubeconfigUser, Secret
from kuota.kube.errors import ApiError, Forbidden, Invalid
from kuota.kube.resources import (
    CLUSTER_QUEUES,
    CORE_EVENTS,
    JOBS,
    LOCAL_QUEUES,
    NAMESPACES,
    WORKLOAD_PRIORITY_CLASSES,
    WORKLOADS,
)

MINE, OTHER = "actions-mine", "actions-other"
ANN = {"X-Remote-User": "ann", "X-Remote-Group": "operators"}
_KUEUE = "kueue.x-k8s.io"


async def populate(admin: Client) -> None:
    """Create a queue, and in each namespace a job with its Workload and a Workload without one."""
    await put(admin, CLUSTER_QUEUES, "actions", spec=queue("actions")["spec"])
    await put(admin, WORKLOAD_PRIORITY_CLASSES, "urgent", value=7)
    for space in (MINE, OTHER):
        await put(admin, NAMESPACES, space)
        await put(admin, LOCAL_QUEUES, "main", space, spec={"clusterQueue": "actions"})
        made = job("train", suspend=True)
        made["metadata"]["namespace"] = space
        owner = await admin.create(JOBS, made)
        template = made["spec"]["template"]
        pods = {"name": "main", "count": 1, "template": template}
        spec = {"queueName": "main", "podSets": [pods]}
        reference = {
            "apiVersion": "batch/v1",
            "kind": "Job",
            "name": "train",
            "uid": owner["metadata"]["uid"],
        }
        for name, owners in (("job-train", [reference]), ("alone", [])):
            metadata = {"name": name, "namespace": space, "ownerReferences": owners}
            kind = {"apiVersion": WORKLOADS.api_version, "kind": "Workload"}
            await admin.create(WORKLOADS, kind | {"metadata": metadata, "spec": spec})


def _rule(group: str, verbs: list[str], *resources: str) -> Json:
    return {"apiGroups": [group], "resources": list(resources), "verbs": verbs}


async def grant(admin: Client) -> None:
    """Let the group of Ann act in her namespace, and the dashboard do what its role allows."""
    own = [
        _rule(_KUEUE, ["get", "patch"], "workloads", "localqueues"),
        _rule("batch", ["patch"], "jobs"),
    ]
    await put(admin, ROLES, "operators", MINE, rules=own)
    classes = [_rule(_KUEUE, ["get"], "workloadpriorityclasses")]
    await put(admin, CLUSTER_ROLES, "operators-classes", rules=classes)
    rules = dashboard_rules(actions=True, proxy=True)
    await put(admin, CLUSTER_ROLES, "actions-dashboard", rules=rules)
    group = {"apiGroup": RBAC, "kind": "Group", "name": "operators"}
    account = {"kind": "ServiceAccount", "name": DASHBOARD, "namespace": MINE}
    for resource, name, space, subject in (
        (ROLE_BINDINGS, "operators", MINE, group),
        (CLUSTER_BINDINGS, "operators-classes", "", group),
        (CLUSTER_BINDINGS, "actions-dashboard", "", account),
    ):
        kind = "Role" if space else "ClusterRole"
        ref = {"apiGroup": RBAC, "kind": kind, "name": name}
        await put(admin, resource, name, space, roleRef=ref, subjects=[subject])


def _policy() -> list[Json]:
    chosen = Settings(
        namespace=MINE, dashboard=True, dashboard_actions=True, dashboard_proxy_secret="ca"
    )
    return dashboard_policy(chosen)


async def _denied(client: Client) -> bool:
    """Whether the policy is in force already."""
    try:
        await _shrink(client)
    except ApiError as error:
        return "the account of the dashboard may change only" in str(error)
    return False


async def _shrink(client: Client) -> None:
    body: Json = {"spec": {"resourceGroups": []}}
    await client.patch(CLUSTER_QUEUES, Key("", "actions"), body, dry_run=True)


async def _act(
    made: ClusterDashboard, browser: aiohttp.ClientSession, **request: Any
) -> tuple[int, str]:
    csrf = (await made.session(browser, **ANN))["csrf"]
    headers = {**ANN, "X-Kuota-CSRF": csrf}
    async with browser.post(made.url("api/actions"), json=request, headers=headers) as response:
        return response.status, await response.text()


def test_viewers_behind_a_proxy_act_with_their_permissions(kube: KubeServer) -> None:
    authority = trustme.CA()
    tls = ssl.create_default_context()
    tls.check_hostname, tls.verify_mode = False, ssl.CERT_NONE
    authority.issue_cert("proxy.example", common_name="proxy").configure_cert(tls)
    wanted = DashboardSettings(proxy_authority=authority.cert_pem.bytes().decode(), actions=True)
    train = {"kind": "Workload", "name": "job-train"}
    alone = {"kind": "Workload", "name": "alone"}
    line = {"kind": "LocalQueue", "name": "main"}
    actions: list[tuple[Json, str]] = [
        ({"action": "setPriority", "priorityClass": "urgent", **train}, "PriorityChanged"),
        ({"action": "setPriority", "priorityClass": "urgent", **alone}, "PriorityChanged"),
        ({"action": "hold", **alone}, "Held"),
        ({"action": "release", **alone}, "Released"),
        ({"action": "stopQueue", **line}, "QueueStopped"),
        ({"action": "resumeQueue", **line}, "QueueResumed"),
    ]

    async def act_everywhere(made: ClusterDashboard, browser: aiohttp.ClientSession) -> None:
        for request, _ in actions:
            status, text = await _act(made, browser, namespace=MINE, **request)
            assert 200 == status, text
            status, text = await _act(made, browser, namespace=OTHER, **request)
            assert (403, True) == (status, "you may not" in text), text
        stop = {"action": "stopQueue", "kind": "ClusterQueue", "name": "actions"}
        status, text = await _act(made, browser, **stop)
        assert (403, True) == (status, "you may not" in text), text

    async def story() -> None:
        async with kube.client() as admin:
            await populate(admin)
            own = replace(
                kube.connection(),
                user=KubeconfigUser(token=Secret(await token(admin, MINE, DASHBOARD))),
            )
            await grant(admin)
            for each in _policy():
                await admin.create(resource_of(each), each)
            try:
                async with kube.client(f"system:serviceaccount:{MINE}:{DASHBOARD}") as account:
                    await eventually(lambda: _denied(account))
                    await _changes_nothing_else(account)
                    await _copies_the_priority_to_pod_templates(account, admin)
                async with cluster_dashboard(own, wanted) as made, made.browser(tls=tls) as browser:
                    await act_everywhere(made, browser)
                await _happened(admin, [reason for _, reason in actions])
            finally:
                await _clean(admin)

    asyncio.run(story())


async def _changes_nothing_else(account: Client) -> None:
    """Try with the account of the dashboard what a thief of its token would."""
    train, alone = Key(OTHER, "train"), Key(OTHER, "alone")
    pods = {"template": {"metadata": {"labels": {"a": "b"}}}}
    attempts = (
        (JOBS, train, {"spec": {"suspend": False}}),
        (JOBS, train, {"spec": pods}),
        (JOBS, train, {"metadata": {"labels": {"kueue.x-k8s.io/queue-name": "other"}}}),
        (JOBS, train, {"metadata": {"labels": {"kueue.x-k8s.io/queue-name": None}}}),
        (JOBS, train, {"metadata": {"annotations": {"a": "b"}}}),
        (JOBS, train, {"metadata": {"finalizers": ["a/b"]}}),
        (WORKLOADS, alone, {"spec": {"queueName": "other"}}),
        (WORKLOADS, alone, {"metadata": {"labels": {PRIORITY_CLASS: "urgent"}}}),
        (LOCAL_QUEUES, Key(OTHER, "main"), {"spec": {"fairSharing": {"weight": "9"}}}),
        (CLUSTER_QUEUES, Key("", "actions"), {"spec": {"cohortName": "rich"}}),
    )
    for resource, key, body in attempts:
        with pytest.raises((Forbidden, Invalid), match="the account of the dashboard may change"):
            await account.patch(resource, key, body, dry_run=True)


async def _copies_the_priority_to_pod_templates(account: Client, admin: Client) -> None:
    """Do what webhooks do with a Deployment, and what nobody else may do."""
    key = Key(OTHER, "serving")
    named = {"labels": {"app": "serving"}}
    container = {"name": "c", "image": "i"}
    spec = {
        "selector": {"matchLabels": named["labels"]},
        "template": {"metadata": named, "spec": {"containers": [container]}},
    }
    await put(admin, DEPLOYMENTS, "serving", OTHER, spec=spec)
    high = {"labels": {PRIORITY_CLASS: "urgent"}}

    async def patched(template: Json, **more: Any) -> None:
        body = {"metadata": high, "spec": {"template": template} | more}
        await account.patch(DEPLOYMENTS, key, body, dry_run=True)

    await patched({"metadata": high})
    image = {"spec": {"containers": [container | {"image": "mine"}]}}
    for template, more in (
        ({"metadata": high} | image, {}),
        ({"metadata": {"labels": {"team": "x"}}}, {}),
        ({"metadata": {"annotations": {"a": "b"}}}, {}),
        ({"metadata": high}, {"replicas": 9}),
    ):
        with pytest.raises((Forbidden, Invalid), match="the account of the dashboard may change"):
            await patched(template, **more)
    await admin.delete(DEPLOYMENTS, key)


async def _happened(admin: Client, reasons: list[str]) -> None:
    """Every action took effect, and is recorded in an Event that names the user."""
    changed = await admin.get(JOBS, Key(MINE, "train"))
    assert "urgent" == changed["metadata"]["labels"][PRIORITY_CLASS]
    assert 7 == (await admin.get(WORKLOADS, Key(MINE, "alone")))["spec"]["priority"]
    untouched = await admin.get(JOBS, Key(OTHER, "train"))
    assert PRIORITY_CLASS not in untouched["metadata"]["labels"]
    events = [
        each
        for each in (await admin.list(CORE_EVENTS, MINE)).items
        if each["source"].get("component") == "kuota-dashboard"
    ]
    assert sorted(reasons) == sorted(each["reason"] for each in events)
    assert all(each["message"].endswith("by user ann") for each in events)
    assert [] == [
        each
        for each in (await admin.list(CORE_EVENTS, OTHER)).items
        if each["source"].get("component") == "kuota-dashboard"
    ]


async def _clean(admin: Client) -> None:
    for each in _policy():
        await admin.delete(resource_of(each), Key("", each["metadata"]["name"]))
    for space in (MINE, OTHER):
        await admin.delete(JOBS, Key(space, "train"), propagation="Background")
        await admin.delete(WORKLOADS, Key(space, "alone"))
    await admin.delete(CLUSTER_QUEUES, Key("", "actions"))
