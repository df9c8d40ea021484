# SPDX-License-Identifier: Apache-2.0
"""GPUs of a cluster in the dashboard: who holds them where, since when, and which are idle."""

from __future__ import annotations

from collections.abc import Sequence

from control.stage import Stage, run_scene
from kuota.api.base import Json
from kuota.controller.cluster_gpus import ClusterGpus
from kuota.dashboard.models.nodes import nodes_model
from kuota.dashboard.models.visible import visible
from kuota.utilization.dcgm import DeviceSample, exporter_samples
from kuota.view.idle import IdlePolicy
from kuota.view.observed import ObservedState
from utilization.exported import EXPORTED
from utilization.test_cluster_devices import pod


async def _read() -> Sequence[DeviceSample]:
    return exporter_samples(EXPORTED)


def _running(name: str) -> Json:
    found = pod(name, "")
    owner = {"apiVersion": "batch/v1", "kind": "Job", "name": "a", "uid": "u", "controller": True}
    found["metadata"]["ownerReferences"] = [owner]
    found["spec"]["nodeName"] = "node-1"
    return found | {"status": {"startTime": "2026-01-01T00:00:00Z"}}


def test_devices_are_shown_with_holder_node_utilization_and_idle_time() -> None:
    async def scene(stage: Stage) -> None:
        await stage.api.apply(_running("train-0"), _running("notebook-0"))
        gpus = ClusterGpus(_read, IdlePolicy(5, 60), stage.api, stage.clock)
        assert [] == await gpus.rows()
        for _ in range(6):
            await gpus.monitor.round()
            await stage.rest(15)
        rows = {each.pod: each for each in await gpus.rows()}
        busy, idle = rows["train-0"], rows["notebook-0"]
        assert {"train-0", "notebook-0"} == set(rows)
        assert ("node-1", "Job/a", "2026-01-01T00:00:00Z", 97, "") == (
            *(busy.node, busy.job, busy.since),
            *(busy.utilization_percent, busy.idle_since),
        )
        assert (0, True) == (idle.utilization_percent, bool(idle.idle_since))
        model = nodes_model(ObservedState.of([]), list(rows.values()))
        (node,) = visible(model, lambda namespace: False).nodes
        assert [(True, None, None)] * 2 == [
            (each.held, each.holder, each.workload) for each in node.devices
        ]

    run_scene(scene)
