# SPDX-License-Identifier: Apache-2.0
"""Documented commands for a cluster run on a real API server with a complete controller."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from pathlib import Path

from cluster.aggregation import api_service, service
from cluster.controllers import Controllers, controllers
from cluster.hooked import eventually
from cluster.kube_install import installed
from cluster.kube_server import KubeServer, free_port
from control.objects import condition, flavor, job, local_queue, namespace, priority_class, queue
from controller.site import stopped
from docs.pages import Block, blocks
from kuota.api.base import Json, Key
from kuota.install.deployment import config_map
from kuota.install.network import AGGREGATED
from kuota.install.settings import Settings
from kuota.kube.resources import CONFIG_MAPS, SERVICES, WORKLOADS
from kuota.visibility.api import PREFIX
from kuota.visibility.explanation import explanation_path
from kuota.webhook.injection import API_SERVICES

SERVICE = Key("kueue-system", "kueue-visibility-server")
POSITIONS = f"{PREFIX}/v1beta2/clusterqueues/vision/pendingworkloads"
EXECUTED = {
    "docs/cluster.md": (
        "kuota describe job train",
        "kubectl get --raw",
        "kuota plan -f -",
        "kuota import",
    ),
    "docs/migrate.md": ("uniq -c", "kuota check -f config.yaml", "get lease"),
}
"""A part of each block that this test executes."""


def test_documented_commands_run_on_a_cluster(tmp_path: Path) -> None:
    # A server of its own, because APIServices would affect other tests.
    with installed(tmp_path) as server:
        asyncio.run(_story(server, tmp_path))


async def _story(server: KubeServer, folder: Path) -> None:
    port = free_port()
    config: Json = {
        "visibilityServer": {"bindAddress": "127.0.0.1", "bindPort": port},
        "internalCertManagement": {"enable": True},
    }
    async with controllers(server, folder) as site:
        await site.apply(namespace("vision"), namespace("kueue-system"))
        await site.admin.create(SERVICES, service(SERVICE))
        for version, group in AGGREGATED:
            await site.admin.create(API_SERVICES, api_service(version, SERVICE, port, group))
        await site.admin.create(CONFIG_MAPS, config_map(Settings()))
        running = await site.controller("--parts=core,scheduler,jobs,visibility", config=config)
        gpus = local_queue("gpus", "vision")
        train = job("train", "2", queue="gpus")
        for each in (gpus, train):
            each["metadata"]["namespace"] = "vision"
        await site.apply(flavor(), queue("vision", 1), gpus, train)
        (pending,) = await site.until_some(WORKLOADS, _pending)
        name = pending["metadata"]["name"]
        await eventually(lambda: site.admin.fetch(POSITIONS))
        await eventually(lambda: site.admin.fetch(explanation_path(Key("vision", name))))
        await _run_pod_of_team(site)
        (mapping,) = [each for each in blocks("docs/cluster.md") if "toLocalQueue" in each.text]
        (folder / "rules.yaml").write_text(mapping.text)
        for block in _executed():
            text = block.text.replace("job-train-12345", name)
            await asyncio.to_thread(_run, block, text, server, folder)
        await stopped(running)


async def _run_pod_of_team(site: Controllers) -> None:
    """Create a pod that `kuota import` can adopt, and the queue that it is charged to."""
    main = local_queue("main", "vision")
    main["metadata"]["namespace"] = "team"
    container = {"name": "a", "image": "any", "resources": {"requests": {"cpu": "1"}}}
    runs = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "runs", "namespace": "team", "labels": {"team": "vision"}},
        "spec": {"nodeName": "n", "priorityClassName": "batch", "containers": [container]},
    }
    await site.apply(namespace("team"), priority_class("batch", 1), main, runs)


def _pending(workload: Json) -> bool:
    return condition(workload, "QuotaReserved").get("status") == "False"


def _executed() -> list[Block]:
    found = []
    for page, parts in EXECUTED.items():
        for part in parts:
            (block,) = [each for each in blocks(page) if each.illustration and part in each.text]
            found.append(block)
    return found


def _run(block: Block, text: str, server: KubeServer, folder: Path) -> None:
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    done = subprocess.run(
        ["bash", "-e", "-o", "pipefail", "-c", text],
        cwd=folder,
        env=os.environ | {"PATH": path, "KUBECONFIG": str(server.kubeconfig)},
        capture_output=True,
        text=True,
    )
    assert 0 == done.returncode, f"{block}: {done.stderr or done.stdout}"
    assert done.stdout, str(block)
