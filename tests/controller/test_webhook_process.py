# SPDX-License-Identifier: Apache-2.0
"""Webhooks of a controller process: immediately available, on every replica."""

from __future__ import annotations

import base64
import os
import ssl
from datetime import UTC, datetime
from pathlib import Path

from aiohttp import ClientSession, TCPConnector

from control.objects import job, local_queue
from controller.site import Running, Site, run_story, stopped
from kuota.api.base import Json, Key
from kuota.kube.resources import SECRETS
from kuota.pki.certificate import self_signed

GIVEN: Json = {"internalCertManagement": {"enable": False}}
MANAGED: Json = {"internalCertManagement": {"enable": True}}
SECRET = Key("kueue-system", "kueue-webhook-server-cert")
MUTATE_JOB = "/mutate-batch-v1-job"


def test_webhooks_answer_soon_with_a_certificate_that_is_given(tmp_path: Path) -> None:
    async def story(site: Site) -> None:
        authority = _provide(tmp_path)
        await site.close()
        running = await site.controller("--parts=webhooks", config=_webhook(GIVEN, tmp_path))
        port = await running.port("webhooks")
        assert _cpu_s(running) < 2.0
        answer = await _asked(port, authority, "/validate-kueue-x-k8s-io-v1beta2-cohort", _cohort())
        assert answer["response"]["allowed"]
        await stopped(running)

    run_story(story, tmp_path)


def test_webhooks_alone_have_metrics_of_their_process(tmp_path: Path) -> None:
    async def story(site: Site) -> None:
        _provide(tmp_path)
        config = _webhook(GIVEN, tmp_path) | {"metrics": {"bindAddress": "127.0.0.1:0"}}
        running = await site.controller("--parts=webhooks", "--plain-metrics", config=config)
        url = f"http://127.0.0.1:{await running.port('metrics')}"
        async with ClientSession(url) as session, session.get("/metrics") as response:
            assert "process_resident_memory_bytes" in await response.text()
        await stopped(running)
        assert not any("workloads" in path for _, path in site.door.seen)

    run_story(story, tmp_path)


def test_a_made_certificate_is_kept_in_the_secret_that_kueue_uses(tmp_path: Path) -> None:
    async def story(site: Site) -> None:
        running = await site.controller("--parts=webhooks", config=_webhook(MANAGED, tmp_path))
        port = await running.port("webhooks")
        secret = await site.admin.get(SECRETS, SECRET)
        authority = base64.b64decode(secret["data"]["ca.crt"]).decode()
        answer = await _asked(port, authority, MUTATE_JOB, _unsuspended())
        assert answer["response"]["allowed"]
        await stopped(running)
        assert base64.b64decode(secret["data"]["tls.key"]).decode()[:60] not in str(running)

    run_story(story, tmp_path)


def test_readiness_waits_for_the_certificate(tmp_path: Path) -> None:
    async def story(site: Site) -> None:
        running = await site.controller("--parts=webhooks", config=_webhook(GIVEN, tmp_path))
        probes = await running.port("probes")
        await running.said("no usable certificate")
        async with ClientSession(f"http://127.0.0.1:{probes}") as session:
            async with session.get("/readyz") as response:
                assert (500, True) == (
                    response.status,
                    "certificates are not ready" in await response.text(),
                )
            async with session.get("/healthz") as response:
                assert 200 == response.status
            _provide(tmp_path)
            await running.port("webhooks")
            async with session.get("/readyz") as response:
                assert 200 == response.status

    run_story(story, tmp_path)


def test_a_follower_answers_too_and_knows_what_the_cluster_holds(tmp_path: Path) -> None:
    async def story(site: Site) -> None:
        authority = _provide(tmp_path)
        first = await site.controller("--parts=core,scheduler,jobs")
        await first.said("leading")
        running = await site.controller(config=_webhook(GIVEN, tmp_path))
        port = await running.port("webhooks")
        await site.apply(local_queue("default"))
        unnamed = _unsuspended()
        unnamed["metadata"]["labels"] = {}
        answer = await _asked(port, authority, MUTATE_JOB, unnamed)
        patch = base64.b64decode(answer["response"]["patch"]).decode()
        assert "kueue.x-k8s.io~1queue-name" in patch or "kueue.x-k8s.io/queue-name" in patch
        assert "leading" not in str(running)

    run_story(story, tmp_path)


def _provide(folder: Path) -> str:
    """Put a certificate where the webhooks look for one; what to trust."""
    made = self_signed(("127.0.0.1",), datetime.now(UTC))
    (folder / "tls.key").write_bytes(made.key)
    (folder / "tls.crt").write_bytes(made.certificate)
    return made.certificate.decode()


def _webhook(certs: Json, folder: Path) -> Json:
    return certs | {"webhook": {"host": "127.0.0.1", "port": 0, "certDir": str(folder)}}


def _cpu_s(running: Running) -> float:
    """Processor time is what counts: these machines have others to serve."""
    stat = Path(f"/proc/{running.process.pid}/stat").read_text()
    return sum(map(int, stat.rpartition(")")[2].split()[11:13])) / os.sysconf("SC_CLK_TCK")


async def _asked(port: int, authority: str, path: str, obj: Json) -> Json:
    review = {
        "apiVersion": "admission.k8s.io/v1",
        "kind": "AdmissionReview",
        "request": {
            "uid": "u",
            "operation": "CREATE",
            "namespace": obj["metadata"].get("namespace", ""),
            "object": obj,
        },
    }
    connector = TCPConnector(ssl=ssl.create_default_context(cadata=authority))
    async with (
        ClientSession(f"https://127.0.0.1:{port}", connector=connector) as session,
        session.post(path, json=review) as response,
    ):
        found: Json = await response.json()
    return found


def _cohort() -> Json:
    return {
        "apiVersion": "kueue.x-k8s.io/v1beta2",
        "kind": "Cohort",
        "metadata": {"name": "all"},
        "spec": {},
    }


def _unsuspended() -> Json:
    return job("one", suspend=False)
