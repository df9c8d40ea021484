# SPDX-License-Identifier: Apache-2.0
"""Processes on a real API server: webhooks record authors, and the history idle GPUs and users."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from aiohttp import web
from aiohttp.test_utils import TestServer

from cluster.controllers import controllers
from cluster.hooked import Hooked, eventually, hooked
from cluster.kube_server import free_port
from cluster.test_kube_served import eventually as until_true
from control.objects import flavor, job, local_queue, queue
from kuota.api.base import Json, Key
from kuota.api.core import AUTHOR
from kuota.history.address import SqliteFile
from kuota.history.connection import HistoryUnavailable
from kuota.history.database import HistoryReader
from kuota.kube.client import Client
from kuota.kube.resources import (
    CLUSTER_QUEUES,
    JOBS,
    LOCAL_QUEUES,
    PODS,
    RESOURCE_FLAVORS,
    WORKLOADS,
    Resource,
)
from utilization.exported import EXPORTED
from utilization.test_cluster_devices import pod

_RBAC = "rbac.authorization.k8s.io"
_ROLES = Resource(_RBAC, "v1", "roles", "Role")
_BINDINGS = Resource(_RBAC, "v1", "rolebindings", "RoleBinding")
_TEAM = "team"


@asynccontextmanager
async def _exporter() -> AsyncIterator[str]:
    """Serve what a dcgm-exporter does. Yields the URL."""

    async def exported(request: web.Request) -> web.Response:
        return web.Response(text=EXPORTED)

    app = web.Application()
    app.router.add_get("/metrics", exported)
    async with TestServer(app) as server:
        yield f"http://localhost:{server.port}/metrics"


async def _furnish(admin: Client) -> None:
    """Create queues, and let hanna create jobs. The webhooks must have begun to respond."""
    await eventually(lambda: admin.create(RESOURCE_FLAVORS, flavor()))
    await eventually(lambda: admin.create(CLUSTER_QUEUES, queue("cq", 1)))
    await admin.create(LOCAL_QUEUES, local_queue())
    rule = {"apiGroups": ["batch"], "resources": ["jobs"], "verbs": ["create"]}
    role = {"metadata": {"name": "creates-jobs", "namespace": _TEAM}, "rules": [rule]}
    of = {"apiGroup": _RBAC, "kind": "Role", "name": "creates-jobs"}
    subject = {"apiGroup": _RBAC, "kind": "User", "name": "hanna"}
    await admin.create(_ROLES, role)
    await admin.create(_BINDINGS, role | {"roleRef": of, "subjects": [subject]})


def _config(**more: Json) -> Json:
    times = {"leaseDuration": "3s", "renewDeadline": "2s", "retryPeriod": "300ms"}
    serving = {"bindAddress": "127.0.0.1", "bindPort": free_port()}
    return {"leaderElection": times, "visibilityServer": serving, **more}


def test_processes_record_users_and_idle_gpus(tmp_path: Path) -> None:
    file = SqliteFile(str(tmp_path / "history.db"))

    async def story(server: Hooked) -> None:
        folders = [tmp_path / name for name in ("controller", "recorder")]
        for each in folders:
            each.mkdir()
        hooks = _config(
            webhook={"host": "127.0.0.1", "port": server.port},
            internalCertManagement={"enable": True},
        )
        kube = server.server
        async with (
            _exporter() as url,
            controllers(kube, folders[0]) as deciding,
            controllers(kube, folders[1]) as recording,
            kube.client() as admin,
            kube.client("hanna") as hanna,
        ):
            parts = "--parts=core,scheduler,jobs,webhooks"
            await deciding.controller(parts, "--record-authors", config=hooks)
            await recording.controller(
                *("--parts=history", f"--history-database={file}", "--record-authors"),
                *(f"--dcgm-exporter={url}", "--idle-after=1"),
                config=_config(),
            )
            await _furnish(admin)
            claimed = job("train", annotations={AUTHOR: "ben"})
            made = await eventually(lambda: hanna.create(JOBS, claimed))
            assert "hanna" == made["metadata"]["annotations"][AUTHOR]
            name = await _started(admin, "train")
            await admin.create(PODS, pod("notebook-0", name))
            await until_true(lambda: _recorded(file, name))

    (tmp_path / "server").mkdir()
    with hooked(tmp_path / "server") as server:
        asyncio.run(story(server))


async def _started(admin: Client, name: str) -> str:
    """Return the Workload of a job that runs. It names the author, too."""

    async def runs() -> bool:
        return not (await admin.get(JOBS, Key(_TEAM, name)))["spec"]["suspend"]

    await until_true(runs)
    (workload,) = (await admin.list(WORKLOADS, _TEAM)).items
    assert "hanna" == workload["metadata"]["annotations"][AUTHOR]
    return str(workload["metadata"]["name"])


async def _recorded(file: SqliteFile, workload: str) -> bool:
    """Whether the history has the run of hanna, and that its GPU was idle meanwhile."""

    def found() -> bool:
        with HistoryReader(file) as reader:
            jobs, idle = reader.jobs(0.0, (_TEAM,)), reader.idle(0.0, 1e12)
        users = {each.user for each in jobs if each.workload == workload and each.runs}
        spans = [each for each in idle if each.until > each.since]
        return users == {"hanna"} and [workload] == [each.workload for each in spans]

    try:
        return await asyncio.to_thread(found)
    except HistoryUnavailable:
        return False
