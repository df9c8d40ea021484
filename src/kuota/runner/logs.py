# SPDX-License-Identifier: Apache-2.0
"""Reads the log of one run, from any line, and follows it while the process runs.

Each line begins with a timestamp of fixed width (see `shim_log`), which is printed or removed here.
Rotated files are read too, oldest first.
"""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import os
import stat
from collections import deque
from collections.abc import AsyncGenerator, Iterator
from contextlib import aclosing
from datetime import UTC, datetime
from itertools import count, takewhile

import msgspec

from .pod_home import PodHome
from .processes import shim_state
from .shim_log import STAMP_BYTES

_MODIFY, _MOVED, _CREATE, _GONE = 0x2, 0x40 | 0x80, 0x100, 0x400 | 0x800
_NONBLOCK, _CLOEXEC = os.O_NONBLOCK, os.O_CLOEXEC
_EVENTS = 1 << 16


class DirectoryWatch:
    """Watches the files of one directory. Close it, or use it in a `with` block."""

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
        """Wait until something has changed since the last call."""
        await self._changed.wait()
        self._changed.clear()

    def _drain(self) -> None:
        os.read(self._fd, _EVENTS)
        self._changed.set()


_CHUNK = 1 << 16
_LONGEST_SILENCE_S = 2.0
"""The interval for detecting an end that changes no file."""


class LogQuery(msgspec.Struct, frozen=True, kw_only=True):
    """The selected part of a log. None means everything; `since` is in seconds since 1970."""

    follow: bool = False
    timestamps: bool = False
    tail: int | None = None
    since: float | None = None
    limit_bytes: int | None = None


def container_log(
    home: PodHome, container: str, query: LogQuery, *, previous: bool = False
) -> AsyncGenerator[bytes, None]:
    """The log of the last run of a container, or of the run before.

    Raises LookupError if there is none. Everything is read from the directory of the pod, so logs
    are available whether or not a runner has started.
    """
    attempts = home.attempts(container)
    if len(attempts) < (2 if previous else 1):
        word = "previous terminated container" if previous else "container"
        raise LookupError(f"{word} {container!r} not found")
    folder = home.run(container, attempts[-2 if previous else -1])
    return read_log(folder, query)


def _is_alive(folder: str) -> bool:
    """Whether the run in the directory is not known to have ended."""
    state = shim_state(folder)
    return state is not None and state.finished is None


async def read_log(folder: str, query: LogQuery) -> AsyncGenerator[bytes, None]:
    """The log of the run in the directory. When followed, it ends with the run."""
    left = query.limit_bytes
    async with aclosing(_text(folder, query)) as pieces:
        async for piece in pieces:
            yield piece[:left]
            if left is not None:
                left -= len(piece)
                if left <= 0:
                    return


async def _text(folder: str, query: LogQuery) -> AsyncGenerator[bytes, None]:
    if not query.follow:
        for piece in _so_far(_Reader(folder), query):
            yield piece
        return
    with DirectoryWatch(folder) as watch:
        reader = _Reader(folder)
        for piece in _so_far(reader, query):
            yield piece
        while True:
            living = _is_alive(
                folder
            )  # Checked first, because output that precedes the end is read after the check.
            for added in reader.more():
                yield _shown(added, query)
            if not living:
                return
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(watch.changed(), _LONGEST_SILENCE_S)


def _so_far(reader: _Reader, query: LogQuery) -> Iterator[bytes]:
    """The current content of the log, from the first selected line."""
    since = None if query.since is None else _stamp(query.since)
    if query.tail is None and since is None:
        for piece in reader.more():
            yield _shown(piece, query)
        return
    kept: deque[bytes] = deque(maxlen=query.tail)
    for piece in reader.more():
        for line in _lines(piece.text):
            if since is None or line[: len(since)] >= since:
                kept.append(line)
    while kept:
        some = [kept.popleft() for _ in range(min(1000, len(kept)))]
        yield _shown(_Piece(b"".join(some)), query)


def _shown(piece: _Piece, query: LogQuery) -> bytes:
    if query.timestamps:
        return piece.text
    first, rest = b"", piece.text
    if piece.continued:
        first, newline, rest = rest.partition(b"\n")
        first += newline
    return first + b"".join(line[STAMP_BYTES:] for line in _lines(rest))


def _lines(text: bytes) -> list[bytes]:
    """Lines with their line endings. Unlike in `splitlines`, a carriage return ends no line."""
    parts = [part + b"\n" for part in text.split(b"\n")]
    last = parts.pop()[:-1]
    return [*parts, last] if last else parts


def _stamp(moment: float) -> bytes:
    """The prefix of timestamps of this time. Timestamps sort as text."""
    return datetime.fromtimestamp(moment, UTC).strftime("%Y-%m-%dT%H:%M:%S.%f").encode()


class _Piece(msgspec.Struct, frozen=True):
    """Some lines. `continued` means that the first one continues a partially printed line."""

    text: bytes
    continued: bool = False


class _Reader:
    """Reads the files of a log in order, and continues where it stopped."""

    def __init__(self, folder: str) -> None:
        self._path = folder + "/log"
        self._file: int | None = None
        self._inode = 0
        self._rest = b""
        self._continued = False

    def more(self) -> Iterator[_Piece]:
        """Everything that was added since the last call, at the end possibly an incomplete line."""
        while True:
            if self._file is None and not self._open():
                break
            while chunk := os.read(self._file or 0, _CHUNK):
                whole, newline, self._rest = (self._rest + chunk).rpartition(b"\n")
                if newline:
                    yield self._piece(whole + newline)
            if self._is_newest():
                break
            self.close()
        if self._continued or len(self._rest) > STAMP_BYTES:
            begun, self._rest = self._rest, b""
            if begun:
                yield self._piece(begun)

    def _piece(self, text: bytes) -> _Piece:
        piece = _Piece(text, self._continued)
        self._continued = not text.endswith(b"\n")
        return piece

    def close(self) -> None:
        if self._file is not None:
            os.close(self._file)
            self._file = None

    def __del__(self) -> None:
        self.close()

    def _files(self) -> list[str]:
        """The files from oldest to newest."""
        older = takewhile(os.path.exists, (f"{self._path}.{number}" for number in count(1)))
        return [*reversed(list(older)), self._path]

    def _open(self) -> bool:
        """Open the file after the last one that was read; at first, the oldest."""
        files = self._files()
        numbers = [_inode(path) for path in files]
        at = numbers.index(self._inode) + 1 if self._inode in numbers else 0
        if at >= len(files) or not numbers[at]:
            return False
        self._file = _regular_file(files[at])
        if self._file is None:
            return False
        self._inode = os.fstat(self._file).st_ino
        return True

    def _is_newest(self) -> bool:
        return _inode(self._path) in (0, self._inode)


def _regular_file(path: str) -> int | None:
    """A descriptor of a log; None for anything else, such as a link or a FIFO.

    If the server is not root, a process can put such a thing in the place of its own log.
    """
    try:
        file = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError:
        return None
    if stat.S_ISREG(os.fstat(file).st_mode):
        return file
    os.close(file)
    return None


def _inode(path: str) -> int:
    try:
        return os.lstat(path).st_ino
    except FileNotFoundError:
        return 0
