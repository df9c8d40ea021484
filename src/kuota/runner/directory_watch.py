# SPDX-License-Identifier: Apache-2.0
"""Tells followers of logs when a file of a directory changes.

All of them share one inotify instance: a Unix user may have 128, and a member may follow as many
logs, which would deprive other members and all other programs of the server's user.
"""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import os
import struct

_MODIFY, _MOVED, _CREATE, _GONE = 0x2, 0x40 | 0x80, 0x100, 0x400 | 0x800
_EVENTS = 1 << 16
_EVENT = struct.Struct("iIII")
_OVERFLOW = -1


class DirectoryWatch:
    """Watches the files of one directory. Use it in a `with` block.

    If the kernel permits no more watches, nothing is reported, so callers look from time to time.
    """

    def __init__(self, folder: str) -> None:
        self._folder = folder
        self._changed = asyncio.Event()
        self._inotify: _Inotify | None = None
        self._number = 0

    def __enter__(self) -> DirectoryWatch:
        with contextlib.suppress(OSError):
            self._inotify = _Inotify.shared()
            self._number = self._inotify.add(self._folder, self._changed)
        return self

    def __exit__(self, *_: object) -> None:
        if self._inotify is not None:
            self._inotify.remove(self._number, self._changed)

    async def changed(self) -> None:
        """Wait until something has changed since the last call."""
        await self._changed.wait()
        self._changed.clear()


class _Inotify:
    """The inotify instance of an event loop. It exists while a directory is watched."""

    _open: dict[asyncio.AbstractEventLoop, _Inotify] = {}

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._libc = ctypes.CDLL(None, use_errno=True)
        self._fd: int = self._libc.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC)
        if self._fd < 0:
            raise OSError(ctypes.get_errno(), "inotify")
        self._loop = loop
        self._watchers: dict[int, set[asyncio.Event]] = {}
        loop.add_reader(self._fd, self._drain)
        self._open[loop] = self

    @classmethod
    def shared(cls) -> _Inotify:
        """The instance of the running event loop. Raises OSError."""
        loop = asyncio.get_running_loop()
        return cls._open.get(loop) or cls(loop)

    def add(self, folder: str, changed: asyncio.Event) -> int:
        """Set the event whenever a file of the directory changes. Returns the watch."""
        mask = _MODIFY | _MOVED | _CREATE | _GONE
        number: int = self._libc.inotify_add_watch(self._fd, os.fsencode(folder), mask)
        self._watchers.setdefault(number, set()).add(changed)
        return number

    def remove(self, number: int, changed: asyncio.Event) -> None:
        """Undo `add`. The last call closes the instance."""
        watchers = self._watchers[number]
        watchers.discard(changed)
        if not watchers:
            del self._watchers[number]
            self._libc.inotify_rm_watch(self._fd, number)
        if not self._watchers:
            self._loop.remove_reader(self._fd)
            os.close(self._fd)
            del self._open[self._loop]

    def _drain(self) -> None:
        """Wake those whose directories have changed; all of them if the kernel lost count."""
        content, at, numbers = os.read(self._fd, _EVENTS), 0, set()
        while at < len(content):
            number, _, _, length = _EVENT.unpack_from(content, at)
            numbers.add(number)
            at += _EVENT.size + length
        for number in self._watchers if _OVERFLOW in numbers else numbers & self._watchers.keys():
            for changed in self._watchers[number]:
                changed.set()
