# SPDX-License-Identifier: Apache-2.0
"""Connects the API server's exec, attach and port-forward to the processes of the runner."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
from collections.abc import AsyncIterator, Callable
from contextlib import aclosing

from kuota.api.base import Json
from kuota.api.core import containers
from kuota.runner.descriptors import Descriptor
from kuota.runner.exec import ExecFailed, ExecRequest, ExecSession
from kuota.runner.logs import follow_log
from kuota.runner.pod_home import PodHome
from kuota.runner.pod_sockets import connect_to_pod
from kuota.runner.pod_worker import PodWorker
from kuota.runner.proc import start_ticks
from kuota.runner.processes import shim_state
from kuota.runner.terminal import IN, SIZE, size_message
from kuota.server.streaming.port_forward import Connection
from kuota.server.streaming.remote_command import (
    STDOUT,
    CommandFailed,
    CommandOptions,
    RemoteProcess,
    TerminalSize,
)


class MachineProcesses:
    """A `kuota.server.streaming.pod_sessions.PodProcesses` for the pods of this machine.

    `worker` returns the worker of a pod by uid, or None if it does not run here.
    """

    def __init__(self, worker: Callable[[str], PodWorker | None]) -> None:
        self._worker = worker

    async def exec(self, pod: Json, options: CommandOptions) -> RemoteProcess:
        request = ExecRequest(
            container=options.container,
            argv=options.command,
            stdin=options.stdin,
            stdout=options.stdout,
            stderr=options.stderr,
            tty=options.tty,
        )
        worker = self._found(pod)
        if worker is None:
            raise CommandFailed("the pod has no processes on this machine")
        try:
            return ExecProcess(await worker.exec(request))
        except (ExecFailed, OSError) as error:
            raise CommandFailed(str(error)) from None

    async def attach(self, pod: Json, options: CommandOptions) -> RemoteProcess:
        worker = self._found(pod)
        if worker is None or worker.process(options.container) is None:
            raise CommandFailed(f"container {options.container!r} is not running")
        container = next(
            each for each in containers(pod["spec"]) if each["name"] == options.container
        )
        if options.stdin and not container.get("stdin"):
            raise CommandFailed(
                f"container {options.container!r} has no standard input to attach to; set "
                "`stdin: true` in the container, or use `kubectl exec -i` to run another command"
            )
        return AttachedProcess(worker.home, container, options)

    async def connect(self, pod: Json, port: int) -> Connection:
        worker = self._found(pod)
        if worker is None:
            raise ConnectionRefusedError("the pod has no processes on this machine")
        try:
            return await connect_to_pod(worker.pids, port)
        except TimeoutError:
            raise ConnectionRefusedError(f"port {port} accepts no connections") from None
        except OSError as error:
            raise ConnectionRefusedError(str(error)) from None

    def _found(self, pod: Json) -> PodWorker | None:
        return self._worker(pod["metadata"]["uid"])


class ExecProcess:
    """A command as a `RemoteProcess`."""

    def __init__(self, session: ExecSession) -> None:
        self._session = session

    async def output(self, channel: int) -> AsyncIterator[bytes]:
        source = self._session.stdout if channel == STDOUT else self._session.stderr
        while source is not None and (piece := await source.read()):
            yield piece

    async def write_stdin(self, content: bytes) -> None:
        if self._session.stdin is not None:
            await self._session.stdin.write(content)

    def close_stdin(self) -> None:
        self._session.close_stdin()

    def resize(self, size: TerminalSize) -> None:
        self._session.resize(size.width, size.height)

    async def wait(self) -> int:
        try:
            return await self._session.wait()
        except ExecFailed as error:
            raise CommandFailed(str(error)) from None

    def close(self) -> None:
        self._session.close()


class AttachedProcess:
    """The running process of a container as a `RemoteProcess`: its output from now on.

    A process writes its output and its errors to one log, so there is only one output.
    """

    def __init__(self, home: PodHome, container: Json, options: CommandOptions) -> None:
        self._folder = home.run(options.container, home.attempts(options.container)[-1])
        # The input of a terminal does not end: its users end it with a character.
        self._once = bool(container.get("stdinOnce")) and not container.get("tty")
        self._ended = asyncio.Event()
        self._log = follow_log(self._folder)
        self._stdin = _opened(f"{self._folder}/{IN}") if options.stdin else None
        self._sizes = _opened(f"{self._folder}/{SIZE}") if container.get("tty") else None
        self._wants_output = options.stdout

    async def output(self, channel: int) -> AsyncIterator[bytes]:
        if channel == STDOUT:
            async with aclosing(self._log) as pieces:
                async for piece in pieces:
                    yield piece
            self._ended.set()

    async def write_stdin(self, content: bytes) -> None:
        if self._stdin is not None:
            await self._stdin.write(content)

    def close_stdin(self) -> None:
        """End the input of a container with `stdinOnce`; others wait for the next client."""
        if self._stdin is not None:
            self._stdin.close()
            self._stdin = None
            if self._once:
                _end_stdin(self._folder)

    def resize(self, size: TerminalSize) -> None:
        """Set the size of the terminal, if the container has one."""
        if self._sizes is not None:
            # If many are waiting to be applied, this one is not needed either.
            with contextlib.suppress(OSError):
                os.write(self._sizes.fd, size_message(size.width, size.height))

    async def wait(self) -> int:
        """Wait for the end of the container. Its exit code is in the status of the pod."""
        if not self._wants_output:
            async for _ in self.output(STDOUT):
                pass
        await self._ended.wait()
        return 0

    def close(self) -> None:
        self.close_stdin()
        if self._sizes is not None:
            self._sizes.close()


def _opened(fifo: str) -> Descriptor | None:
    """The writing end of a FIFO; None if nobody reads it any more."""
    try:
        return Descriptor(os.open(fifo, os.O_WRONLY | os.O_NONBLOCK | os.O_NOFOLLOW))
    except OSError:
        return None


def _end_stdin(folder: str) -> None:
    """Have the parent of the container's process close the standard input."""
    state = shim_state(folder)
    if state is not None and start_ticks(state.shim) == state.shim_start:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(state.shim, signal.SIGUSR1)
