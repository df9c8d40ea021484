# SPDX-License-Identifier: Apache-2.0
"""Commands that users run in containers (`kubectl exec`), besides the containers' own processes.

Each has a parent process (`exec_shim`) that ends it with its client, its container or this runner.
A pod is reported as ended, and its devices are released, only after all of its commands have ended.
"""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import marshal
import os
import secrets
import socket
import struct
import sys
import termios
from collections.abc import Iterator

import msgspec

from .descriptors import Descriptor
from .exec_shim import EXITED, NO_CGROUP, PLAN, REJECTED, STDIO
from .proc import sweep
from .processes import COOKIE, Launch
from .spawn import SOURCE, memory_file
from .start_failures import start_failure
from .terminal import DEFAULT_TERM, open_terminal

MARK = "KUOTA_EXEC"
"""Identifies a command in its environment, so that what it left behind can be found."""
_BOOT = f"import sys; sys.path.append({SOURCE!r}); from kuota.runner.exec_shim import main; main()"


class ExecFailed(Exception):
    """The command could not be run, or has no exit code. The message says why."""


class ExecRequest(msgspec.Struct, frozen=True, kw_only=True):
    """The command, and the standard streams that the client wants."""

    container: str
    argv: tuple[str, ...]
    stdin: bool = False
    stdout: bool = False
    stderr: bool = False
    tty: bool = False


class ContainerProcess(msgspec.Struct, frozen=True):
    """The container's own process. A pid with its start time is never reused."""

    pid: int
    start: int
    cookie: str
    started: float
    """In seconds since 1970."""


class ExecSession:
    """One command. `close` ends it and everything that it started."""

    def __init__(self, request: ExecRequest, launch: Launch, container: ContainerProcess) -> None:
        self.stdin: Descriptor | None = None
        self.stdout: Descriptor | None = None
        self.stderr: Descriptor | None = None
        self.ended = asyncio.Event()
        self.container = request.container
        self._request = request
        self._folder = launch.cwd
        self._mark = secrets.token_hex(8)
        self._report = b""
        ours, theirs = socket.socketpair()
        with theirs:
            self._control = Descriptor(ours.detach())
            try:
                self._start(launch, container, theirs.fileno())
            except BaseException:
                self.close()
                raise
        self._reading = asyncio.ensure_future(self._read_report())
        asyncio.get_running_loop().add_reader(self._pidfd, self._reap)

    async def wait(self) -> int:
        """The exit code of the command. Raises ExecFailed if it has none."""
        await self._reading
        kind, _, words = self._report.partition(b" ")
        if kind == EXITED:
            return int(words)
        if kind == REJECTED:
            why, _, stage = words.partition(b" ")
            program = self._request.argv[0]
            raise ExecFailed(start_failure(program, self._folder, int(stage), int(why)))
        if kind == NO_CGROUP:
            raise ExecFailed(f"it cannot enter the pod's cgroup: {os.strerror(int(words))}")
        raise ExecFailed("the container has ended, and the command with it")

    def resize(self, width: int, height: int) -> None:
        """Set the size of the terminal, if the command has one."""
        if self._request.tty and self.stdin is not None:
            with contextlib.suppress(OSError):
                size = struct.pack("4H", height, width, 0, 0)
                fcntl.ioctl(self.stdin.fd, termios.TIOCSWINSZ, size)

    def close_stdin(self) -> None:
        """End the input. A terminal stays open, because it is the output too."""
        if self.stdin is not None and not self._request.tty:
            self.stdin.close()

    def close(self) -> None:
        self._control.close()
        for each in (self.stdin, self.stdout, self.stderr):
            if each is not None:
                each.close()

    def _start(self, launch: Launch, container: ContainerProcess, control: int) -> None:
        with contextlib.ExitStack() as stack:
            stdio = [*self._terminal(stack, launch)] or [*self._pipes(stack, launch)]
            env = {**launch.env, COOKIE: container.cookie, MARK: self._mark}
            if self._request.tty:
                env.setdefault("TERM", DEFAULT_TERM)
            plan = msgspec.structs.asdict(launch) | {
                "argv": self._request.argv,
                "env": env,
                "exec": True,
                "tty": self._request.tty,
                "fifo": "",
                "stdio": tuple(fd >= 0 for fd in stdio),
                "container_pid": container.pid,
                "container_start": container.start,
            }
            source = memory_file(marshal.dumps(plan))
            stack.callback(os.close, source)
            self._spawn(control, source, stdio)

    def _spawn(self, control: int, plan: int, stdio: list[int]) -> None:
        wanted = {0: control, PLAN: plan}
        wanted |= {STDIO + at: fd for at, fd in enumerate(stdio) if fd >= 0}
        # Copies above the numbers that are assigned, so that no assignment overwrites another.
        copies = {at: fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, 16) for at, fd in wanted.items()}
        actions = [(os.POSIX_SPAWN_DUP2, fd, at) for at, fd in copies.items()]
        argv = [sys.executable, "-I", "-S", "-c", _BOOT]
        try:
            pid = os.posix_spawn(sys.executable, argv, {}, file_actions=actions, setsid=True)
        finally:
            for fd in copies.values():
                os.close(fd)
        self.pid = pid
        self._pidfd = os.pidfd_open(pid)

    def _pipes(self, stack: contextlib.ExitStack, launch: Launch) -> Iterator[int]:
        """The command's ends of new pipes; -1 for streams that the client does not want."""
        for name in ("stdin", "stdout", "stderr"):
            if not getattr(self._request, name):
                yield -1
                continue
            reader, writer = os.pipe()
            ours, theirs = (writer, reader) if name == "stdin" else (reader, writer)
            stack.callback(os.close, theirs)
            _give(theirs, launch)
            setattr(self, name, Descriptor(ours))
            yield theirs

    def _terminal(self, stack: contextlib.ExitStack, launch: Launch) -> Iterator[int]:
        """The command's end of a new terminal, for all three streams."""
        if not self._request.tty:
            return
        ours, theirs = open_terminal(launch.uid, launch.gid)
        stack.callback(os.close, theirs)
        # Two descriptors, because each is closed by its own owner.
        self.stdin, self.stdout = Descriptor(os.dup(ours)), Descriptor(ours)
        yield from (theirs, theirs, theirs)

    async def _read_report(self) -> None:
        while piece := await self._control.read():
            self._report += piece

    def _reap(self) -> None:
        asyncio.get_running_loop().remove_reader(self._pidfd)
        found = os.waitid(os.P_PIDFD, self._pidfd, os.WEXITED)
        os.close(self._pidfd)
        if found is None or (found.si_code, found.si_status) != (os.CLD_EXITED, 0):
            # Its parent was killed before it could end what the command had started.
            sweep(f"{MARK}={self._mark}".encode())
        self.ended.set()


def _give(fd: int, launch: Launch) -> None:
    """Let the command open its own streams again, as `/dev/stdout`."""
    if launch.uid is not None:
        os.fchown(fd, launch.uid, launch.gid)


class ExecSessions:
    """The commands that run in one pod."""

    def __init__(self) -> None:
        self._sessions: set[ExecSession] = set()

    def start(
        self, request: ExecRequest, launch: Launch, container: ContainerProcess
    ) -> ExecSession:
        """Start a command. Raises OSError if that is impossible."""
        self._sessions = {each for each in self._sessions if not each.ended.is_set()}
        session = ExecSession(request, launch, container)
        self._sessions.add(session)
        return session

    def pids(self, container: str) -> list[int]:
        """The pids of the parents of all commands in the container."""
        running = (each for each in self._sessions if not each.ended.is_set())
        return [each.pid for each in running if each.container == container]

    def close(self) -> None:
        """End all commands."""
        for each in self._sessions:
            each.close()

    async def end(self) -> None:
        """End all commands, and wait until nothing of them is left."""
        self.close()
        for each in self._sessions:
            await each.ended.wait()
        self._sessions.clear()
