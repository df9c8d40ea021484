# SPDX-License-Identifier: Apache-2.0
"""Runs containers as processes: starts, adopts and stops them, and reports how they ended.

Each run has its own directory, in which its shim records its state. A `Process` follows one run
without polling: through a pipe that is closed at the first report, and through a pidfd. A shim that
was killed is replaced. If its process still runs, the new shim watches it, and this process, which
adopts orphans, learns the exit code.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import msgspec

from kuota.steady_time import boot_id, uptime

from .proc import start_ticks
from .run_settings import LOG_BYTES, LOG_FILES, RunSettings, keep_settings, kept_settings
from .spawn import ShimStarter, take_lock
from .terminal import OUT, make_fifos

COOKIE = "KUOTA_RUN"
"""Identifies the run in its environment, so that leftover processes can be found."""
_START_POLL_S = 0.01
_STOPPED = "stopped"
"""Exists in the directory of a run that was told to stop."""


class Launch(msgspec.Struct, frozen=True):
    """A process to start.

    With `uid` None the user does not change; with `cgroup` "" the group does not. Without `cpus`,
    the process may use all CPUs.
    """

    argv: tuple[str, ...]
    env: Mapping[str, str]
    cwd: str
    uid: int | None = None
    gid: int = 0
    groups: tuple[int, ...] = ()
    cgroup: str = ""
    grace_s: float = 30
    log_bytes: int = LOG_BYTES
    log_files: int = LOG_FILES
    stdin: bool = False
    """Whether `kubectl attach` can write to its standard input."""
    stdin_once: bool = False
    """Whether its standard input ends with that of the first client. A terminal never does."""
    tty: bool = False
    """Whether its standard streams are a terminal."""
    confine: dict[str, Any] | None = None
    """See `confine`."""
    cpus: tuple[int, ...] = ()
    most_processes: int = 0
    """A limit of processes and threads of the user, where no cgroup limits those of the pod."""


class ShimState(msgspec.Struct, frozen=True, rename="camel"):
    """The recorded state of a shim. None means unknown or not yet.

    Times are seconds since 1970 and, with `_up`, since the machine booted.
    """

    shim: int
    shim_start: int
    pid: int | None = None
    pid_start: int = -1
    started: float | None = None
    started_up: float | None = None
    finished: float | None = None
    finished_up: float | None = None
    code: int | None = None
    signal: int = 0
    errno: int = 0
    stage: int = 0
    lost: int = 0
    oom: int = 0
    adopted: int = 0
    """1 if a shim that replaced a killed one wrote this."""
    terminal: int | None = None
    """The process that serves the terminal of the container, and when it started."""
    terminal_start: int | None = None
    gone: int = 0
    """1 if the process had ended before the shim that adopted it could watch it."""


def shim_state(folder: str) -> ShimState | None:
    """The state in the directory; None if no process was started there."""
    try:
        with open(folder + "/state", "rb") as file:
            state = msgspec.json.decode(file.read(), type=ShimState)
    except (OSError, msgspec.DecodeError):
        return None
    return None if state.pid is None else state


class Process:
    """One run. `on_change` is called when it started and when it ended."""

    def __init__(
        self, folder: str, cookie: str, shims: ShimStarter, on_change: Callable[[], None]
    ) -> None:
        self.folder = folder
        self.state: ShimState | None = None
        self.ended = False
        self.exit_code: int | None = None
        self.fault: Exception | None = None
        """Why the run is no longer followed. It may continue, and another Process can adopt it."""
        self._cookie = cookie
        self._shims = shims
        self._on_change = on_change
        self._stop_at: float | None = None
        self._killer: asyncio.TimerHandle | None = None
        self._next_look: asyncio.Handle | None = None
        self._loop = asyncio.get_running_loop()
        self._watched: dict[int, Callable[[], None]] = {}
        self._child = -1

    def start(self, launch: Launch) -> None:
        """Start the run in its new directory. Raises OSError if that is impossible."""
        os.makedirs(self.folder, mode=0o700)
        make_fifos(self.folder, launch.uid, launch.gid, stdin=launch.stdin, tty=launch.tty)
        keep_settings(self.folder, launch)
        lock = take_lock(self.folder)
        if lock is None:
            raise FileExistsError(f"{self.folder} belongs to another shim")
        env = {**launch.env, COOKIE: self._cookie}
        self._spawn({**msgspec.structs.asdict(launch), "env": env, **self._paths()}, lock)

    def adopt(self) -> None:
        """Adopt a run that another runner started, whatever its state."""
        self.state = shim_state(self.folder)
        lock = take_lock(self.folder)
        if lock is None:
            self._follow_shim()
            return
        try:
            self.state = shim_state(self.folder)  # The shim may just have written it and exited.
            plan = self._adoption()
        except BaseException:
            os.close(lock)  # Otherwise nobody could adopt the run while this process lives.
            raise
        if plan is None:
            os.close(lock)
            self._end()
        else:
            self._spawn(plan, lock)

    def stop(self, grace_s: float) -> None:
        """Send TERM to the process group, then KILL.

        A second call with a shorter grace period shortens the wait.
        """
        at = self._loop.time() + grace_s
        if self.ended or (self._stop_at is not None and self._stop_at <= at):
            return
        first = self._stop_at is None
        if first:
            with contextlib.suppress(OSError):
                open(f"{self.folder}/{_STOPPED}", "x").close()
        self._stop_at = at
        if self._killer is not None:
            self._killer.cancel()
        kill = partial(self._signal, signal.SIGKILL)
        self._killer = self._loop.call_later(grace_s, self._guarded, kill)
        if first and grace_s > 0:
            self._signal(signal.SIGTERM)

    @property
    def asked_to_stop(self) -> bool:
        """Whether this runner or an earlier one has told the process to stop."""
        return os.path.exists(f"{self.folder}/{_STOPPED}")

    def forget(self) -> None:
        """Stop following the run, and leave it running."""
        for fd in self._watched:
            self._loop.remove_reader(fd)
            os.close(fd)
        self._watched.clear()
        for timer in (self._killer, self._next_look):
            if timer is not None:
                timer.cancel()
        self._killer = self._next_look = None

    def _signal(self, number: signal.Signals) -> None:
        """Signal the group if its leader is still ours; a zombie keeps the group id."""
        state = self.state
        if self.ended or state is None or state.pid is None:
            return
        if start_ticks(state.pid) == state.pid_start:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(state.pid, number)

    def _paths(self) -> dict[str, str]:
        return {"dir": self.folder, "fifo": f"{self.folder}/{OUT}", "log": self.folder + "/log"}

    def _spawn(self, plan: dict[str, Any], lock: int) -> None:
        """Start a shim that holds the lock, and close our copy of the lock."""
        try:
            pidfd, ready = self._shims.start(self.folder, plan, lock)
        except InterruptedError:
            # Whether it started is visible from who holds the lock, after we release it.
            again = partial(self._start_over, plan)
            self._next_look = self._loop.call_soon(self._guarded, again)
        else:
            self._watch(ready, self._shim_told)
            self._watch(pidfd, lambda: self._shim_gone(pidfd))
        finally:
            os.close(lock)

    def _start_over(self, plan: dict[str, Any]) -> None:
        lock = take_lock(self.folder)
        if lock is None or shim_state(self.folder) != self.state:
            if lock is not None:
                os.close(lock)
            self.adopt()
        else:
            self._spawn(plan, lock)

    def _follow_shim(self) -> None:
        """Watch the shim that holds the lock; wait for one that has not written its state yet.

        Until then, the state is absent or names an earlier shim, which is dead.
        """
        state = shim_state(self.folder)
        fd = None if state is None or state.pid is None else _opened(state.shim, state.shim_start)
        if fd is None:
            again = self._loop.call_later(_START_POLL_S, self._guarded, self.adopt)
            self._next_look = again
        else:
            self._watch(fd, lambda: self._shim_gone(fd))
            if state is not None and state.adopted:
                self._await_child(state)
            self._shim_told()

    def _shim_told(self) -> None:
        state = shim_state(self.folder)
        self.state = state or self.state
        if self._stop_at is not None and state is not None and state.finished is None:
            # The run was stopped before it had a process.
            late = self._loop.time() >= self._stop_at
            self._signal(signal.SIGKILL if late else signal.SIGTERM)
        self._on_change()

    def _shim_gone(self, pidfd: int) -> None:
        with contextlib.suppress(
            ChildProcessError
        ):  # It is our child only if the server that forked it died.
            os.waitid(os.P_PIDFD, pidfd, os.WEXITED)
        self.adopt()

    def _adoption(self) -> dict[str, Any] | None:
        """The plan of a shim that replaces a dead one; None if the end of the run is known."""
        state = self.state
        if state is None or state.pid is None or state.finished is not None:
            return None
        settings, same_boot = self.settings(), not self.rebooted
        if same_boot:
            self._await_child(state)
        terminal = _known(terminal=state.terminal, terminalStart=state.terminal_start)
        return {
            **self._paths(),
            "log_bytes": settings.log_bytes,
            "log_files": settings.log_files,
            "adopt": state.pid if same_boot else -1,
            "adopt_start": state.pid_start,
            "started": _known(started=state.started, startedUp=state.started_up),
            "terminal": terminal if same_boot else {},
            "cgroup": settings.cgroup,
            "cookie": f"{COOKIE}={self._cookie}".encode(),
        }

    def _await_child(self, state: ShimState) -> None:
        """Wait for the end of the process if it has become our child."""
        assert state.pid is not None
        if self._child in self._watched:
            return
        fd = _opened(state.pid, state.pid_start)
        if fd is not None:
            self._child = fd
            self._watch(fd, lambda: self._reap(fd))

    def _reap(self, fd: int) -> None:
        with contextlib.suppress(ChildProcessError):
            found = os.waitid(os.P_PIDFD, fd, os.WEXITED | os.WNOHANG)
            if found is not None:
                killed = found.si_code != os.CLD_EXITED
                self.exit_code = 128 + found.si_status if killed else found.si_status

    def _end(self) -> None:
        if self._child in self._watched:
            self._reap(self._child)  # The loop may call us before the watch of the process.
        if self.exit_code is None and self.state is not None:
            self.exit_code = self.state.code
        self._reap_swept()
        self.ended = True
        self.forget()
        self._on_change()

    def _reap_swept(self) -> None:
        """Reap processes that a replacement shim killed, if they became our children."""
        with contextlib.suppress(FileNotFoundError), open(self.folder + "/swept") as file:
            for pid in file.read().split():
                with contextlib.suppress(ChildProcessError):
                    os.waitpid(int(pid), os.WNOHANG)

    def settings(self) -> RunSettings:
        return kept_settings(self.folder)

    @property
    def rebooted(self) -> bool:
        """Whether the machine was restarted after the run began."""
        return self.settings().boot not in ("", boot_id())

    def moments(self, now: float) -> tuple[float | None, float | None]:
        """When the process started and ended, by a clock that shows `now` and does not jump."""
        state = self.state
        if state is None:
            return None, None
        if self.settings().boot != boot_id():
            return state.started, state.finished
        boot = now - uptime()
        times = (state.started_up, state.started), (state.finished_up, state.finished)
        started, finished = (wall if up is None else boot + up for up, wall in times)
        return started, finished

    def _watch(self, fd: int, then: Callable[[], None]) -> None:
        """Call `then` once when the descriptor becomes readable, and close it."""
        self._watched[fd] = then
        self._loop.add_reader(fd, self._fired, fd)

    def _fired(self, fd: int) -> None:
        self._loop.remove_reader(fd)
        then = self._watched.pop(fd)
        try:
            self._guarded(then)
        finally:
            os.close(fd)

    def _guarded(self, call: Callable[[], None]) -> None:
        """Call a callback of the event loop, and keep its exception for the owner."""
        try:
            call()
        except Exception as error:
            self.fault = error
            self._on_change()


def _known(**numbers: float | None) -> dict[str, float]:
    return {name: value for name, value in numbers.items() if value is not None}


def _opened(pid: int, start: int) -> int | None:
    """A pidfd of the process with this start time; None if it is gone or cannot be watched."""
    try:
        fd = os.pidfd_open(pid)
    except (OSError, OverflowError):
        return None
    if start_ticks(pid) == start:
        return fd
    os.close(fd)
    return None
