# SPDX-License-Identifier: Apache-2.0
"""Waits until something in a directory changes, without looking again and again."""

from __future__ import annotations

import asyncio
import ctypes
import os

_MODIFY, _MOVED, _CREATE, _GONE = 0x2, 0x40 | 0x80, 0x100, 0x400 | 0x800
_NONBLOCK, _CLOEXEC = os.O_NONBLOCK, os.O_CLOEXEC
_EVENTS = 1 << 16


class DirectoryWatch:
    """Changes of files in one directory. Close it, or use it in a `with` block."""

    def __init__(self, folder: str) -> None:
        libc = ctypes.CDLL(None, use_errno=True)
        self._fd: int = libc.inotify_init1(_NONBLOCK | _CLOEXEC)
        if self._fd < 0:
            raise OSError(ctypes.get_errno(), "inotify")
        mask = _MODIFY | _MOVED | _CREATE | _GONE
        if libc.inotify_add_watch(self._fd, os.fsencode(folder), mask) < 0:
            os.close(self._fd)
            raise OSError(ctypes.get_errno(), folder)
        self._changed = asyncio.Event()
        asyncio.get_running_loop().add_reader(self._fd, self._drain)

    def __enter__(self) -> DirectoryWatch:
        return self

    def __exit__(self, *_: object) -> None:
        asyncio.get_running_loop().remove_reader(self._fd)
        os.close(self._fd)

    async def changed(self) -> None:
        """Return when something has changed since this was last called."""
        await self._changed.wait()
        self._changed.clear()

    def _drain(self) -> None:
        os.read(self._fd, _EVENTS)
        self._changed.set()
