# SPDX-License-Identifier: Apache-2.0
"""Metrics and visibility of a controller process, on leaders and on followers."""

from __future__ import annotations

import asyncio
import inspect
import json
from pathlib import Path

import pytest
from aiohttp import ClientSession, TCPConnector

from cluster.kube_server import free_port
from control.objects import condition, flavor, job, local_queue, queue
from controller.site import TOKEN, Site, configuration, run_story, stopped
from hang import HANG_S
from kuota.api.base import Json
from kuota.control.system import System
from kuota.controller.controller import Controller
from kuota.controller.flags import Flags, settings
from kuota.kube.resources import JOBS, WORKLOADS
from kuota.metrics.metrics import Metrics

ALL = "--parts=core,scheduler,jobs,visibility"
PLAIN: Json = {"metrics": {"bindAddress": "127.0.0.1:0"}}
SUMMARY = "/apis/visibility.kueue.x-k8s.io/v1beta2/clusterqueues/cq/pendingworkloads"


@pytest.mark.parametrize(("config", "counts"), [(PLAIN, [True]), ({}, [])])
def test_counting_begins_before_anything_is_decided_if_metrics_are_served(
    config: Json, counts: list[bool], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    counting = list[bool]()

    async def story(site: Site) -> None:
        stop = asyncio.Event()

        async def run(system: System, leading: object = None) -> None:
            counting.extend(
                isinstance(getattr(inspect.unwrap(each), "__self__", None), Metrics)
                for each in system.driver.cycle_observers
            )
            stop.set()

        monkeypatch.setattr(System, "run", run)
        path = tmp_path / "config.yaml"
        path.write_text(json.dumps(configuration(config)))
        flags = Flags(
            config=str(path),
            kubeconfig=str(site.kubeconfig),
            parts="core,scheduler",
            plain_metrics=True,
        )
        async with asyncio.timeout(HANG_S):
            await Controller(settings(flags, {}, tmp_path)).run(stop)

    run_story(story, tmp_path)
    assert counts == counting


def test_metrics_in_the_clear_are_for_this_machine_alone(tmp_path: Path) -> None:
    async def story(site: Site) -> None:
        running = await site.controller(
            ALL, "--plain-metrics", config=PLAIN | _visible(free_port())
        )
        await _busy(site)
        url = f"http://127.0.0.1:{await running.port('metrics')}/metrics"
        text = await _counted(url, 'kueue_admitted_workloads_total{cluster_queue="cq"')
        for line in (
            'replica_role="leader"',
            "kueue_admission_attempts_total",
            "process_resident_memory_bytes",
        ):
            assert line in text, text
        refused = await site.controller(ALL, "--plain-metrics", config=_metrics("0.0.0.0:0"))
        assert 1 == await refused.ended()
        assert "other machines can read" in str(refused)

    run_story(story, tmp_path)


def test_metrics_behind_tls_ask_who_wants_to_know(tmp_path: Path) -> None:
    async def story(site: Site) -> None:
        running = await site.controller(ALL, config=PLAIN | _visible(free_port()))
        url = f"https://127.0.0.1:{await running.port('metrics')}/metrics"
        assert 401 == (await _read(url))[0]
        assert 401 == (await _read(url, "nonsense"))[0]
        assert 200 == (await _read(url, TOKEN))[0]
        assert TOKEN not in str(running)

    run_story(story, tmp_path)


def test_a_follower_reports_who_waits_too(tmp_path: Path) -> None:
    async def story(site: Site) -> None:
        first = await site.controller("--parts=core,scheduler,jobs")
        await first.said("leading")
        await _busy(site)
        port = free_port()
        second = await site.controller(ALL, config=_visible(port))
        await second.said("serving the visibility API on port")
        assert "leading" not in str(second)
        status, text = await _read(f"https://127.0.0.1:{port}{SUMMARY}", TOKEN)
        assert (200, 1) == (status, len(json.loads(text)["items"]))
        assert 403 == (await _read(f"https://127.0.0.1:{port}{SUMMARY}"))[0]
        await stopped(second)

    run_story(story, tmp_path)


def test_visibility_can_have_a_process_of_its_own_that_writes_nothing(tmp_path: Path) -> None:
    async def story(site: Site) -> None:
        first = await site.controller("--parts=core,scheduler,jobs")
        await _busy(site)
        await stopped(first)
        before, port = site.door.writes(), free_port()
        alone = await site.controller("--parts=visibility", config=_visible(port))
        await alone.said("serving the visibility API on port")
        status, text = await _read(f"https://127.0.0.1:{port}{SUMMARY}", TOKEN)
        assert (200, 1) == (status, len(json.loads(text)["items"]))
        assert before == [each for each in site.door.writes() if "reviews" not in each[1]]
        await stopped(alone)

    run_story(story, tmp_path)


async def _busy(site: Site) -> None:
    """One Job runs, another waits."""
    await site.apply(flavor(), queue("cq", 1), local_queue(), job("one"), job("two"))
    await site.until_some(JOBS, lambda each: not each["spec"].get("suspend"))
    await site.until_some(WORKLOADS, _waits)


def _waits(workload: Json) -> bool:
    return condition(workload, "QuotaReserved").get("status") == "False"


async def _read(url: str, token: str = "") -> tuple[int, str]:
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    async with (
        ClientSession(connector=TCPConnector(ssl=False)) as session,
        session.get(url, headers=headers) as response,
    ):
        return response.status, await response.text()


async def _counted(url: str, line: str) -> str:
    """The metrics, once they have the line: what is counted is what the watch has told."""
    async with asyncio.timeout(HANG_S):
        while True:
            status, text = await _read(url)
            assert 200 == status
            if line in text:
                return text


def _metrics(at: str) -> Json:
    return {"metrics": {"bindAddress": at}}


def _visible(port: int) -> Json:
    return {"visibilityServer": {"bindAddress": "127.0.0.1", "bindPort": port}}
