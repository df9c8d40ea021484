# SPDX-License-Identifier: Apache-2.0
"""Metrics of the process."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator

import pytest

from kuota.engine.engine import Engine
from kuota.failures import COUNTS, report
from kuota.kube.errors import Unreachable
from kuota.kube.requests import HttpRequest, HttpResponse
from kuota.metrics.metrics import Metrics
from kuota.metrics.runtime import Runtime, host_of
from metrics.shown import Scrape


class OneResponseTransport:
    """A transport that answers once, and then breaks."""

    def __init__(self, status: int = 201) -> None:
        self._answers, self._status = 1, status

    async def send(self, request: HttpRequest) -> HttpResponse:
        self._answers -= 1
        if self._answers < 0:
            raise Unreachable("cut off")
        return HttpResponse(self._status, {}, b"{}")

    async def stream(self, request: HttpRequest) -> AsyncGenerator[bytes, None]:
        yield b"{}"
        raise Unreachable("cut off")

    async def close(self) -> None:
        """There is nothing to let go of."""


def values(metrics: Metrics, name: str) -> dict[tuple[str, ...], float]:
    return {
        tuple(each.labels.values()): each.value
        for each in Scrape(metrics).samples
        if each.name == name
    }


def test_requests_are_counted_by_their_answers() -> None:
    async def story() -> None:
        runtime, metrics = Runtime(), Metrics(Engine())
        host = host_of("https://user:secret@example.test:6443/base")
        line = runtime.transport(OneResponseTransport(), host)
        request = HttpRequest(method="POST", path="/x")
        await line.send(request)
        with pytest.raises(Unreachable):
            await line.send(request)
        with pytest.raises(Unreachable):
            async for _ in line.stream(HttpRequest(method="GET", path="/x")):
                pass
        metrics.show_process(runtime)
        assert host == "example.test:6443"
        assert {
            ("201", host, "POST"): 1,
            ("<error>", host, "POST"): 1,
            ("<error>", host, "GET"): 1,
        } == values(metrics, "rest_client_requests_total")

    asyncio.run(story())


def test_a_server_cannot_create_any_number_of_series_with_its_status_codes() -> None:
    async def story() -> None:
        runtime, metrics = Runtime(), Metrics(Engine())
        for status in range(200, 1000):
            line = runtime.transport(OneResponseTransport(status), "multikueuecluster/lab")
            await line.send(HttpRequest(method="GET", path="/x"))
        metrics.show_process(runtime)
        found = values(metrics, "rest_client_requests_total")
        assert 800 == sum(found.values())
        assert 1 == found["200", "multikueuecluster/lab", "GET"]
        assert found["<unknown>", "multikueuecluster/lab", "GET"] > 700

    asyncio.run(story())


def test_reconciliations_are_counted_and_timed_by_how_they_end() -> None:
    async def reconcile(name: str) -> float | None:
        if name == "broken":
            raise ValueError(name)
        return 5.0 if name == "later" else None

    async def story() -> None:
        runtime, metrics = Runtime(), Metrics(Engine())
        instrument = runtime.instrument("workload_controller", reconcile)
        assert await instrument("good") is None
        assert 5.0 == await instrument("later")
        with pytest.raises(ValueError, match="broken"):
            await instrument("broken")
        metrics.show_process(runtime, depths=lambda: {"workload_controller": 3})
        at = "workload_controller"
        assert {(at, each): 1 for each in ("success", "requeue_after", "error")} == values(
            metrics, "controller_runtime_reconcile_total"
        )
        assert {(at,): 1} == values(metrics, "controller_runtime_reconcile_errors_total")
        assert {(at,): 3} == values(metrics, "controller_runtime_reconcile_time_seconds_count")
        assert {(at,): 3} == values(metrics, "workqueue_depth")

    asyncio.run(story())


def test_who_leads_is_reported_and_what_the_process_uses() -> None:
    runtime, metrics = Runtime(), Metrics(Engine())
    metrics.show_process(runtime, lease="kueue-controller")
    assert {("kueue-controller",): 0} == values(metrics, "leader_election_master_status")
    metrics.role = "leader"
    assert {("kueue-controller",): 1} == values(metrics, "leader_election_master_status")
    assert values(metrics, "process_resident_memory_bytes")[()] > 0


def test_unexpected_errors_are_counted_by_the_part_that_failed() -> None:
    report("translation", ValueError("a bug"), "it failed")
    runtime, metrics = Runtime(), Metrics(Engine())
    metrics.show_process(runtime)
    assert COUNTS["translation"] == values(metrics, "kuota_internal_errors_total")["translation",]
