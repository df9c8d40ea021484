# SPDX-License-Identifier: Apache-2.0
"""Gauges and statuses count only reservations that the API server has stored."""

from __future__ import annotations

import pytest

from control.objects import job
from control.stage import Stage, run_scene
from kuota.api.base import Json
from kuota.kube.errors import ServerError
from kuota.kube.resources import CLUSTER_QUEUES, LOCAL_QUEUES
from metrics.shown import Scrape, along

LABELLED: Json = {"customLabels": [{"name": "team", "sourceKind": "Workload"}]}


def _setup(metrics: Json) -> Json:
    return {"metrics": {"enableClusterQueueResources": True} | metrics}


async def _refused(stage: Stage) -> None:
    """Let one job run, and refuse to store the reservation of another."""
    await stage.furnish()
    await stage.api.apply(job("runs"))
    await stage.rest()
    down: list[Exception] = [
        ServerError(503, "ServiceUnavailable", "etcd is down") for _ in range(10_000)
    ]
    stage.api.refuse["status", "Workload"] = down
    await stage.api.apply(job("refused", "2"))
    await stage.rest(10)
    assert stage.says("refused", "QuotaReserved") == ""


@pytest.mark.parametrize("labels", [{}, LABELLED], ids=["plain", "labelled"])
def test_gauges_count_a_refused_reservation_as_pending(labels: Json) -> None:
    gates = {"LocalQueueMetrics": True, "CustomMetricLabels": True}
    config = _setup(labels)

    async def scene(stage: Stage) -> None:
        metrics = along(stage, config, gates)
        await _refused(stage)
        seen = Scrape(metrics)
        for prefix in ("", "local_queue_"):
            assert 1 == seen(f"{prefix}reserving_active_workloads"), prefix
            assert 1 == seen(f"{prefix}admitted_active_workloads"), prefix
            assert 1 == seen(f"{prefix}pending_workloads", status="active"), prefix
        for name in ("cluster_queue", "local_queue"):
            assert 1 == seen(f"{name}_resource_reservation", resource="cpu")
            assert 1 == seen(f"{name}_resource_usage", resource="cpu")
        assert 2 == seen("cluster_queue_resource_pending", resource="cpu")
        stage.api.refuse.clear()
        await stage.rest(60)
        seen = Scrape(metrics)
        assert 2 == seen("reserving_active_workloads")
        assert 3 == seen("cluster_queue_resource_reservation", resource="cpu")
        assert not seen("pending_workloads", status="active")

    run_scene(scene, config, gates)


def test_statuses_count_a_refused_reservation_as_pending() -> None:
    async def scene(stage: Stage) -> None:
        await _refused(stage)
        for resource, name in ((CLUSTER_QUEUES, "cq"), (LOCAL_QUEUES, "main")):
            status = stage.get(resource, name)["status"]
            names = ("pendingWorkloads", "reservingWorkloads", "admittedWorkloads")
            assert [1, 1, 1] == [status[each] for each in names]
            held = status["flavorsReservation"][0]["resources"][0]["total"]
            assert "1" == held
        stage.api.refuse.clear()
        await stage.rest(60)
        status = stage.get(CLUSTER_QUEUES, "cq")["status"]
        assert [0, 2, 2] == [status[each] for each in names]

    run_scene(scene)
