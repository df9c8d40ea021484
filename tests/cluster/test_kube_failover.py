# SPDX-License-Identifier: Apache-2.0
"""Two controllers and one Lease: whoever dies, freezes or is asked to go, the other goes on."""

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


def test_the_second_goes_on_where_the_first_was_killed(
    told: Told, kube: KubeServer, tmp_path: Path
) -> None:
    async def scene(stage: Stage) -> None:
        await stage.stop_system()
        replicas = Replicas(kube, tmp_path, stage.names.namespace)
        try:
            replicas.start()
            first = await _leader_changes(stage, replicas)
            replicas.start()
            flood = Flood(stage, JOBS)
            await flood.begin()
            await flood.until(JOBS // 4)
            await asyncio.to_thread(replicas.kill, 0)
            await _leader_changes(stage, replicas, first)
            await flood.end()
        finally:
            replicas.close()

    told(scene)


def test_one_that_was_frozen_ends_itself_when_another_leads(
    told: Told, kube: KubeServer, tmp_path: Path
) -> None:
    async def scene(stage: Stage) -> None:
        await stage.stop_system()
        replicas = Replicas(kube, tmp_path, stage.names.namespace)
        try:
            replicas.start()
            first = await _leader_changes(stage, replicas)
            replicas.start()
            flood = Flood(stage, JOBS)
            await flood.begin()
            await flood.until(JOBS // 4)
            os.kill(replicas.pid(0), signal.SIGSTOP)
            await _leader_changes(stage, replicas, first)
            os.kill(replicas.pid(0), signal.SIGCONT)
            assert 0 != await asyncio.to_thread(replicas.wait, 0)
            await flood.end()
        finally:
            replicas.close()

    told(scene)


def test_one_that_is_asked_to_go_gives_its_lease_back_at_once(
    told: Told, kube: KubeServer, tmp_path: Path
) -> None:
    async def scene(stage: Stage) -> None:
        await stage.stop_system()
        replicas = Replicas(kube, tmp_path, stage.names.namespace)
        try:
            replicas.start()
            first = await _leader_changes(stage, replicas)
            replicas.start()
            flood = Flood(stage, JOBS)
            await flood.begin()
            await flood.until(JOBS // 4)
            assert 0 == await asyncio.to_thread(replicas.stop, 0)
            await _leader_changes(stage, replicas, first)
            await flood.end()
        finally:
            replicas.close()

    told(scene)
