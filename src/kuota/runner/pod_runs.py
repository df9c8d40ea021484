# SPDX-License-Identifier: Apache-2.0
"""The runs of the containers of one pod: starts and adopts them, and reports their outcome.

Every attempt has a directory that exists before anything starts, so that no run is lost. If its
process never started because the runner ended too early, the directory is used again. `end_all`
ends all runs below a state directory, without a server.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import time
from collections.abc import Callable, Iterable

import msgspec

from kuota.steady_time import SHARED

from .container_env import LaunchError
from .exec import ContainerProcess
from .pod_home import PodHome, homes
from .pod_steps import ContainerRun, RunHistory
from .proc import start_ticks
from .processes import Launch, Process
from .run_endings import FAILED, NEVER_RAN, run_of
from .spawn import ShimStarter

_STREAK = "streak"


class PodRuns:
    """All runs of one pod. `on_change` is called when one of them starts or ends."""

    def __init__(
        self,
        home: PodHome,
        uid: str,
        shims: ShimStarter,
        on_change: Callable[[], None],
        now: Callable[[], float] = SHARED.now,
    ) -> None:
        self._home = home
        self._uid = uid
        self._shims = shims
        self._on_change = on_change
        self._now = now
        self._began: dict[tuple[str, int], float] = {}
        self._processes: dict[str, dict[int, Process]] = {}
        self._ended: dict[tuple[str, int], ContainerRun] = {}
        self._false_start = False

    def adopt(self, containers: Iterable[str]) -> None:
        """Adopt the runs of an earlier runner."""
        for name in containers:
            for attempt in self._home.attempts(name):
                process = self._process(name, attempt)
                self._processes.setdefault(name, {})[attempt] = process
                process.adopt()

    def lose(self, container: str, attempt: int) -> None:
        """Record a run that was reported before and of which nothing is left."""
        if not self._home.attempts(container):
            message = "The container could not be located; its runner lost all trace of it"
            self.fail(container, LaunchError("ContainerStatusUnknown", message), attempt)

    def histories(self, containers: Iterable[str]) -> dict[str, RunHistory]:
        """The last two runs of each container.

        Raises the exception that ended the observation of one.
        """
        found = {}
        for name in containers:
            attempts = sorted(self._processes.get(name, {}))[-2:]
            runs = [self._run(name, attempt) for attempt in attempts]
            last = runs[-1] if runs else None
            found[name] = RunHistory(last, runs[-2] if len(runs) > 1 else None)
        return {name: self._without_false_start(name, each) for name, each in found.items()}

    def false_start(self) -> bool:
        """Whether a shim has failed to start a process since the last call."""
        found, self._false_start = self._false_start, False
        return found

    def start(self, container: str, launch: Launch, streak: int) -> None:
        """Start another run of the container. Raises OSError; then there is no such run."""
        attempt = self._next(container)
        process = self._process(container, attempt)
        try:
            process.start(launch)
        except BaseException:
            shutil.rmtree(self._home.run(container, attempt), ignore_errors=True)
            raise
        self._processes.setdefault(container, {})[attempt] = process
        self._note_streak(container, attempt, streak)
        self._prune(container)

    def fail(self, container: str, error: LaunchError, attempt: int | None = None) -> None:
        """Record a run that failed before it started."""
        attempt = self._next(container) if attempt is None else attempt
        folder = self._home.run(container, attempt)
        os.makedirs(folder, exist_ok=True)
        with open(f"{folder}/{FAILED}", "wb") as file:
            file.write(msgspec.json.encode([error.reason, error.message]))
        process = self._process(container, attempt)
        self._processes.setdefault(container, {})[attempt] = process
        process.adopt()
        self._prune(container)

    def running(self, container: str) -> ContainerProcess | None:
        """The process of the container; None if it does not run."""
        attempts = self._processes.get(container)
        if not attempts:
            return None
        process = attempts[max(attempts)]
        state = process.state
        if process.ended or state is None or state.pid is None or state.finished is not None:
            return None
        cookie = f"{self._uid}/{container}/{max(attempts)}"
        return ContainerProcess(state.pid, state.pid_start, cookie, state.started or 0.0)

    def pids(self, container: str) -> list[int]:
        """The pids of the container's process and of its parent. All others descend from them."""
        process = self.running(container)
        if process is None:
            return []
        state = self._processes[container][max(self._processes[container])].state
        assert state is not None
        started = {process.pid: process.start, state.shim: state.shim_start}
        return [pid for pid, start in started.items() if start_ticks(pid) == start]

    def stop(self, container: str, grace_s: float) -> None:
        attempts = self._processes.get(container)
        if attempts:
            attempts[max(attempts)].stop(grace_s)

    def forget(self) -> None:
        """Stop watching the runs without stopping them."""
        for attempts in self._processes.values():
            for process in attempts.values():
                process.forget()

    def _next(self, container: str) -> int:
        return max(self._processes.get(container, {-1: None}), default=-1) + 1

    def _process(self, container: str, attempt: int) -> Process:
        cookie = f"{self._uid}/{container}/{attempt}"
        return Process(self._home.run(container, attempt), cookie, self._shims, self._on_change)

    def _prune(self, container: str) -> None:
        attempts = self._processes[container]
        for attempt in sorted(attempts)[:-2]:
            del attempts[attempt]
            self._ended.pop((container, attempt), None)
            self._began.pop((container, attempt), None)
        self._home.prune(container)

    def _run(self, container: str, attempt: int) -> ContainerRun:
        """The run according to its process. Its outcome is read once."""
        known = self._ended.get((container, attempt))
        if known is not None:
            return known
        process = self._processes[container][attempt]
        if process.fault is not None:
            raise process.fault
        began, ended = self._times(container, attempt, process)
        run = run_of(process, attempt, self._streak(container, attempt), began, ended)
        if run.ended:
            self._ended[container, attempt] = run
        return run

    def _times(self, container: str, attempt: int, process: Process) -> tuple[float | None, float]:
        """When the run started, which does not change later, and when it ended if it has."""
        began, now = self._began.get((container, attempt)), self._now()
        if began is not None and not process.ended:
            return began, 0.0
        started, finished = process.moments(now)
        if process.state is None and process.ended:
            age_s = time.time() - os.stat(process.folder).st_mtime
            return None, now - max(0.0, age_s)
        if started is not None:
            began = self._began.setdefault((container, attempt), started)
        return began, finished or began or 0.0

    def _without_false_start(self, container: str, history: RunHistory) -> RunHistory:
        """The history without a last attempt that never started, which is tried again."""
        run = history.current
        if run is None or not run.ended or run.reason != NEVER_RAN:
            return history
        self._false_start = True
        del self._processes[container][run.attempt]
        del self._ended[container, run.attempt]
        self._began.pop((container, run.attempt), None)
        shutil.rmtree(self._home.run(container, run.attempt), ignore_errors=True)
        return RunHistory(history.previous, None)

    def _note_streak(self, container: str, attempt: int, streak: int) -> None:
        path = f"{self._home.run(container, attempt)}/{_STREAK}"
        if streak:
            with contextlib.suppress(OSError), open(path, "w") as file:
                file.write(str(streak))

    def _streak(self, container: str, attempt: int) -> int:
        path = f"{self._home.run(container, attempt)}/{_STREAK}"
        with contextlib.suppress(OSError, ValueError), open(path) as file:
            return int(file.read())
        return 0


async def end_all(state_dir: str, grace_s: float = 10) -> int:
    """Send TERM, and KILL after the grace period, to every run. Returns the number of runs.

    No runner may use the directory at the same time.
    """
    shims, changed = ShimStarter(), asyncio.Event()
    try:
        found = [Process(folder, cookie, shims, changed.set) for folder, cookie in _runs(state_dir)]
        for each in found:
            each.adopt()
        alive = [each for each in found if not each.ended]
        for each in alive:
            each.stop(grace_s)
        while not all(each.ended for each in alive):
            changed.clear()
            await changed.wait()
            for each in alive:
                if each.fault is not None:
                    raise each.fault
        return len(alive)
    finally:
        shims.close()


def _runs(state_dir: str) -> list[tuple[str, str]]:
    """The directory of every run, with the cookie that marks its processes."""
    found = []
    for uid in homes(state_dir + "/pods"):
        runs = f"{state_dir}/pods/{uid}/runs"
        for container in sorted(os.listdir(runs)) if os.path.isdir(runs) else ():
            for attempt in sorted(os.listdir(f"{runs}/{container}")):
                found.append((f"{runs}/{container}/{attempt}", f"{uid}/{container}/{attempt}"))
    return found
