# SPDX-License-Identifier: Apache-2.0
"""Devices of this machine: who sees which holder, and what NVML reports."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from types import SimpleNamespace
from typing import Any, cast

import pytest
from click.testing import CliRunner

from kuota.api.base import Json
from kuota.cli.gpus import _print
from kuota.cli.main import main
from kuota.runner.device_readings import DeviceReading, readings
from kuota.runner.devices import Device
from kuota.runner.pod_worker import PodWorker
from kuota.server.requests import User
from kuota.up.device_extension import DeviceExtension
from kuota.view.devices import DEVICES_PATH, DeviceRow
from server.served import Local, namespace

ANN = User("ann", ("vision", "system:authenticated"))
OWNER = {"kind": "Job", "name": "train", "uid": "j", "controller": True}
POD: Json = {
    "metadata": {"name": "p", "namespace": "vision", "ownerReferences": [OWNER]},
    "status": {"startTime": "2026-01-02T03:04:05Z"},
}
OTHER: Json = {"metadata": {"name": "q", "namespace": "speech"}}
DEVICES = (
    Device("n", "nvidia.com/gpu", "GPU-0", "mine"),
    Device("n", "nvidia.com/gpu", "GPU-1", "theirs"),
    Device("n", "nvidia.com/gpu", "GPU-2"),
)


def worker(uid: str) -> PodWorker:
    return cast(PodWorker, SimpleNamespace(pod={"mine": POD, "theirs": OTHER}[uid]))


@pytest.fixture
def api() -> Iterator[Local]:
    local = Local()
    local.api.extensions.append(DeviceExtension(lambda: DEVICES, worker, local.api.roles))
    for team in ("vision", "speech"):
        local.ask("POST", "/api/v1/namespaces", namespace(team, team))
    yield local
    local.close()


def test_members_see_all_devices_and_the_holders_of_their_own_team(api: Local) -> None:
    mine, theirs, free = api.ask("GET", DEVICES_PATH, user=ANN)["items"]
    assert ("vision", "Job/train") == (mine["namespace"], mine["job"])
    assert {"node", "resource", "id", "held"} == set(theirs)
    assert "held" not in free
    assert "speech" == api.ask("GET", DEVICES_PATH)["items"][1]["namespace"]


def test_members_see_the_readings_of_all_devices_without_their_holders(api: Local) -> None:
    async def read(devices: Sequence[Device]) -> Mapping[str, DeviceReading]:
        return {each.id: DeviceReading(97, 2**30, 2**34) for each in devices}

    api.api.extensions[-1] = DeviceExtension(
        lambda: DEVICES, worker, api.api.roles, read=read, idle_since=lambda uid, device: 1.0
    )
    mine, theirs, _ = api.ask("GET", DEVICES_PATH, user=ANN)["items"]
    assert "idleSince" in mine
    readings = {"utilizationPercent", "memoryUsedBytes", "memoryTotalBytes"}
    assert {"node", "resource", "id", "held", *readings} == set(theirs)


def test_devices_can_only_be_read(api: Local) -> None:
    assert 405 == api.refusal("POST", DEVICES_PATH)["code"]
    assert 404 == api.refusal("GET", f"{DEVICES_PATH}/x")["code"]


class FakeNvml:
    """Two devices, of which the second is a MIG instance without utilization."""

    class NVMLError(Exception):
        pass

    def nvmlInit(self) -> None: ...  # noqa: N802

    def nvmlShutdown(self) -> None: ...  # noqa: N802

    def nvmlDeviceGetHandleByUUID(self, uuid: str) -> str:  # noqa: N802
        if uuid not in ("GPU-0", "MIG-0"):
            raise self.NVMLError
        return uuid

    def nvmlDeviceGetUtilizationRates(self, device: str) -> Any:  # noqa: N802
        if device == "MIG-0":
            raise self.NVMLError
        return SimpleNamespace(gpu=97)

    def nvmlDeviceGetMemoryInfo(self, device: str) -> Any:  # noqa: N802
        return SimpleNamespace(used=2**30, total=2**34)


def test_readings_lack_what_a_device_does_not_report() -> None:
    assert {
        "GPU-0": DeviceReading(97, 2**30, 2**34),
        "MIG-0": DeviceReading(None, 2**30, 2**34),
    } == readings(["GPU-0", "MIG-0", "GPU-unknown"], FakeNvml())


def test_the_table_shows_holder_utilization_and_memory(capsys: pytest.CaptureFixture[str]) -> None:
    busy = DeviceRow("n", "nvidia.com/gpu", "GPU-0", True, "vision", "p", "Job/train", "", 97, 0, 1)
    _print([busy, DeviceRow("n", "nvidia.com/gpu", "GPU-1", True)], wide=False)
    _, first, second = capsys.readouterr().out.splitlines()
    assert ["GPU-0", "vision/Job/train", "97", "%"] == first.split()[:4]
    assert "(another team)" in second


def test_help_says_what_members_see() -> None:
    assert "within their own namespaces" in CliRunner().invoke(main, ["gpus", "--help"]).output
