# SPDX-License-Identifier: Apache-2.0
"""Runs a command for a client: copies its streams, and reports how it ended.

The client is on one side (`CommandStreams`: WebSocket or SPDY), the process of a pod on the other
(`RemoteProcess`: a new one for exec, the container's own for attach).
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import suppress
from typing import Protocol

import msgspec

from kuota.api.base import Json

STDOUT, STDERR = 1, 2
V5, V4 = "v5.channel.k8s.io", "v4.channel.k8s.io"
"""The versions of the protocol. With version 5, a client can end the input of a command."""
LONGEST_SIZE_MESSAGE = 4096


class CommandOptions(msgspec.Struct, frozen=True, kw_only=True):
    """What the client asks for. `stderr` is never set together with `tty`."""

    container: str
    command: tuple[str, ...] = ()
    stdin: bool = False
    stdout: bool = False
    stderr: bool = False
    tty: bool = False


class TerminalSize(msgspec.Struct, frozen=True, rename="pascal"):
    """The size of the client's terminal, in characters."""

    width: int = 0
    height: int = 0


class CommandStreams(Protocol):
    """The streams of one client."""

    async def read_stdin(self) -> bytes:
        """The next input; b"" after the client has closed it."""

    async def read_size(self) -> TerminalSize | None:
        """The next size of the terminal; None if no more will come."""

    async def write(self, channel: int, content: bytes) -> None:
        """Send output on STDOUT or STDERR. Raises Disconnected."""

    async def conclude(self, status: Json) -> None:
        """Tell the client how the command ended, and finish all streams. Raises Disconnected."""


class CommandFailed(Exception):
    """The command could not be started, or was ended. The message says why and what to do."""


class RemoteProcess(Protocol):
    """A process of a pod, from the client's point of view."""

    def output(self, channel: int) -> AsyncIterator[bytes]:
        """What the process writes to STDOUT or STDERR, until the end."""

    async def write_stdin(self, content: bytes) -> None:
        """Pass input to the process. Input that nobody reads any more is dropped."""

    def close_stdin(self) -> None:
        """End the input of the process."""

    def resize(self, size: TerminalSize) -> None:
        """Set the size of its terminal, if it has one."""

    async def wait(self) -> int:
        """The exit code. Raises CommandFailed if there is none."""

    def close(self) -> None:
        """Release the process when the client is gone. Exec ends it; attach leaves it running."""


async def serve_command(
    streams: CommandStreams, process: RemoteProcess, options: CommandOptions
) -> None:
    """Copy the streams until the process ends, and report its end. Raises Disconnected."""
    inputs = [asyncio.ensure_future(_sizes(streams, process))] if options.tty else []
    if options.stdin:
        inputs.append(asyncio.ensure_future(_stdin(streams, process)))
    try:
        await _outputs(streams, process, options)
        await streams.conclude(await _ending(process))
    finally:
        for each in inputs:
            each.cancel()
        await asyncio.gather(*inputs, return_exceptions=True)
        process.close()


async def _outputs(
    streams: CommandStreams, process: RemoteProcess, options: CommandOptions
) -> None:
    wanted = [(STDOUT, options.stdout), (STDERR, options.stderr)]
    async with asyncio.TaskGroup() as group:
        for channel, is_wanted in wanted:
            if is_wanted:
                group.create_task(_output(streams, process, channel))


async def _output(streams: CommandStreams, process: RemoteProcess, channel: int) -> None:
    async for piece in process.output(channel):
        await streams.write(channel, piece)


async def _stdin(streams: CommandStreams, process: RemoteProcess) -> None:
    while piece := await streams.read_stdin():
        await process.write_stdin(piece)
    process.close_stdin()


async def _sizes(streams: CommandStreams, process: RemoteProcess) -> None:
    while (size := await streams.read_size()) is not None:
        process.resize(size)


async def _ending(process: RemoteProcess) -> Json:
    try:
        return ending(await process.wait())
    except CommandFailed as error:
        return failure(str(error))


def ending(code: int) -> Json:
    """The Status for an exit code, as kubectl expects it."""
    if code == 0:
        return {"metadata": {}, "status": "Success"}
    return {
        "metadata": {},
        "status": "Failure",
        "reason": "NonZeroExitCode",
        "message": f"command terminated with non-zero exit code: exit status {code}",
        "details": {"causes": [{"reason": "ExitCode", "message": str(code)}]},
    }


def failure(message: str) -> Json:
    """The Status for a command that has no exit code."""
    return {
        "metadata": {},
        "status": "Failure",
        "reason": "InternalError",
        "message": message,
        "code": 500,
    }


class SizeDecoder:
    """Decodes terminal sizes from a stream of JSON objects. Malformed ones are ignored."""

    def __init__(self) -> None:
        self._rest = b""

    def feed(self, content: bytes) -> list[TerminalSize]:
        """The sizes that are complete with this content. Clients send one object at a time."""
        *whole, self._rest = (self._rest + content).replace(b"}", b"}\n").split(b"\n")
        self._rest = self._rest[-LONGEST_SIZE_MESSAGE:]
        found = []
        for each in whole:
            with suppress(msgspec.DecodeError):
                size = msgspec.json.decode(each, type=TerminalSize)
                if 0 < size.width <= 0xFFFF and 0 < size.height <= 0xFFFF:
                    found.append(size)
        return found
