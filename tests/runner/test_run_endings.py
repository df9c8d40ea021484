# SPDX-License-Identifier: Apache-2.0
"""How runs ended: by themselves, or by a disruption that nobody saw."""

from __future__ import annotations

import asyncio
import signal
from pathlib import Path

import msgspec
import pytest

from kuota.runner.pod_steps import ContainerRun
from kuota.runner.processes import Process
from kuota.runner.run_endings import run_of
from kuota.runner.run_settings import RunSettings
from kuota.steady_time import boot_id
from runner.watched import SHIMS

EARLIER = "an-earlier-boot"
MACHINE, KILLED = "MachineRestarted", "ProcessesKilled"
LOST = {"lost": 1, "gone": 1}
TERM, KILL = int(signal.SIGTERM), int(signal.SIGKILL)


def settings(folder: Path, boot: str) -> None:
    (folder / "settings").write_bytes(msgspec.json.encode(RunSettings(boot=boot)))


def ended(
    folder: Path, boot: str, numbers: dict[str, int], *, stopped: bool = False
) -> ContainerRun:
    """A run that started in this boot and ended as the numbers say."""
    settings(folder, boot)
    if stopped:
        (folder / "stopped").touch()
    whole = {"shim": 1, "shimStart": 1, "pid": 2, "started": 1.0, "finished": 2.0, **numbers}
    (folder / "state").write_bytes(msgspec.json.encode(whole))

    async def adopted() -> ContainerRun:
        process = Process(str(folder), "test", SHIMS, lambda: None)
        process.adopt()
        assert process.ended
        return run_of(process, 0, 0, 1.0, 2.0)

    return asyncio.run(adopted())


@pytest.mark.parametrize(
    ("boot", "numbers", "disruption"),
    [
        (EARLIER, LOST, MACHINE),
        (EARLIER, {"signal": TERM, "code": 128 + TERM}, MACHINE),
        (EARLIER, {"signal": KILL, "code": 128 + KILL}, MACHINE),
        (EARLIER, {"signal": KILL, "code": 128 + KILL, "oom": 1}, ""),
        (EARLIER, {"signal": int(signal.SIGSEGV), "code": 139}, ""),
        (EARLIER, {"code": 1}, ""),
        (EARLIER, {"code": 0}, ""),
        ("this", LOST, KILLED),
        ("", LOST, KILLED),
        ("this", {"lost": 1}, ""),
        ("this", {"signal": KILL, "code": 128 + KILL}, ""),
        ("this", {"signal": TERM, "code": 128 + TERM}, ""),
    ],
)
def test_what_disrupts_a_run(
    tmp_path: Path, boot: str, numbers: dict[str, int], disruption: str
) -> None:
    run = ended(tmp_path, boot_id() if boot == "this" else boot, numbers)
    assert (disruption, numbers.get("code", 137)) == (run.disruption, run.code)
    assert bool(run.message) == bool(disruption or "lost" in numbers)


@pytest.mark.parametrize("boot", [EARLIER, "this"])
def test_a_run_that_was_told_to_stop_is_not_disrupted(tmp_path: Path, boot: str) -> None:
    when = boot_id() if boot == "this" else boot
    for numbers in (LOST, {"signal": TERM, "code": 128 + TERM}):
        assert "" == ended(tmp_path, when, numbers, stopped=True).disruption
