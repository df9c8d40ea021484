# SPDX-License-Identifier: Apache-2.0
"""Several controllers and one Lease: another one takes over from each that stops."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from cluster.controllers import WRITERS, controllers, electing
from cluster.flood import Flood
from cluster.kube_server import KubeServer
from cluster.stage import Stage, StageRunner
from controller.site import LEASE, Running, stopped
from kuota.kube.resources import LEASES

JOBS = 30


def test_a_flood_passes_while_one_leader_after_the_other_leaves(
    on_stage: StageRunner, kube: KubeServer, tmp_path: Path
) -> None:
    async def scene(stage: Stage) -> None:
        await stage.stop_system()
        config = electing(stage.names.namespace)
        async with controllers(kube, tmp_path) as site:
            leading = await site.controller(WRITERS, config=config)
            leader = await _leader_changes(stage)
            flood = Flood(stage, JOBS)
            await flood.begin()
            for share, leave in enumerate((_killed, _asked, _frozen), 1):
                following = await site.controller(WRITERS, config=config)
                await flood.until(JOBS * share // 5)
                leader = await leave(stage, leading, leader)
                leading = following
            await flood.end()

    on_stage(scene)


def test_a_leader_whose_server_hangs_ends_before_anybody_else_leads(
    on_stage: StageRunner, kube: KubeServer, tmp_path: Path
) -> None:
    async def scene(stage: Stage) -> None:
        await stage.stop_system()
        config = electing(stage.names.namespace)
        async with controllers(kube, tmp_path) as site:
            first = await site.controller(WRITERS, config=config)
            await first.said("leading")
            with _frozen_process(kube.pid("kube-apiserver")):
                assert 1 == await first.ended()
            await first.said("could not be renewed")
            second = await site.controller(WRITERS, config=config)
            await second.said("leading")
            await stopped(second)

    on_stage(scene)


async def _leader_changes(stage: Stage, before: str = "") -> str:
    """Who leads, as soon as it is another one than before."""

    def holder() -> str:
        return str(stage.get(LEASES, LEASE.name)["spec"].get("holderIdentity") or "")

    await stage.holds(lambda: holder() not in ("", before))
    return holder()


async def _killed(stage: Stage, leading: Running, leader: str) -> str:
    """It cannot give its Lease back: that has to run out."""
    await leading.kill()
    return await _leader_changes(stage, leader)


async def _asked(stage: Stage, leading: Running, leader: str) -> str:
    await stopped(leading)
    return await _leader_changes(stage, leader)


async def _frozen(stage: Stage, leading: Running, leader: str) -> str:
    """It wakes up when another leads, and must not write a word."""
    with _frozen_process(leading.process.pid):
        found = await _leader_changes(stage, leader)
    assert 0 != await leading.ended()
    return found


@contextmanager
def _frozen_process(pid: int) -> Iterator[None]:
    os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(pid, signal.SIGCONT)
