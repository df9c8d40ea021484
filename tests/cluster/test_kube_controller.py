# SPDX-License-Identifier: Apache-2.0
"""Controller processes on a real API server: fail-over, its restart, its silence, who may read."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Callable, Coroutine, Iterator
from contextlib import AsyncExitStack, suppress
from pathlib import Path
from typing import Any

import pytest
from aiohttp import ClientSession, TCPConnector

from cluster.hooked import eventually
from cluster.kube_install import install_crds
from cluster.kube_server import ADMIN_TOKEN, KubeServer, free_port, programs
from control.objects import condition, flavor, job, local_queue, namespace, queue
from controller.site import STOP_S, Ground, Running
from kuota.api.base import Json
from kuota.kube.errors import AlreadyExists, KubeError
from kuota.kube.http_client import http_client
from kuota.kube.resources import (
    CLUSTER_QUEUES,
    JOBS,
    LEASES,
    LOCAL_QUEUES,
    NAMESPACES,
    RESOURCE_FLAVORS,
    SERVICES,
    WORKLOADS,
    Resource,
    key_of,
)
from kuota.webhook.injection import API_SERVICES, MUTATING, VALIDATING
from kuota.webhook.manifests import configurations

QUICK: Json = {
    "leaderElection": {"leaseDuration": "4s", "renewDeadline": "3s", "retryPeriod": "300ms"}
}
WRITERS = "--parts=core,scheduler,jobs"
QUOTA = 10
GROUP = "visibility.kueue.x-k8s.io"
SUMMARY = f"/apis/{GROUP}/v1beta2/clusterqueues/cq/pendingworkloads"

Story = Callable[["Real"], Coroutine[Any, Any, None]]


class Real(Ground):
    """A real API server, tidied up after each story."""

    def __init__(self, server: KubeServer, folder: Path, stack: AsyncExitStack) -> None:
        super().__init__(folder, http_client(server.connection()), stack)
        stack.push_async_callback(self.admin.close)
        self.server = server

    @property
    def kubeconfig(self) -> Path:
        return self.server.kubeconfig

    async def make(self, resource: Resource, obj: Json) -> None:
        """Create something that is for this story alone."""
        await self.admin.create(resource, obj)
        self._stack.push_async_callback(self.admin.delete, resource, key_of(obj))

    async def tidy(self) -> None:
        """Remove what a story leaves: its controllers are gone, so nobody lets finalizers go."""
        for resource in (JOBS, WORKLOADS, LOCAL_QUEUES, CLUSTER_QUEUES, RESOURCE_FLAVORS, LEASES):
            space = "team" if resource.namespaced else None
            for each in (await self.admin.list(resource, space)).items:
                key = key_of(each)
                await self.admin.delete(resource, key, propagation="Background")
                if each["metadata"].get("finalizers"):
                    with suppress(Exception):
                        await self.admin.patch(resource, key, {"metadata": {"finalizers": None}})
        for each in (await self.admin.list(LEASES, "kueue-system")).items:
            await self.admin.delete(LEASES, key_of(each))


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KubeServer]:
    """A server of our own: it is restarted and made to hang."""
    made = KubeServer(tmp_path_factory.mktemp("controller"), programs())
    try:
        made.start()
        asyncio.run(install_crds(made.connection()))
        made.run("kube-controller-manager")
        yield made
    finally:
        made.close()


@pytest.fixture
def told(server: KubeServer, tmp_path: Path) -> Callable[[Story], None]:
    def tell(story: Story) -> None:
        async def main() -> None:
            async with AsyncExitStack() as stack:
                real = Real(server, tmp_path, stack)
                for name in ("team", "kueue-system"):
                    with suppress(AlreadyExists):
                        await real.admin.create(NAMESPACES, namespace(name))
                async with AsyncExitStack() as inner:
                    real._stack = inner
                    await story(real)
                await real.tidy()

        asyncio.run(main())

    return tell


def test_the_next_one_goes_on_where_a_killed_leader_was(told: Callable[[Story], None]) -> None:
    async def story(real: Real) -> None:
        first = await real.controller(WRITERS, config=QUICK)
        await first.said("leading")
        second = await real.controller(WRITERS, config=QUICK)
        await _flood(real, 30)
        await real.until_some(JOBS, _started, 3)
        await first.kill()
        await second.said("leading")
        await _all_done(real, 30)
        await _stopped(second)

    told(story)


def test_a_leader_whose_server_hangs_ends_before_anybody_else_leads(
    told: Callable[[Story], None],
) -> None:
    async def story(real: Real) -> None:
        first = await real.controller(WRITERS, config=QUICK)
        await first.said("leading")
        frozen = real.server.pid("kube-apiserver")
        os.kill(frozen, signal.SIGSTOP)
        try:
            assert 1 == await first.ended()
        finally:
            os.kill(frozen, signal.SIGCONT)
        await first.said("could not renew")
        second = await real.controller(WRITERS, config=QUICK)
        await second.said("leading")
        await _stopped(second)

    told(story)


def test_a_restarted_server_costs_neither_jobs_nor_quota(told: Callable[[Story], None]) -> None:
    async def story(real: Real) -> None:
        running = await real.controller(WRITERS)
        await running.said("leading")
        await _flood(real, 40)
        await real.until_some(JOBS, _started, 2)
        await asyncio.to_thread(real.server.kill, "kube-apiserver")
        await asyncio.to_thread(real.server.run, "kube-apiserver")
        await _all_done(real, 40)
        assert running.process.returncode is None
        await _stopped(running)

    told(story)


def test_metrics_are_for_those_whom_the_cluster_lets_read_them(
    told: Callable[[Story], None],
) -> None:
    async def story(real: Real) -> None:
        config: Json = {"metrics": {"bindAddress": "127.0.0.1:0"}}
        running = await real.controller(WRITERS, config=config)
        url = f"https://127.0.0.1:{await running.port('metrics')}/metrics"
        assert 401 == (await _read(url))[0]
        assert 401 == (await _read(url, "nonsense"))[0]
        status, text = await _read(url, ADMIN_TOKEN)
        assert (200, True) == (status, "kueue_build_info" in text)
        await _stopped(running)
        assert ADMIN_TOKEN not in str(running)

    told(story)


def test_who_waits_can_be_asked_of_the_api_server_itself(told: Callable[[Story], None]) -> None:
    async def story(real: Real) -> None:
        port = free_port()
        config: Json = {"visibilityServer": {"bindAddress": "127.0.0.1", "bindPort": port}}
        running = await real.controller(f"{WRITERS},visibility", config=config)
        await real.apply(flavor(), queue("cq", 1), local_queue(), job("one"), job("two"))
        await real.until_some(JOBS, _started)
        await real.until_some(WORKLOADS, _waits)
        await running.said("visibility answers")
        url = f"https://127.0.0.1:{port}{SUMMARY}"
        status, text = await _read(url, ADMIN_TOKEN)
        assert (200, 1) == (status, text.count("positionInClusterQueue"))
        assert 403 == (await _read(url))[0]
        await _stopped(running)

    told(story)


def test_everything_at_once_takes_the_place_of_kueue(told: Callable[[Story], None]) -> None:
    async def story(real: Real) -> None:
        hooks, lines = free_port(), free_port()
        for each in configurations(url=f"https://127.0.0.1:{hooks}"):
            resource = MUTATING if each["kind"].startswith("Mutating") else VALIDATING
            await real.make(resource, each)
        await real.make(SERVICES, _service("kueue-visibility-server"))
        await real.make(API_SERVICES, _api_service("kueue-visibility-server", lines))
        config: Json = {
            "webhook": {"host": "127.0.0.1", "port": hooks},
            "visibilityServer": {"bindAddress": "127.0.0.1", "bindPort": lines},
            "internalCertManagement": {"enable": True},
        }
        running = await real.controller(config=config)
        await running.said("webhooks answer")
        await real.until_some(MUTATING, _trusted)
        await real.until_some(VALIDATING, _trusted)
        await eventually(lambda: real.apply(flavor()))
        with pytest.raises(KubeError, match="admission webhook"):
            await real.apply(queue("cq", -1))
        await real.apply(queue("cq", 1), local_queue())
        await real.apply(job("one", suspend=False), job("two", suspend=False))
        await real.until_some(JOBS, _started)
        await real.until_some(WORKLOADS, _waits)
        await real.until_some(API_SERVICES, lambda each: _available(each))
        found = await eventually(lambda: real.admin.fetch(SUMMARY))
        assert 1 == len(found["items"])
        await _stopped(running)

    told(story)


async def _flood(real: Real, jobs: int) -> None:
    await real.apply(flavor(), queue("cq", QUOTA), local_queue())
    await real.apply(*(job(f"j{n}") for n in range(jobs)))


async def _all_done(real: Real, jobs: int) -> None:
    """Let every Job have its turn, and look that no more run at a time than there is quota for."""
    done: set[str] = set()
    while len(done) < jobs:
        running = await real.until_some(JOBS, lambda each: _runs(each, done))
        assert len(running) <= QUOTA
        reserved = [
            each for each in (await real.admin.list(WORKLOADS, "team")).items if _holds(each)
        ]
        assert len(reserved) <= QUOTA
        for each in running:
            done.add(key_of(each).name)
            await _finish(real, each)


async def _finish(real: Real, found: Json) -> None:
    """As a user who has seen enough: delete the Job, which gives its quota back."""
    await real.admin.delete(JOBS, key_of(found), propagation="Background")


def _runs(found: Json, done: set[str]) -> bool:
    return _started(found) and key_of(found).name not in done


def _started(found: Json) -> bool:
    meta = found["metadata"]
    mine = meta["namespace"] == "team" and not meta.get("deletionTimestamp")
    return mine and not found["spec"].get("suspend")


def _available(service: Json) -> bool:
    mine = service["metadata"]["name"].endswith(GROUP)
    return mine and condition(service, "Available").get("status") == "True"


def _trusted(hooks: Json) -> bool:
    """Whether it is one of ours, and says whom to trust."""
    mine = hooks["metadata"]["name"].startswith("kueue-")
    return mine and all(each["clientConfig"].get("caBundle") for each in hooks["webhooks"])


def _service(name: str) -> Json:
    """A service that is this machine."""
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"namespace": "kueue-system", "name": name},
        "spec": {"type": "ExternalName", "externalName": "localhost"},
    }


def _api_service(service: str, port: int) -> Json:
    return {
        "apiVersion": API_SERVICES.api_version,
        "kind": API_SERVICES.kind,
        "metadata": {"name": f"v1beta2.{GROUP}"},
        "spec": {
            "group": GROUP,
            "version": "v1beta2",
            "groupPriorityMinimum": 100,
            "versionPriority": 100,
            "service": {"namespace": "kueue-system", "name": service, "port": port},
        },
    }


def _waits(workload: Json) -> bool:
    return condition(workload, "QuotaReserved").get("status") == "False"


def _holds(workload: Json) -> bool:
    over = condition(workload, "Finished").get("status") == "True"
    if over or workload["metadata"].get("deletionTimestamp"):
        return False
    return condition(workload, "QuotaReserved").get("status") == "True"


async def _stopped(running: Running) -> None:
    status, took_s = await running.stop()
    assert (0, True) == (status, took_s < STOP_S), str(running)


async def _read(url: str, token: str = "") -> tuple[int, str]:
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    async with (
        ClientSession(connector=TCPConnector(ssl=False)) as session,
        session.get(url, headers=headers) as response,
    ):
        return response.status, await response.text()
