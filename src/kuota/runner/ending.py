# SPDX-License-Identifier: Apache-2.0
"""Ends everything that runs below a state directory, without any server: for good-bye."""

from __future__ import annotations

import asyncio
import os

from .pod_home import homes
from .processes import Process
from .spawn import ShimStarter


async def end_all(state_dir: str, grace_s: float = 10) -> int:
    """TERM, then KILL after the grace, to every run. Returns how many there were.

    No runner may be at work in the directory.
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
    """The folder of every run, with the word that marks its processes."""
    found = []
    for uid in homes(state_dir + "/pods"):
        runs = f"{state_dir}/pods/{uid}/runs"
        for container in sorted(os.listdir(runs)) if os.path.isdir(runs) else ():
            for attempt in sorted(os.listdir(f"{runs}/{container}")):
                found.append((f"{runs}/{container}/{attempt}", f"{uid}/{container}/{attempt}"))
    return found
