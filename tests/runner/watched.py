# SPDX-License-Identifier: Apache-2.0
"""Processes that tests start, observe and kill."""

from __future__ import annotations

import asyncio
import os
import select
import signal
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

from hang import HANG_S
from kuota.runner.processes import Launch, Process
from kuota.runner.spawn import ShimStarter

PATH = {"PATH": os.environ["PATH"]}


SHIMS = ShimStarter()


class Watched:
    """A process, and waiting for it to be in some state."""

    def __init__(self, folder: Path) -> None:
        self._changed = asyncio.Event()
        self.process = Process(str(folder), f"test/{folder}", SHIMS, self._changed.set)

    async def until(self, claim: Callable[[Process], bool]) -> Process:
        async with asyncio.timeout(HANG_S):
            while not claim(self.process):
                self._changed.clear()
                await self._changed.wait()
        return self.process

    async def started(self) -> Process:
        return await self.until(lambda p: p.state is not None and p.state.pid is not None)

    async def ended(self) -> Process:
        return await self.until(lambda p: p.ended)


def launch(script: str, **more: object) -> Launch:
    fields = {"argv": ("sh", "-c", script), "env": PATH, "cwd": "/tmp", **more}
    return Launch(**fields)  # type: ignore[arg-type]


def story(work: Callable[[], Coroutine[Any, Any, None]]) -> None:
    asyncio.run(asyncio.wait_for(work(), HANG_S))


def output(folder: Path) -> str:
    """The log without its stamps."""
    return "".join(line[31:] for line in (folder / "log").read_text().splitlines(keepends=True))


async def line_in_log(folder: Path, text: str) -> None:
    """Return once the process has written the text: a handshake, since nobody else tells us."""
    async with asyncio.timeout(HANG_S):
        while not (folder / "log").exists() or text not in (folder / "log").read_text():
            await asyncio.sleep(0.005)


def kill_and_await(pid: int) -> None:
    """Kill a process, and return once it is gone."""
    end = os.pidfd_open(pid)
    os.kill(pid, signal.SIGKILL)
    assert select.select([end], [], [], HANG_S)[0]
    os.close(end)
