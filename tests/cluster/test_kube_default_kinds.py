# SPDX-License-Identifier: Apache-2.0
"""An installation with default settings queues the kinds of Kueue's manifests.

The API server reaches the webhooks through the Service of the installation, which resolves to this
machine. The controller runs with the roles and the configuration of the installation.
"""

from __future__ import annotations

import asyncio
import subprocess
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import yaml

from cluster.aggregation import service
from cluster.audited import Audited, create, until
from cluster.definitions import of_operator
from cluster.hooked import eventually
from cluster.job_kinds import JOB_SET, pods
from cluster.kube_server import ADMIN_TOKEN, free_port, programs
from cluster.operators import running
from cluster.test_kube_install import ACCOUNT, HOOKS, kuota, launched, token_of, trusted
from cluster.test_kube_serving import CONTROLLERS, DEPLOYMENTS, serving
from control.objects import flavor, job, local_queue, namespace, queue
from hang import HANG_S
from kuota.api.base import Json, Key
from kuota.api.config.shapes import CONFIG_KEY
from kuota.install.network import WEBHOOK_SERVICE
from kuota.install.objects import objects, resource_of
from kuota.install.settings import NAMESPACE, Settings
from kuota.kube.client import Client
from kuota.kube.errors import ApiError
from kuota.kube.resources import CONFIG_MAPS, CRDS, JOBS, PODS, SERVICES, Resource, key_of

JOB_SETS = Resource("jobset.x-k8s.io", "v1alpha2", "jobsets", "JobSet")
QUEUE = {"kueue.x-k8s.io/queue-name": "main"}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Audited]:
    made = Audited(tmp_path_factory.mktemp("kinds"), programs())
    try:
        made.start()
        made.controllers += CONTROLLERS
        made.run("kube-controller-manager")
        yield made
    finally:
        made.close()


async def reached_at(client: Client, port: int) -> None:
    """Let the API server reach the webhooks at this port of this machine."""
    key = Key(NAMESPACE, WEBHOOK_SERVICE)
    await client.delete(SERVICES, key)
    await client.create(SERVICES, service(key))
    for each in objects(Settings()):
        if each["kind"] in HOOKS:
            stored = await client.get(resource_of(each), key_of(each))
            for webhook in stored["webhooks"]:
                webhook["clientConfig"]["service"]["port"] = port
            await client.replace(resource_of(each), stored)
    for each in (await client.list(CRDS)).items:
        if each["spec"]["conversion"]["strategy"] == "Webhook":
            each["spec"]["conversion"]["webhook"]["clientConfig"]["service"]["port"] = port
            await client.replace(CRDS, each)


async def installed_config(client: Client, port: int) -> Json:
    """The installed configuration with free ports."""
    stored = await client.get(CONFIG_MAPS, Key(NAMESPACE, "kueue-manager-config"))
    config: Json = yaml.safe_load(stored["data"][CONFIG_KEY])
    return config | {
        "health": {"healthProbeBindAddress": "127.0.0.1:0"},
        "metrics": {"bindAddress": f"127.0.0.1:{free_port()}"},
        "webhook": {"host": "127.0.0.1", "port": port},
        "visibilityServer": {"bindAddress": "127.0.0.1", "bindPort": free_port()},
    }


@asynccontextmanager
async def controller(server: Audited, client: Client, folder: Path) -> AsyncIterator[None]:
    """Run the installed controller until the end of the block. Its webhooks respond."""
    port = free_port()
    await reached_at(client, port)
    kubeconfig, log = folder / "kubeconfig", folder / "log"
    token = await token_of(client)
    kubeconfig.write_text(server.kubeconfig.read_text().replace(ADMIN_TOKEN, token))
    config = await installed_config(client, port)
    with log.open("wb") as output, launched(folder, kubeconfig, output.fileno(), config) as process:
        try:
            await trusted(client)
            await eventually(lambda: client.create(PODS, pod("probe", "team"), dry_run=True))
            yield
        finally:
            process.terminate()
            ended = await asyncio.to_thread(_ended, process)
            assert 0 == ended, log.read_text()


def _ended(process: subprocess.Popen[bytes]) -> int:
    return process.wait(HANG_S)


def pod(name: str, where: str, labels: dict[str, str] | None = None) -> Json:
    """A Pod that may run in the namespace of the installation."""
    meta = {"name": name, "namespace": where, "labels": labels or {}}
    spec = pods()["spec"]
    spec["securityContext"] = {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}}
    closed = {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}}
    for each in spec["containers"]:
        each["securityContext"] = closed
    return {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": spec}


def gates(obj: Json) -> list[str]:
    return [each["name"] for each in obj["spec"].get("schedulingGates") or ()]


async def untouched(client: Client, where: str) -> None:
    """Expect that a new Pod of a namespace is stored as it is, even if it names a queue."""
    made = await client.create(PODS, pod("system", where, QUEUE))
    meta = made["metadata"]
    assert ([], QUEUE, None) == (gates(made), meta["labels"], meta.get("finalizers"))
    await client.patch(PODS, key_of(made), {"metadata": {"annotations": {"a": "b"}}})
    await client.delete(PODS, key_of(made), grace_s=0)


async def pods_of(client: Client, owner: str) -> list[Json]:
    listed = (await client.list(PODS, "team")).items
    return [each for each in listed if key_of(each).name.startswith(f"{owner}-")]


async def deployment_waits_and_starts(client: Client) -> None:
    """A Deployment with two pods of two CPUs each waits for a Job."""
    await create(client, job("first", "4"))
    await until(client, JOBS, Key("team", "first"), lambda each: not each["spec"]["suspend"])
    await client.create(DEPLOYMENTS, serving(DEPLOYMENTS, "web"))
    async with asyncio.timeout(HANG_S):
        while len(await pods_of(client, "web")) != 2:
            await asyncio.sleep(0.05)
    assert all(gates(each) for each in await pods_of(client, "web"))
    await client.delete(JOBS, Key("team", "first"), propagation="Background")
    for each in await pods_of(client, "web"):
        started = await until(client, PODS, key_of(each), lambda found: not gates(found))
        assert {"pool": "gpu"} == started["spec"]["nodeSelector"]


async def job_set_waits_and_starts(client: Client) -> None:
    """A JobSet, whose definition is new, waits for the Deployment."""
    made = JOB_SET.manifest("train")
    made["metadata"]["namespace"] = "team"
    made["spec"]["suspend"] = False
    await eventually(lambda: client.create(JOB_SETS, made))
    key = Key("team", "train")
    assert (await client.get(JOB_SETS, key))["spec"]["suspend"]
    await client.delete(DEPLOYMENTS, Key("team", "web"), propagation="Foreground")
    await until(client, JOB_SETS, key, lambda each: not each["spec"]["suspend"])
    async with asyncio.timeout(HANG_S):
        while not (found := await pods_of(client, "train")):
            await asyncio.sleep(0.05)
    assert [[]] * len(found) == [gates(each) for each in found], "its pods run on its quota"


def test_two_kinds_are_queued_and_pods_of_the_system_are_left_alone(
    server: Audited, tmp_path: Path
) -> None:
    async def story(client: Client) -> None:
        await create(client, namespace("team"))
        async with controller(server, client, tmp_path):
            resources = {"cpu": "4", "memory": "1Gi"}
            quotas = [{"name": name, "nominalQuota": each} for name, each in resources.items()]
            flavors = [{"name": "gpu", "resources": quotas}]
            group = {"coveredResources": list(resources), "flavors": flavors}
            gpu = flavor("gpu", nodeLabels={"pool": "gpu"})
            await create(client, gpu, queue("cq", resourceGroups=[group]), local_queue())
            for where in ("kube-system", NAMESPACE):
                await untouched(client, where)
            await deployment_waits_and_starts(client)
            for each in of_operator("jobset"):
                await client.create(CRDS, each)
            await eventually(lambda: client.list(JOB_SETS))
            async with running("jobset", server, tmp_path):
                await job_set_waits_and_starts(client)
        for where in ("kube-system", NAMESPACE):
            await untouched(client, where)
        with pytest.raises(ApiError, match="failed calling webhook"):
            await client.create(PODS, pod("other", "team"))

    async def whole() -> None:
        async with server.client() as client, asyncio.timeout(3 * HANG_S):
            await story(client)

    done = kuota(server, "install", "--no-wait")
    assert 0 == done.exit_code, done.output
    asyncio.run(whole())
    refused = [each for each in server.asked_by(ACCOUNT) if each["responseStatus"]["code"] == 403]
    assert [] == [f"{each['verb']} {each['requestURI']}" for each in refused]


@pytest.mark.parametrize("kinds", ["Deployment", "StatefulSet,Job"])
def test_only_pods_with_a_parent_depend_on_the_webhook_if_pods_are_not_queued(
    server: Audited, kinds: str
) -> None:
    """Nobody responds here, so that a review shows as a rejection."""

    async def story(client: Client) -> None:
        await create(client, namespace("team"))
        await client.create(PODS, pod("free", "team"), dry_run=True)
        gated = pod("gated", "team")
        gated["metadata"]["annotations"] = {"kueue.x-k8s.io/pod-suspending-parent": "deployment"}
        with pytest.raises(ApiError, match="failed calling webhook"):
            await client.create(PODS, gated, dry_run=True)

    async def whole() -> None:
        async with server.client() as client, asyncio.timeout(HANG_S):
            await eventually(lambda: story(client))

    done = kuota(server, "install", "--no-wait", "--force-conflicts", "--kinds", kinds)
    assert 0 == done.exit_code, done.output
    asyncio.run(whole())
