# SPDX-License-Identifier: Apache-2.0
"""Measures the CPU time and memory of containers and of the machine, for `kubectl top`.

Numbers come from the cgroup of a container where it has one, otherwise from its processes in /proc.
The processes of a container descend from its shim, and a process that has ended is counted in the
time of its parent. The memory of several processes is added up, so memory that they share counts
more than once; a cgroup counts it once.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections import deque
from collections.abc import Callable, Mapping

import msgspec

from .pod_sockets import descendants
from .proc import boot_time, cpu_ticks, resident_pages

INTERVAL_S = 15.0
_WINDOW_S = 10.0
_FRESH_S = 1.0
_TICK_NS = 10**9 // os.sysconf("SC_CLK_TCK")
_PAGE = os.sysconf("SC_PAGE_SIZE")

ContainerKey = tuple[str, str]
"""The uid of a pod, and the name of a container."""


class Measured(msgspec.Struct, frozen=True):
    """A container to measure. `cgroup` is its directory, "" without one."""

    pids: tuple[int, ...]
    started: float
    cgroup: str = ""


class UsageReading(msgspec.Struct, frozen=True):
    """CPU time since the start in nanoseconds, and memory in bytes."""

    cpu_ns: int
    memory_bytes: int


class ContainerUsage(msgspec.Struct, frozen=True):
    """The average CPU usage in the window that ended at `at`, and the memory at that time."""

    cpu_nano: int
    memory_bytes: int
    at: float
    window_s: float


class UsageSample(msgspec.Struct, frozen=True):
    """All readings at one time. The machine has the key ("", "")."""

    at: float
    readings: Mapping[ContainerKey, UsageReading]


MACHINE: ContainerKey = ("", "")


class UsageSampler:
    """Samples the containers that `measured` returns, from time to time and when asked."""

    def __init__(
        self,
        measured: Callable[[], Mapping[ContainerKey, Measured]],
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._measured = measured
        self._clock = clock
        self._samples: deque[UsageSample] = deque(maxlen=8)
        self._turn = asyncio.Lock()

    async def run(self) -> None:
        """Keep samples until cancelled, so that a rate is available at any time."""
        while True:
            await self._sample()
            await asyncio.sleep(INTERVAL_S)

    async def usage(self) -> dict[ContainerKey, ContainerUsage]:
        """The usage of every running container, and of the machine."""
        async with self._turn:
            if not self._is_fresh():
                await self._sample()
        started = {key: each.started for key, each in self._measured().items()}
        started[MACHINE] = boot_time()
        return {
            key: self._since(key, reading, started[key])
            for key, reading in self._samples[-1].readings.items()
            if key in started
        }

    def _is_fresh(self) -> bool:
        """Whether the last sample is recent and contains every running container."""
        if not self._samples or self._clock() - self._samples[-1].at >= _FRESH_S:
            return False
        return self._measured().keys() <= self._samples[-1].readings.keys()

    def _since(self, key: ContainerKey, reading: UsageReading, started: float) -> ContainerUsage:
        """The usage since an older sample, or since the start of a new container."""
        now = self._samples[-1].at
        before, since = 0, started
        for sample in self._samples:
            older = sample.readings.get(key)
            if older is not None and started <= sample.at <= now - _WINDOW_S:
                before, since = older.cpu_ns, sample.at
        window_s = max(now - since, 0.001)
        # The time of a process can be lost when another process than its parent reaps it.
        spent_ns = max(0, reading.cpu_ns - before)
        return ContainerUsage(int(spent_ns / window_s), reading.memory_bytes, now, window_s)

    async def _sample(self) -> None:
        measured = dict(self._measured())
        readings = await asyncio.to_thread(_readings, measured)
        self._samples.append(UsageSample(self._clock(), readings))


def _readings(measured: Mapping[ContainerKey, Measured]) -> dict[ContainerKey, UsageReading]:
    found = {MACHINE: machine_reading()}
    for key, each in measured.items():
        found[key] = cgroup_reading(each.cgroup) or process_reading(each.pids)
    return found


def cgroup_reading(folder: str) -> UsageReading | None:
    """The reading of a cgroup; None if it has no statistics."""
    if not folder:
        return None
    try:
        cpu, memory = _numbers(f"{folder}/cpu.stat"), _numbers(f"{folder}/memory.stat")
        with open(f"{folder}/memory.current") as file:
            # Pages of files that the kernel can drop at any time are not in use.
            used = int(file.read()) - memory.get("inactive_file", 0)
        return UsageReading(cpu["usage_usec"] * 1000, max(0, used))
    except (OSError, ValueError, KeyError):
        return None


def _numbers(path: str) -> dict[str, int]:
    with open(path) as file:
        return {name: int(value) for name, value in (line.split() for line in file)}


def process_reading(pids: tuple[int, ...]) -> UsageReading:
    """The reading of processes and all their descendants."""
    found = descendants(pids)
    ticks = sum(max(0, cpu_ticks(pid)) for pid in found)
    pages = sum(max(0, resident_pages(pid)) for pid in found)
    return UsageReading(ticks * _TICK_NS, pages * _PAGE)


def machine_reading(proc: str = "/proc") -> UsageReading:
    """The CPU time that all processors have spent since boot, and the memory in use."""
    try:
        with open(f"{proc}/stat") as file:
            user, nice, system, _, _, irq, softirq, steal, *_ = map(
                int, file.readline().split()[1:]
            )
        with open(f"{proc}/meminfo") as file:
            memory = {line.split(":")[0]: int(line.split()[1]) << 10 for line in file}
        used = memory["MemTotal"] - memory["MemAvailable"]
    except (OSError, ValueError, KeyError, IndexError):
        return UsageReading(0, 0)
    return UsageReading((user + nice + system + irq + softirq + steal) * _TICK_NS, used)
