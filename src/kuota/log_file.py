# SPDX-License-Identifier: Apache-2.0
"""Limits the log of a long-running process: lines per cause, size of the file, who can read it."""

from __future__ import annotations

import asyncio
import logging
import os
import shutil
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Never

LINES_PER_PERIOD = 20
PERIOD_S = 60.0
MOST_BYTES = 16 << 20
KEPT_FILES = 3
_CHECK_S = 5.0
_MOST_CAUSES = 1000
_NEW = os.O_WRONLY | os.O_CREAT | os.O_TRUNC


class CauseLimit(logging.Filter):
    """Passes a limited number of messages per cause and minute, and reports how many it dropped.

    The cause is the statement that logs, so a client cannot evade the limit by varying its input.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__()
        self._clock = clock
        self._periods: dict[tuple[str, int], tuple[float, int]] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        cause, now = (record.pathname, record.lineno), self._clock()
        began, count = self._periods.get(cause, (now, 0))
        if now - began >= PERIOD_S:
            dropped = count - LINES_PER_PERIOD
            if dropped > 0:
                text = record.getMessage()
                record.msg, record.args = "%s (%d similar messages were dropped)", (text, dropped)
            began, count = now, 0
        if cause not in self._periods and len(self._periods) >= _MOST_CAUSES:
            self._periods.clear()
        self._periods[cause] = (began, count + 1)
        return count < LINES_PER_PERIOD


def limit_lines() -> None:
    """Limit the lines of each cause on all handlers of this process."""
    limit = CauseLimit()
    for handler in logging.getLogger().handlers:
        handler.addFilter(limit)


def private_log(path: Path) -> int:
    """Open a log for appending. Only its owner can read it, also if it existed before."""
    log = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    os.fchmod(log, 0o600)
    return log


async def keep_rotated(path: Path, descriptor: int = 2) -> Never:
    """Rotate the log while it is what this process writes to. Never returns."""
    while True:
        await asyncio.sleep(_CHECK_S)
        rotate(path, descriptor)


def rotate(path: Path, descriptor: int, most_bytes: int = MOST_BYTES) -> bool:
    """Move the content of a large log to numbered files. False if that is not necessary.

    The file is copied and emptied, because other processes have it open for appending too.
    """
    ours = os.fstat(descriptor)
    try:
        named = path.stat()
    except FileNotFoundError:
        return False
    same = (ours.st_dev, ours.st_ino) == (named.st_dev, named.st_ino)
    if not same or named.st_size <= most_bytes:
        return False
    # If the disk is full, the log is not kept, but it does not grow either.
    with suppress(OSError):
        _keep(path)
    os.truncate(path, 0)
    return True


def _keep(path: Path) -> None:
    """Copy the log to the first numbered file, after moving each of these to the next number."""
    for number in range(KEPT_FILES - 1, 0, -1):
        older = path.with_name(f"{path.name}.{number}")
        if older.exists():
            older.replace(path.with_name(f"{path.name}.{number + 1}"))
    first = os.open(path.with_name(f"{path.name}.1"), _NEW, 0o600)
    with open(path, "rb") as source, open(first, "wb") as copy:
        shutil.copyfileobj(source, copy)
