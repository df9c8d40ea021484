# SPDX-License-Identifier: Apache-2.0
"""Has the files of a pod created by a process of its user, and reports why that failed."""

from __future__ import annotations

import asyncio
import contextlib
import marshal
import os
import signal
from typing import Any

from .container_env import LaunchError
from .spawn import ShimStarter

_TIMEOUT_S = 60.0
_WAITS = "ContainerCreating"
_CHUNK = 1 << 16


async def create_files(shims: ShimStarter, plan: dict[str, Any]) -> None:
    """Create the files of a pod as its user (see `pod_files`). Raises LaunchError."""
    try:
        process, result = shims.create_files(plan)
    except InterruptedError as error:
        raise LaunchError(_WAITS, str(error)) from None
    try:
        async with asyncio.timeout(_TIMEOUT_S):
            answer = await _whole(result)
    except TimeoutError:
        message = f"a file system does not respond: no volumes after {_TIMEOUT_S:.0f} s"
        raise LaunchError(_WAITS, message) from None
    finally:
        with contextlib.suppress(ProcessLookupError):
            signal.pidfd_send_signal(process, signal.SIGKILL)
        os.close(process)
        os.close(result)
    if not answer:
        raise LaunchError(_WAITS, "the process that creates the volumes was killed")
    message, permanent = marshal.loads(answer)
    if message:
        reason = "StartError" if permanent else _WAITS
        raise LaunchError(reason, message, permanent=permanent)


async def _whole(fd: int) -> bytes:
    """Everything that is written to the pipe until it is closed."""
    loop, ready = asyncio.get_running_loop(), asyncio.Event()
    parts: list[bytes] = []
    os.set_blocking(fd, False)
    loop.add_reader(fd, ready.set)
    try:
        while True:
            await ready.wait()
            ready.clear()
            try:
                part = os.read(fd, _CHUNK)
            except BlockingIOError:
                continue
            if not part:
                return b"".join(parts)
            parts.append(part)
    finally:
        loop.remove_reader(fd)
