# SPDX-License-Identifier: Apache-2.0
"""Several controllers and one Lease: whoever dies, freezes or is asked to go, another goes on."""

from __future__ import annotations

import asyncio
import os
import signal
from pathlib import Path

from cluster.flood import Flood
from cluster.kube_server import KubeServer
from cluster.replicas import Replicas
from cluster.stage import Stage, Told
from kuota.kube.resources import LEASES

JOBS = 30


async def _leader_changes(stage: Stage, replicas: Replicas, before: str = "") -> str:
    """Who leads, as soon as it is another one than before."""

    def holder() -> str:
        lease = stage.get(LEASES, replicas.lease.name)
        return str(lease["spec"].get("holderIdentity") or "")

    await stage.holds(lambda: holder() not in ("", before))
    return holder()


def test_a_flood_passes_while_one_leader_after_the_other_leaves(
    told: Told, kube: KubeServer, tmp_path: Path
) -> None:
    async def scene(stage: Stage) -> None:
        await stage.stop_system()
        replicas = Replicas(kube, tmp_path, stage.names.namespace)
        try:
            replicas.start()
            leader = await _leader_changes(stage, replicas)
            flood = Flood(stage, JOBS)
            await flood.begin()
            for share, leave in enumerate((_killed, _asked, _frozen), 1):
                replicas.start()
                await flood.until(JOBS * share // 5)
                leader = await leave(stage, replicas, share - 1, leader)
            await flood.end()
        finally:
            replicas.close()

    told(scene)


async def _killed(stage: Stage, replicas: Replicas, number: int, leader: str) -> str:
    """It cannot give its Lease back: that has to run out."""
    await asyncio.to_thread(replicas.kill, number)
    return await _leader_changes(stage, replicas, leader)


async def _asked(stage: Stage, replicas: Replicas, number: int, leader: str) -> str:
    assert 0 == await asyncio.to_thread(replicas.stop, number)
    return await _leader_changes(stage, replicas, leader)


async def _frozen(stage: Stage, replicas: Replicas, number: int, leader: str) -> str:
    """It wakes up when another leads, and must not write a word."""
    os.kill(replicas.pid(number), signal.SIGSTOP)
    found = await _leader_changes(stage, replicas, leader)
    os.kill(replicas.pid(number), signal.SIGCONT)
    assert 0 != await asyncio.to_thread(replicas.wait, number)
    return found
