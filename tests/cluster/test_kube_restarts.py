# SPDX-License-Identifier: Apache-2.0
"""The API server, and what is behind it, goes away in the middle of a flood and comes back."""

from __future__ import annotations

import asyncio

import pytest

from cluster.flood import Flood
from cluster.kube_server import KubeServer
from cluster.stage import Stage, Told

JOBS = 30


@pytest.mark.parametrize("part", ["kube-apiserver", "etcd"])
def test_a_flood_passes_while_a_part_of_the_server_is_killed(
    told: Told, kube: KubeServer, part: str
) -> None:
    async def scene(stage: Stage) -> None:
        flood = Flood(stage, JOBS)
        await flood.begin()
        for share in (1, 2):
            await flood.until(JOBS * share // 4)
            kube.kill(part)
            await asyncio.to_thread(kube.run, part)
        await flood.end()

    told(scene)


def test_a_flood_passes_while_the_api_server_is_upgraded(told: Told, kube: KubeServer) -> None:
    async def scene(stage: Stage) -> None:
        flood = Flood(stage, JOBS)
        await flood.begin()
        await flood.until(JOBS // 3)
        await asyncio.to_thread(kube.stop, "kube-apiserver")
        await asyncio.to_thread(kube.run, "kube-apiserver")
        await flood.end()

    told(scene)
