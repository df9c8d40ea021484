# SPDX-License-Identifier: Apache-2.0
"""Two control planes of one machine that offer the same GPUs."""

from __future__ import annotations

import asyncio
import uuid
from pathlib import Path

import pytest

from kuota.runner.host_topology import Card
from kuota.runner.inventory import GPU, Gpus, Machine, pretended
from kuota.runner.nodes import NodePlan, this_machine
from kuota.up import host
from kuota.up.device_claims import claimed_devices
from kuota.up.installation import Installation
from kuota.up.options import UpOptions
from kuota.up.state_dir import StateDir


def node(*gpus: str) -> NodePlan:
    cards = tuple(Card({GPU: [each]}) for each in gpus)
    return this_machine("here", Machine(1000, 1 << 30, 1 << 30, Gpus(cards)))


def new_gpu() -> str:
    return f"GPU-{uuid.uuid4()}"


def test_a_gpu_that_another_control_plane_offers_is_reported(
    caplog: pytest.LogCaptureFixture,
) -> None:
    shared, own = new_gpu(), new_gpu()
    with claimed_devices([node(shared)]) as first, claimed_devices([node(shared, own)]) as second:
        assert ([], [shared]) == (first, second)
    assert "another control plane" in caplog.text
    assert shared in caplog.text
    assert own not in caplog.text


def test_claims_end_with_the_control_plane(caplog: pytest.LogCaptureFixture) -> None:
    gpu = new_gpu()
    for _ in range(2):
        with claimed_devices([node(gpu)]) as taken:
            assert [] == taken
    assert "" == caplog.text


def test_simulated_gpus_are_not_claimed() -> None:
    plan = this_machine("here", Machine(1000, 1 << 30, 1 << 30, pretended(2)))
    with claimed_devices([plan]), claimed_devices([plan]) as second:
        assert [] == second


def test_a_control_plane_claims_its_gpus_before_it_is_ready(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    shared, own = new_gpu(), new_gpu()
    found = Machine(1000, 1 << 30, 1 << 30, Gpus(tuple(Card({GPU: [id]}) for id in (shared, own))))
    monkeypatch.setattr(host, "machine", lambda *_, **__: found)
    free: list[str] = []

    async def serve() -> None:
        def ready(_: int) -> None:
            with claimed_devices([node(own)]) as taken:
                free.extend({own}.difference(taken))
            task.cancel()

        installation = Installation(StateDir(tmp_path), UpOptions(allow_root=True))
        task = asyncio.ensure_future(installation.run(ready))
        await asyncio.wait([task])
        assert task.cancelled(), task.exception()

    with claimed_devices([node(shared)]):
        asyncio.run(serve())
    assert [] == free
    assert f"at the same time: {shared};" in caplog.text
