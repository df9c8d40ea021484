# SPDX-License-Identifier: Apache-2.0
"""The API server and etcd restart while many Jobs run."""

from __future__ import annotations

import asyncio
from pathlib import Path

from cluster.controllers import WRITERS, controllers, electing
from cluster.flood import Flood
from cluster.kube_server import KubeServer
from cluster.stage import Stage, StageRunner
from controller.site import stopped

JOBS = 30


def test_a_flood_passes_while_parts_of_the_server_are_killed(
    on_stage: StageRunner, kube: KubeServer
) -> None:
    async def scene(stage: Stage) -> None:
        flood = Flood(stage, JOBS, spare_pods=True)
        await flood.begin()
        for share, part in enumerate(("kube-apiserver", "etcd", "kube-controller-manager"), 1):
            await flood.until(JOBS * share // 5)
            kube.kill(part)
            await asyncio.to_thread(kube.run, part)
        await flood.end()

    on_stage(scene)


def test_a_flood_passes_while_the_api_server_is_upgraded(
    on_stage: StageRunner, kube: KubeServer
) -> None:
    async def scene(stage: Stage) -> None:
        flood = Flood(stage, JOBS, spare_pods=True)
        await flood.begin()
        await flood.until(JOBS // 3)
        await asyncio.to_thread(kube.stop, "kube-apiserver")
        await asyncio.to_thread(kube.run, "kube-apiserver")
        await flood.end()

    on_stage(scene)


def test_a_controller_outlives_its_api_server(
    on_stage: StageRunner, kube: KubeServer, tmp_path: Path
) -> None:
    async def scene(stage: Stage) -> None:
        await stage.stop_system()
        config = electing(stage.names.namespace, quick=False)
        async with controllers(kube, tmp_path) as site:
            running = await site.controller(WRITERS, config=config)
            flood = Flood(stage, JOBS, spare_pods=True)
            await flood.begin()
            await flood.until(JOBS // 3)
            await asyncio.to_thread(kube.kill, "kube-apiserver")
            await asyncio.to_thread(kube.run, "kube-apiserver")
            await flood.end()
            await stopped(running)

    on_stage(scene)
