# SPDX-License-Identifier: Apache-2.0
"""`kuota cluster`: worker clusters of a MultiKueue manager, against a running server."""

from __future__ import annotations

import base64
from pathlib import Path
from typing import Any

import pytest
import yaml

from cli.cluster import Cluster, condition, job, workload
from kuota.api.base import Json, Key
from kuota.api.worker_role import MANAGERS
from kuota.cli import cluster as command
from kuota.cli import session
from kuota.control.checks.multikueue.kubeconfig import accepted
from kuota.kube.client import Client
from kuota.kube.resources import (
    CLUSTER_QUEUES,
    JOBS,
    MULTI_KUEUE_CLUSTERS,
    MULTI_KUEUE_CONFIGS,
    SECRETS,
    WORKLOADS,
    Resource,
)
from kuota.server.auth import AccessAttributes, Roles
from kuota.server.requests import User
from kuota.view.clusters import cluster_row

SPACE = "kueue-system"


@pytest.fixture(autouse=True)
def _impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(command, "WAIT_S", 0.2)


def worker_file(folder: Path, port: int, **user: Any) -> Path:
    """A kubeconfig with files and with a second context."""
    (folder / "token").write_text("secret-token\n")
    content = {
        "current-context": "there",
        "clusters": [{"name": "there", "cluster": {"server": f"http://127.0.0.1:{port}"}}],
        "users": [
            {"name": "me", "user": user or {"tokenFile": "token"}},
            {"name": "other", "user": {"token": "of-somebody-else"}},
        ],
        "contexts": [
            {"name": "there", "context": {"cluster": "there", "user": "me"}},
            {"name": "elsewhere", "context": {"cluster": "there", "user": "other"}},
        ],
    }
    path = folder / "worker.kubeconfig"
    path.write_text(yaml.safe_dump(content))
    return path


def stored(cluster: Cluster, name: str = "near") -> str:
    secret = cluster.get(SECRETS, f"{name}-kubeconfig", SPACE)
    return base64.b64decode(secret["data"]["kubeconfig"]).decode()


def report(cluster: Cluster, name: str, *, holds: bool, message: str = "") -> None:
    status = {"conditions": [condition("Active", holds=holds, message=message)]}
    body = {"status": status}
    cluster.do(
        cluster.client.patch(MULTI_KUEUE_CLUSTERS, Key("", name), body, subresource="status")
    )


def dispatch(cluster: Cluster, name: str) -> None:
    """Create a Workload that a manager has sent to a cluster."""
    cluster.create(WORKLOADS, workload("wl", cluster.create(JOBS, job("a"))))
    for status in (
        {"nominatedClusterNames": [name]},
        {"nominatedClusterNames": None, "clusterName": name},
    ):
        body: Json = {"status": status}
        at = Key("default", "wl")
        cluster.do(cluster.client.patch(WORKLOADS, at, body, subresource="status"))


def test_a_cluster_is_added_with_its_current_context_and_without_files(
    cluster: Cluster, tmp_path: Path
) -> None:
    file = worker_file(tmp_path, cluster.port)
    said = cluster.kuota("cluster", "add", "near", "--kubeconfig", str(file), code=1)
    assert "multikueuecluster.kueue.x-k8s.io/near stored" in said
    assert "no manager has connected" in said
    assert accepted(stored(cluster)).user.token.reveal() == "secret-token"
    assert "of-somebody-else" not in stored(cluster)
    source = cluster.get(MULTI_KUEUE_CLUSTERS, "near")["spec"]["clusterSource"]
    expected = {"kubeConfig": {"location": "near-kubeconfig", "locationType": "Secret"}}
    assert expected == source


def test_adding_a_cluster_again_replaces_its_kubeconfig_and_reports_its_state(
    cluster: Cluster, tmp_path: Path
) -> None:
    file = worker_file(tmp_path, cluster.port)
    add = ("cluster", "add", "near", "--kubeconfig", str(file))
    cluster.kuota(*add, code=1)
    report(cluster, "near", holds=True)
    worker_file(tmp_path, cluster.port, token="another")
    assert "near: connected" in cluster.kuota(*add)
    assert accepted(stored(cluster)).user.token.reveal() == "another"
    report(cluster, "near", holds=False, message="the credentials may have expired")
    assert "not connected: the credentials may have expired" in cluster.kuota(*add, code=1)


def test_the_state_after_a_replaced_kubeconfig_is_not_that_of_the_old_one(
    cluster: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = worker_file(tmp_path, cluster.port)
    add = ("cluster", "add", "near", "--kubeconfig", str(file))
    cluster.kuota(*add, code=1)
    report(cluster, "near", holds=False, message="the credentials may have expired")
    worker_file(tmp_path, cluster.port, token="another")
    until = session.until

    async def manager_reports(client: Client, resource: Resource, key: Key, done: Any) -> Any:
        """Connect once the command waits for it."""
        found = await client.get(resource, key)
        if done(found):
            return found
        body: Json = {"status": {"conditions": [condition("Active")]}}
        await client.patch(resource, key, body, subresource="status")
        return await until(client, resource, key, done)

    monkeypatch.setattr(session, "until", manager_reports)
    assert "near: connected" in cluster.kuota(*add)


@pytest.mark.parametrize(
    ("user", "words"),
    [
        ({"exec": {"command": "aws", "apiVersion": "v1"}}, "runs a program"),
        ({"username": "a", "password": "b"}, "uses a password"),
        ({"tokenFile": "missing"}, "cannot read"),
    ],
)
def test_a_kubeconfig_that_the_manager_would_refuse_is_not_stored(
    cluster: Cluster, tmp_path: Path, user: Json, words: str
) -> None:
    file = worker_file(tmp_path, cluster.port, **user)
    said = cluster.kuota("cluster", "add", "near", "--kubeconfig", str(file), code=1)
    assert words in said
    assert [] == cluster.names(MULTI_KUEUE_CLUSTERS)


def test_clusters_are_listed_with_state_free_quota_and_running_jobs(
    cluster: Cluster, tmp_path: Path
) -> None:
    assert "" == cluster.kuota("cluster", "list")
    # The server is its own worker here.
    file = worker_file(tmp_path, cluster.port, token="admin-token")
    cluster.kuota("cluster", "add", "near", "--kubeconfig", str(file), code=1)
    report(cluster, "near", holds=True)
    cluster.kuota("create", "cq", "theirs", "--nominal-quota", "gold:cpu=8;memory=4Gi")
    reservation = [{"name": "gold", "resources": [{"name": "cpu", "total": "3"}]}]
    status: Json = {"flavorsReservation": reservation}
    patch = cluster.client.patch
    cluster.do(patch(CLUSTER_QUEUES, Key("", "theirs"), {"status": status}, subresource="status"))
    dispatch(cluster, "near")
    _, row = cluster.kuota("cluster", "list").splitlines()
    assert ["near", "connected", "1", "cpu 5, memory 4Gi"] == [
        each.strip() for each in row.split("   ") if each.strip()
    ]


def test_a_cluster_with_running_jobs_is_removed_only_by_force(
    cluster: Cluster, tmp_path: Path
) -> None:
    file = worker_file(tmp_path, cluster.port)
    cluster.kuota("cluster", "add", "near", "--kubeconfig", str(file), code=1)
    config = {
        "apiVersion": "kueue.x-k8s.io/v1beta2",
        "kind": "MultiKueueConfig",
        "metadata": {"name": "fleet"},
        "spec": {"clusters": ["near", "far"]},
    }
    cluster.create(MULTI_KUEUE_CONFIGS, config)
    dispatch(cluster, "near")
    assert "1 workloads run in near" in cluster.kuota("cluster", "remove", "near", code=1)
    assert "near removed" in cluster.kuota("cluster", "remove", "near", "--force")
    assert ["far"] == cluster.get(MULTI_KUEUE_CONFIGS, "fleet")["spec"]["clusters"]
    assert [] == cluster.names(MULTI_KUEUE_CLUSTERS)
    assert [] == cluster.names(SECRETS)
    assert "not found" in cluster.kuota("cluster", "remove", "near", code=1)


def test_the_role_grants_what_dispatching_needs_and_no_more(cluster: Cluster) -> None:
    account, role, binding = yaml.safe_load_all(cluster.kuota("cluster", "role", "-n", "ops"))
    assert "ops" == account["metadata"]["namespace"] == binding["subjects"][0]["namespace"]
    granted = {
        (rule["apiGroups"][0], resource): set(rule["verbs"])
        for rule in role["rules"]
        for resource in rule["resources"]
    }
    assert {"create", "delete"} < granted["batch", "jobs"]
    assert {"create", "delete"} < granted["kueue.x-k8s.io", "workloads"]
    assert {"get", "list", "watch"} == granted["kueue.x-k8s.io", "clusterqueues"]
    assert not {("", "secrets"), ("", "nodes"), ("kueue.x-k8s.io", "resourceflavors")} & set(
        granted
    )
    assert not any("*" in verbs for verbs in granted.values())
    (spaces,) = (rule for rule in role["rules"] if "namespaces" in rule["resources"])
    assert ["kube-system"] == spaces["resourceNames"]


@pytest.mark.parametrize(
    ("access", "allowed"),
    [
        (AccessAttributes(verb="create", group="batch", resource="jobs", namespace="vision"), True),
        (AccessAttributes(verb="watch", group="kueue.x-k8s.io", resource="workloads"), True),
        (
            AccessAttributes(
                verb="create", group="kueue.x-k8s.io", resource="workloads", namespace="a"
            ),
            True,
        ),
        (
            AccessAttributes(
                verb="patch",
                group="kueue.x-k8s.io",
                resource="workloads",
                subresource="status",
                namespace="a",
            ),
            True,
        ),
        (AccessAttributes(verb="get", resource="secrets", namespace="vision"), False),
        (AccessAttributes(verb="create", resource="pods", namespace="vision"), False),
        (
            AccessAttributes(
                verb="create", resource="pods", subresource="exec", namespace="vision"
            ),
            False,
        ),
        (AccessAttributes(verb="patch", group="kueue.x-k8s.io", resource="clusterqueues"), False),
        (AccessAttributes(verb="patch", resource="namespaces", name="kube-system"), False),
        (
            AccessAttributes(verb="patch", group="batch", resource="jobs", subresource="status"),
            False,
        ),
    ],
)
def test_a_manager_has_the_same_rights_on_one_machine(
    access: AccessAttributes, allowed: bool
) -> None:
    manager = User("manager", (MANAGERS, "system:authenticated"))
    assert allowed == Roles(lambda namespace: "").allows(manager, access)


def test_a_cluster_without_a_condition_is_unknown() -> None:
    row = cluster_row({"metadata": {"name": "near"}}, (), ())
    assert ("unknown", "none") == (row.state, row.free)
