# SPDX-License-Identifier: Apache-2.0
"""A mixed fleet: Kuota is the manager, and its worker runs Kueue.

Needs Kueue's program, which `go build ./cmd/kueue` creates in a checkout of Kueue. Its path is
in the environment variable KUOTA_KUEUE.
"""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
from collections.abc import Iterator
from functools import partial

import pytest
import trustme

from cluster.kube_fleet import SPACE, SYSTEM, started_worker, until
from cluster.kube_server import KubeServer, free_port
from cluster.test_kube_multikueue import FAR, NEAR, Fleet, activate, running
from control.objects import condition
from kuota.api.base import Key
from kuota.kube.resources import JOBS, WORKLOADS

KUEUE = os.environ.get("KUOTA_KUEUE", "")
IN_ITS_OWN_ETC = """
mount -t tmpfs tmpfs /etc && mkdir -p /etc/kueue/metrics/certs && cp "$0"/* /etc/kueue/metrics/certs
exec "$@"
"""
"""Kueue reads a certificate for its metrics from a fixed folder, even if it serves none."""
pytestmark = pytest.mark.skipif(not KUEUE, reason="KUOTA_KUEUE does not name the program of Kueue")


@pytest.fixture
def workers(
    kube: KubeServer, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[dict[str, KubeServer]]:
    """A cluster with Kueue, and one with Kuota."""
    found: dict[str, KubeServer] = {}
    kueue: subprocess.Popen[bytes] | None = None
    try:
        for name in (NEAR, FAR):
            folder = tmp_path_factory.mktemp(f"mixed-{name}") / f"mixed-{name}"
            found[name] = started_worker(kube, folder)
            found[name].run("kube-controller-manager")
        kueue = started_kueue(found[NEAR])
        yield found
    finally:
        if kueue is not None:
            kueue.kill()
            kueue.wait()
        for each in found.values():
            each.close()


def started_kueue(server: KubeServer) -> subprocess.Popen[bytes]:
    """Start Kueue on a cluster that has its kinds and no webhooks."""
    certificates = server.folder / "webhook"
    certificates.mkdir()
    issued = trustme.CA().issue_cert("localhost")
    issued.private_key_pem.write_to_path(str(certificates / "tls.key"))
    issued.cert_chain_pems[0].write_to_path(str(certificates / "tls.crt"))
    config = {
        "apiVersion": "config.kueue.x-k8s.io/v1beta2",
        "kind": "Configuration",
        "namespace": SYSTEM,
        "health": {"healthProbeBindAddress": "0"},
        "metrics": {"bindAddress": "0"},
        "webhook": {"port": free_port(), "certDir": str(certificates)},
        "leaderElection": {"leaderElect": False},
        "internalCertManagement": {"enable": False},
        "integrations": {"frameworks": ["batch/job"]},
    }
    path = server.folder / "kueue.json"
    path.write_text(json.dumps(config))
    command = [
        KUEUE,
        f"--kubeconfig={server.kubeconfig}",
        f"--config={path}",
        "--feature-gates=VisibilityOnDemand=false",
    ]
    with (server.folder / "kueue.log").open("wb") as log:
        return subprocess.Popen(
            ["unshare", "-rm", "sh", "-c", IN_ITS_OWN_ETC, str(certificates), *command],
            stdout=log,
            stderr=subprocess.STDOUT,
        )


def test_a_worker_with_kueue_runs_stops_and_finishes_jobs_of_kuota(
    kube: KubeServer, workers: dict[str, KubeServer]
) -> None:
    async def story() -> None:
        async with running(kube, workers, controlled=(FAR,)) as fleet:
            await fleet.far.pause(True)
            await fleet.submit("running")
            await fleet.submit("evicted")
            for name in ("running", "evicted"):
                await until(partial(fleet.runs, name, NEAR), f"{name} runs under Kueue")
            (copy, _) = await fleet.near.listed(JOBS)
            assert "managedBy" not in copy["spec"]
            await _evicted(fleet)
            await _finished(fleet)

    asyncio.run(story())


async def _evicted(fleet: Fleet) -> None:
    """Evict a Job: Kueue stops it, and Kuota releases its quota. Then let it run again."""
    await activate(fleet, "evicted", False)

    async def released() -> bool:
        held = condition(fleet.workload("evicted"), "QuotaReserved").get("status")
        return held == "False"

    await until(released, "the quota of the evicted Job is released")
    await activate(fleet, "evicted", True)
    await until(lambda: fleet.runs("evicted", NEAR), "the evicted Job runs again under Kueue")


async def _finished(fleet: Fleet) -> None:
    async def over() -> bool:
        await fleet.near.end("running", "evicted")
        return fleet.finished("running") and fleet.finished("evicted")

    await until(over, "both Jobs finish")
    await until(fleet.near.empty, "nothing is left in the cluster with Kueue")
    for name in ("running", "evicted"):
        found = await fleet.manager.get(JOBS, Key(SPACE, name))
        assert condition(found, "Complete")["status"] == "True"
        await fleet.manager.client.delete(JOBS, Key(SPACE, name), propagation="Background")
    assert not await fleet.far.listed(WORKLOADS)
