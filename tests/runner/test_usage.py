# SPDX-License-Identifier: Apache-2.0
"""The usage of containers: rates over a window, from cgroups or from processes."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import pytest

from kuota.runner import usage
from kuota.runner.usage import (
    MACHINE,
    ContainerKey,
    Measured,
    UsageReading,
    UsageSampler,
    cgroup_reading,
    machine_reading,
    process_reading,
)

KEY: ContainerKey = ("uid", "main")
MIB = 1 << 20


def test_the_rate_is_that_of_the_window_not_of_the_whole_life(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    now, spent_s = 1000.0, 0.0

    def readings(measured: object) -> dict[ContainerKey, UsageReading]:
        return {MACHINE: UsageReading(0, 0), KEY: UsageReading(int(spent_s * 1e9), MIB)}

    monkeypatch.setattr(usage, "_readings", readings)
    container = {KEY: Measured((1,), 1000.0)}

    async def main() -> None:
        nonlocal now, spent_s
        sampler = UsageSampler(lambda: container, lambda: now)
        now, spent_s = 1004.0, 2.0
        # The first sample of a new container covers its life.
        assert 500_000_000 == (await sampler.usage())[KEY].cpu_nano
        now, spent_s = 1019.0, 2.0
        found = (await sampler.usage())[KEY]
        assert (0, 15.0, MIB) == (found.cpu_nano, found.window_s, found.memory_bytes)
        now, spent_s = 1034.0, 47.0
        assert 3_000_000_000 == (await sampler.usage())[KEY].cpu_nano
        container.clear()
        assert {MACHINE} == set(await sampler.usage())

    asyncio.run(main())


def test_a_sample_is_shared_by_requests_of_the_same_second(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    samples = 0

    def readings(measured: object) -> dict[ContainerKey, UsageReading]:
        nonlocal samples
        samples += 1
        return {MACHINE: UsageReading(0, 0)}

    monkeypatch.setattr(usage, "_readings", readings)

    async def main() -> None:
        sampler = UsageSampler(dict, lambda: 1000.0)
        await asyncio.gather(*(sampler.usage() for _ in range(10)))

    asyncio.run(main())
    assert samples == 1


def test_a_container_that_has_just_started_is_measured_at_once() -> None:
    async def main() -> None:
        running: dict[ContainerKey, Measured] = {}
        sampler = UsageSampler(lambda: running, lambda: 1000.0)
        assert {MACHINE} == set(await sampler.usage())
        running[KEY] = Measured((os.getpid(),), 999.0)
        assert {MACHINE, KEY} == set(await sampler.usage())

    asyncio.run(main())


def test_a_cgroup_counts_memory_that_the_kernel_cannot_drop(tmp_path: Path) -> None:
    (tmp_path / "cpu.stat").write_text("usage_usec 1500\nuser_usec 1000\n")
    (tmp_path / "memory.stat").write_text(f"anon {MIB}\ninactive_file {MIB}\n")
    (tmp_path / "memory.current").write_text(f"{3 * MIB}\n")
    assert UsageReading(1_500_000, 2 * MIB) == cgroup_reading(str(tmp_path))
    assert cgroup_reading("") is None
    assert cgroup_reading(str(tmp_path / "none")) is None


def test_processes_are_measured_with_their_descendants() -> None:
    own, parents = process_reading((os.getpid(),)), process_reading((os.getppid(),))
    assert 0 < own.cpu_ns <= parents.cpu_ns
    assert MIB < own.memory_bytes <= parents.memory_bytes
    assert UsageReading(0, 0) == process_reading(())


def test_the_machine_is_measured(tmp_path: Path) -> None:
    (tmp_path / "stat").write_text("cpu  1 2 3 400 500 6 7 8 0 0\ncpu0 1\n")
    (tmp_path / "meminfo").write_text("MemTotal: 100 kB\nMemFree: 1 kB\nMemAvailable: 40 kB\n")
    assert UsageReading(27 * 10**9 // os.sysconf("SC_CLK_TCK"), 60 << 10) == machine_reading(
        str(tmp_path)
    )
    assert machine_reading().memory_bytes > MIB
    assert UsageReading(0, 0) == machine_reading(str(tmp_path / "none"))
