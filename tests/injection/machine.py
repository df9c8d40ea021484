# SPDX-License-Identifier: Apache-2.0
"""Processes in virtual time that survive the runner that started them."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable

from control.virtual import VirtualClock
from kuota.runner.processes import Launch, ShimState

TERM_S = 1.0
"""How long a process takes to end after SIGTERM."""


class Run:
    """One process: `sleep N`, which ends by itself or by a signal."""

    def __init__(self, launch: Launch, now: float) -> None:
        self.started = now
        self.ends = now + float(launch.argv[-1])
        self.code = 0

    def stop(self, now: float, grace_s: float) -> bool:
        """Send SIGTERM; whether the process ends sooner by it."""
        end = now + min(grace_s, TERM_S)
        sooner = self.code == 0 and end < self.ends
        if sooner:
            self.ends, self.code = end, 143
        return sooner


class Machine:
    """All processes by the folder of their run."""

    def __init__(self) -> None:
        self.runs: dict[str, Run] = {}
        self.clock = VirtualClock()

    def now(self) -> float:
        return self.clock.now().timestamp()

    def alive(self) -> list[str]:
        return [folder for folder, run in self.runs.items() if run.ends > self.now()]


class SimulatedProcess:
    """Stands in for `kuota.runner.processes.Process`. `machine` is set by the story."""

    machine: Machine

    def __init__(
        self, folder: str, cookie: str, shims: object, on_change: Callable[[], None]
    ) -> None:
        self.folder = folder
        self.state: ShimState | None = None
        self.ended = False
        self.exit_code: int | None = None
        self.fault: Exception | None = None
        self._on_change = on_change
        self._timer: asyncio.Handle | None = None

    def start(self, launch: Launch) -> None:
        os.makedirs(self.folder, mode=0o700)
        self.machine.runs[self.folder] = Run(launch, self.machine.now())
        self._follow()

    def adopt(self) -> None:
        if self.folder in self.machine.runs:
            self._follow()
        else:
            self.ended = True
            self._on_change()

    def moments(self, now: float) -> tuple[float | None, float | None]:
        state = self.state
        return (None, None) if state is None else (state.started, state.finished)

    def stop(self, grace_s: float) -> None:
        run = self.machine.runs.get(self.folder)
        if run is not None and not self.ended and run.stop(self.machine.now(), grace_s):
            self._follow()

    def forget(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _follow(self) -> None:
        """Look now, and again when the process ends."""
        self.forget()
        run, now = self.machine.runs[self.folder], self.machine.now()
        over = run.ends <= now
        self.state = ShimState(
            shim=1,
            shim_start=1,
            pid=1,
            pid_start=1,
            started=run.started,
            finished=run.ends if over else None,
            code=run.code if over else None,
        )
        self.ended, self.exit_code = over, run.code if over else None
        loop = asyncio.get_running_loop()
        if not over:
            self._timer = loop.call_later(run.ends - now, self._follow)
        loop.call_soon(self._on_change)
