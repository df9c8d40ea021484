# SPDX-License-Identifier: Apache-2.0
"""A complete controller with webhooks and visibility on a real API server."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from pathlib import Path

import pytest

from cluster.aggregation import api_service, service
from cluster.controllers import controllers
from cluster.hooked import eventually
from cluster.kube_install import installed
from cluster.kube_server import KubeServer, free_port
from control.objects import condition, flavor, job, local_queue, namespace, queue
from controller.site import stopped
from kuota.api.base import Json, Key
from kuota.kube.errors import KubeError
from kuota.kube.resources import JOBS, SERVICES, WORKLOADS
from kuota.visibility import explanation
from kuota.visibility.api import PREFIX
from kuota.visibility.pending import GROUP
from kuota.webhook.injection import API_SERVICES, MUTATING, VALIDATING
from kuota.webhook.manifests import configurations

KUOTA = str(Path(sys.executable).with_name("kuota"))
SERVICE = Key("kueue-system", "kueue-visibility-server")
SUMMARY = f"{PREFIX}/v1beta2/clusterqueues/cq/pendingworkloads"


def test_everything_at_once_takes_the_place_of_kueue(tmp_path: Path) -> None:
    # Of its own: whoever came later would wait for webhooks that are gone.
    with installed(tmp_path) as server:
        asyncio.run(_story(server, tmp_path))


async def _story(server: KubeServer, folder: Path) -> None:
    hooks, lines = free_port(), free_port()
    config: Json = {
        "webhook": {"host": "127.0.0.1", "port": hooks},
        "visibilityServer": {"bindAddress": "127.0.0.1", "bindPort": lines},
        "internalCertManagement": {"enable": True},
    }
    async with controllers(server, folder) as site:
        await site.apply(namespace("team"), namespace("kueue-system"))
        mutating, validating = configurations(url=f"https://127.0.0.1:{hooks}")
        await site.admin.create(MUTATING, mutating)
        await site.admin.create(VALIDATING, validating)
        await site.admin.create(SERVICES, service(SERVICE))
        await site.admin.create(API_SERVICES, api_service("v1beta2", SERVICE, lines))
        explained = api_service("v1alpha1", SERVICE, lines, explanation.GROUP)
        await site.admin.create(API_SERVICES, explained)
        running = await site.controller(config=config)
        await running.said("serving webhooks")
        await site.until_some(MUTATING, _trusted)
        await site.until_some(VALIDATING, _trusted)
        await eventually(lambda: site.apply(flavor()))
        with pytest.raises(KubeError, match="admission webhook"):
            await site.apply(queue("cq", -1))
        await site.apply(queue("cq", 1), local_queue())
        await site.apply(job("one", suspend=False), job("two", suspend=False))
        await site.until_some(JOBS, lambda each: not each["spec"].get("suspend"))
        await site.until_some(WORKLOADS, lambda each: _says(each, "QuotaReserved") == "False")
        await site.until_some(API_SERVICES, _available)
        found = await eventually(lambda: site.admin.fetch(SUMMARY))
        assert 1 == len(found["items"])
        waiting = found["items"][0]["metadata"]
        path = explanation.explanation_path(Key(waiting["namespace"], waiting["name"]))
        await eventually(lambda: site.admin.fetch(path))
        said = await asyncio.to_thread(_described, server, waiting["ownerReferences"][0]["name"])
        assert "Why:         needs 1 cpu on default, none left in ClusterQueue cq\n" in said
        assert "Position:    1 of 1 in the ClusterQueue\n" in said
        assert "Note:" not in said
        await stopped(running)


def _described(server: KubeServer, job_name: str) -> str:
    command = [KUOTA, "describe", "job", job_name, "-n", "team"]
    command.append(f"--kubeconfig={server.kubeconfig}")
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def _available(service: Json) -> bool:
    mine = service["metadata"]["name"].endswith(GROUP)
    return mine and _says(service, "Available") == "True"


def _trusted(hooks: Json) -> bool:
    """Whether it is one of ours, and says whom to trust."""
    mine = hooks["metadata"]["name"].startswith("kueue-")
    return mine and all(each["clientConfig"].get("caBundle") for each in hooks["webhooks"])


def _says(obj: Json, type_: str) -> str:
    return str(condition(obj, type_).get("status"))
