# SPDX-License-Identifier: Apache-2.0
"""Idle GPUs of a cluster are recorded in its history, and reported as waste."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path

import pytest

from control.objects import job
from control.stage import Stage, run_scene
from history.test_recorder import Recording
from kuota.api.base import Json, Key
from kuota.controller.idle_history import WorkloadNames
from kuota.history.address import SqliteFile
from kuota.history.calls import direct
from kuota.history.database import HistoryReader
from kuota.history.idle_recorder import IdleRecorder
from kuota.kube.resources import PODS
from kuota.utilization.cluster_devices import ClusterDevices
from kuota.utilization.dcgm import DeviceSample
from kuota.utilization.monitor import IdleMonitor
from kuota.view.idle import IdlePolicy


def _pod(name: str, **metadata: object) -> Json:
    limits = {"cpu": "1", "nvidia.com/gpu": "1"}
    container = {"name": "main", "image": "i", "resources": {"limits": limits}}
    named = {"name": name, "namespace": "team", **metadata}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": named,
        "spec": {"containers": [container]},
    }


async def _read() -> Sequence[DeviceSample]:
    return [DeviceSample("team", "p", "main", "GPU-1", 0.0)]


@pytest.mark.parametrize("annotated", [True, False], ids=["annotation", "controller"])
def test_idle_time_is_waste_of_the_team_that_holds_the_device(
    tmp_path: Path, annotated: bool
) -> None:
    async def scene(stage: Stage) -> None:
        await stage.furnish()
        await stage.api.apply(job("a"))
        recording = Recording(stage, SqliteFile(str(tmp_path / "history")))
        recording.start()
        await stage.rest(5)
        (workload,) = stage.system.cache.workloads.values()
        owner = {"apiVersion": "batch/v1", "kind": "Job", "name": "a", "controller": True}
        owner["uid"] = stage.job("a")["metadata"]["uid"]
        named = {"annotations": {"kueue.x-k8s.io/workload": workload.key.name}}
        await stage.api.apply(
            _pod("p", **(named if annotated else {"ownerReferences": [owner]})),
            _pod("other"),
        )
        names = WorkloadNames(stage.api, stage.clock)
        following = asyncio.create_task(names.run())
        devices = ClusterDevices(_read, stage.api, names.of_pod, stage.clock)
        record = IdleRecorder(recording.address, direct).record
        monitor = IdleMonitor(devices, IdlePolicy(5, 60), record=record, clock=stage.clock)
        for _ in range(9):
            await stage.rest(15)
            await monitor.round()
        following.cancel()
        await recording.stop()
        with HistoryReader(recording.address) as reader:
            (span,) = reader.idle(0.0, 1e12)
        assert ("team", workload.key.name, "nvidia.com/gpu", 120.0) == (
            *(span.namespace, span.workload, span.resource),
            span.until - span.since,
        )
        assert names.of_pod(await stage.api.get(PODS, Key("team", "other"))) is None

    run_scene(scene)
