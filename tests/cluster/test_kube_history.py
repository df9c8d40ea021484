# SPDX-License-Identifier: Apache-2.0
"""The history of a real cluster agrees with the truth although its recorders are killed."""

from __future__ import annotations

import asyncio
import json
import sys
from datetime import datetime
from functools import partial
from pathlib import Path

import pytest
from msgspec.structs import replace

from cluster.aggregation import api_service, service
from cluster.controllers import controllers, electing
from cluster.kube_server import KubeServer, free_port
from cluster.stage import Stage, StageRunner
from cluster.test_kube_dashboard import put, token
from cluster.test_kube_served import available_group, ensured, eventually, may
from control.objects import job
from controller.dashboards import cluster_dashboard
from kuota.api.base import Json, Key
from kuota.history import api
from kuota.history.address import SqliteFile
from kuota.history.connection import HistoryUnavailable
from kuota.history.database import read
from kuota.install.dashboard import dashboard_rules
from kuota.install.rbac import history_roles
from kuota.install.settings import Settings
from kuota.kube.client import Client
from kuota.kube.config import KubeconfigUser, Secret
from kuota.kube.errors import Forbidden
from kuota.kube.resources import JOBS, SERVICES, Resource
from kuota.webhook.injection import API_SERVICES

_RBAC = "rbac.authorization.k8s.io"
_BINDINGS = Resource(_RBAC, "v1", "clusterrolebindings", "ClusterRoleBinding", False)
_SPACE_BINDINGS = Resource(_RBAC, "v1", "rolebindings", "RoleBinding")
_SPACE_ROLES = Resource(_RBAC, "v1", "roles", "Role")
_ROLES = Resource(_RBAC, "v1", "clusterroles", "ClusterRole", False)


def test_accounts_agree_with_the_truth_after_kills_and_changes_of_the_leader(
    on_stage: StageRunner, kube: KubeServer, tmp_path: Path
) -> None:
    truth: dict[str, float] = {}

    async def scene(stage: Stage) -> None:
        await stage.furnish()
        space, port = stage.names.namespace, free_port()
        config = electing(space)
        file = SqliteFile(str(tmp_path / "history.db"))
        flags = "--parts=history", f"--history-database={file}"
        async with controllers(kube, tmp_path) as site, kube.client() as admin:
            at = {"visibilityServer": {"bindPort": port, "bindAddress": "127.0.0.1"}}
            running = await site.controller(*flags, config=config | at)
            for number in range(2):
                name = f"j{number}"
                await stage.apply(job(name, str(number + 1)))
                await stage.shows(1, stage.active, name)
                await eventually(partial(_runs, file, name))
                await running.kill()  # The end of the job is not recorded before the next start.
                await stage.succeed(name)
                await stage.shows("True/Succeeded", stage.says, name, "Finished")
                truth[name] = _seconds(stage.workload(name)) * (number + 1)
                await stage.delete(JOBS, name)
                await stage.shows([], stage.workloads, name)
                running = await site.controller(*flags, config=config | at)
            await _served(admin, space, port)
            try:
                await eventually(lambda: _recorded(admin, space, set(truth)))
                found = await admin.fetch(api.path(api.Report.USAGE, space), {"by": "queue"})
                (account,) = found["items"]
                used = account["resources"]["cpu"]["hours"] * 3600
                assert sum(truth.values()) == pytest.approx(used, abs=1e-6)
                await _read_by_members(kube, admin, space)
                await _shown_by_the_dashboard(kube, admin, space)
            finally:
                await admin.delete(API_SERVICES, Key("", f"{api.VERSION}.{api.GROUP}"))

    on_stage(scene)


async def _runs(file: SqliteFile, job: str) -> bool:
    """Whether it is recorded that the job runs."""
    try:
        found = await asyncio.to_thread(read, file, 0.0, None)
    except HistoryUnavailable:
        return False
    return any(each.job == job and each.running is not None for each in found)


def _seconds(workload: Json) -> float:
    times = {each["type"]: each["lastTransitionTime"] for each in workload["status"]["conditions"]}
    first, last = (datetime.fromisoformat(times[each]) for each in ("Admitted", "Finished"))
    return (last - first).total_seconds()


async def _served(admin: Client, space: str, port: int) -> None:
    """Let the API server forward requests for the history."""
    at = Key(space, "history")
    await ensured(admin, SERVICES, service(at))
    registered = api_service(api.VERSION, at, port, api.GROUP)
    registered["spec"]["insecureSkipTLSVerify"] = True
    await ensured(admin, API_SERVICES, registered)
    await eventually(lambda: available_group(admin, api.VERSION, api.GROUP))
    by_kind = {"ClusterRole": _ROLES, "ClusterRoleBinding": _BINDINGS}
    for each in history_roles(Settings(history=True)):
        if "history-reader" in each["metadata"]["name"]:
            await ensured(admin, by_kind[each["kind"]], each)


async def _recorded(admin: Client, space: str, names: set[str]) -> bool:
    found = await admin.fetch(api.path(api.Report.JOBS, space))
    return names == {each["job"] for each in found["items"] if each.get("outcome") == "Succeeded"}


async def _shown_by_the_dashboard(kube: KubeServer, admin: Client, space: str) -> None:
    """The dashboard reads the history through the API server, and so without its volume."""
    viewer, server = await token(admin, space, "viewer"), await token(admin, space, "server")
    rules = dashboard_rules(actions=False)
    await put(admin, _ROLES, "history-dashboard", rules=rules)
    for resource, kind, role, account, namespace in (
        (_BINDINGS, "ClusterRole", "history-dashboard", "server", ""),
        (_SPACE_BINDINGS, "Role", "lists-workloads", "viewer", space),
    ):
        subject = {"kind": "ServiceAccount", "name": account, "namespace": space}
        ref = {"apiGroup": _RBAC, "kind": kind, "name": role}
        name = f"history-{account}"
        await put(admin, resource, name, namespace, roleRef=ref, subjects=[subject])
    own = replace(kube.connection(), user=KubeconfigUser(token=Secret(server)))
    async with cluster_dashboard(own) as dashboard, dashboard.browser(viewer) as browser:
        for report, expected in (("history", "j0"), ("usage", space), ("teams", space)):
            async with browser.get(dashboard.url(f"api/{report}")) as response:
                assert (200, True) == (response.status, expected in await response.text())
        async with browser.get(dashboard.url("api/usage?namespace=default")) as response:
            assert 403 == response.status


async def _read_by_members(kube: KubeServer, admin: Client, space: str) -> None:
    """Who may list the Workloads of the namespace reads its history, and nothing else."""
    async with kube.client("hanna") as member:
        path = api.path(api.Report.USAGE, space)
        with pytest.raises(Forbidden):
            await member.fetch(api.path(api.Report.JOBS, None))
        rule = {"apiGroups": ["kueue.x-k8s.io"], "resources": ["workloads"], "verbs": ["list"]}
        role = {"metadata": {"namespace": space, "name": "lists-workloads"}, "rules": [rule]}
        subject = {"apiGroup": _RBAC, "kind": "User", "name": "hanna"}
        of = {"apiGroup": _RBAC, "kind": "Role", "name": "lists-workloads"}
        await ensured(admin, _SPACE_ROLES, role)
        bound = {"metadata": role["metadata"], "roleRef": of, "subjects": [subject]}
        await ensured(admin, _SPACE_BINDINGS, bound)
        await eventually(lambda: may(member, path))
    command = [sys.executable, "-m", "kuota.cli.main", "usage", "-n", space, "-o", "json"]
    process = await asyncio.create_subprocess_exec(
        *command,
        *("--kubeconfig", str(kube.kubeconfig)),
        stdout=asyncio.subprocess.PIPE,
    )
    printed, _ = await process.communicate()
    assert [space] == [each["group"] for each in json.loads(printed)["items"]]
