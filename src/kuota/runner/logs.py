# SPDX-License-Identifier: Apache-2.0
"""Reads the log of one run, from any line, and follows it while the process runs.

Each line begins with a timestamp of fixed width (see `shim_log`), which is printed or removed here.
Rotated files are read too, oldest first.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import stat
from collections.abc import AsyncGenerator, Iterator
from contextlib import aclosing
from datetime import UTC, datetime
from itertools import count, takewhile

import msgspec

from .directory_watch import DirectoryWatch
from .pod_home import PodHome
from .processes import shim_state
from .shim_log import STAMP_BYTES

_CHUNK = 1 << 16
_LAST = datetime(9999, 12, 31, tzinfo=UTC).timestamp()
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
    """The selected text. A log may have many megabytes, so other tasks run between its pieces."""
    reader, since = _Reader(folder), _Since(query.since)
    if query.tail is not None:
        reader.skip(query.tail)
    for piece in reader.more():
        await asyncio.sleep(0)
        for part in since.selected(piece):
            yield _shown(part, query)
    if query.follow:
        async with aclosing(_added(folder, reader, query)) as pieces:
            async for text in pieces:
                yield text


def follow_log(folder: str) -> AsyncGenerator[bytes, None]:
    """What is added to the log after this call, until the end of the run."""
    reader = _Reader(folder)
    reader.skip()
    return _added(folder, reader, LogQuery())


async def _added(folder: str, reader: _Reader, query: LogQuery) -> AsyncGenerator[bytes, None]:
    """What the reader has not read yet, until the end of the run."""
    with DirectoryWatch(folder) as watch:
        while True:
            # Checked first, because output that precedes the end is read after the check.
            living = _is_alive(folder)
            for added in reader.more():
                yield _shown(added, query)
                await asyncio.sleep(0)
            if not living:
                return
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(watch.changed(), _LONGEST_SILENCE_S)


class _Since:
    """Selects the lines that began at a time or later."""

    def __init__(self, moment: float | None) -> None:
        self._first = None if moment is None else _stamp(moment)
        self._began_in_time = True

    def selected(self, piece: _Piece) -> Iterator[_Piece]:
        """The selected part of the piece, possibly nothing."""
        if self._first is None:
            yield piece
            return
        kept = []
        for at, line in enumerate(_lines(piece.text)):
            if at or not piece.continued:
                self._began_in_time = line[: len(self._first)] >= self._first
            if self._began_in_time:
                kept.append((at, line))
        if kept:
            yield _Piece(b"".join(line for _, line in kept), piece.continued and kept[0][0] == 0)


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
    """The prefix of timestamps of this time. Timestamps sort as text if years have four digits."""
    known = min(max(0.0, moment), _LAST)
    return datetime.fromtimestamp(known, UTC).strftime("%Y-%m-%dT%H:%M:%S.%f").encode()


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
        """Everything that was added since the last call, at the end possibly an incomplete line.

        Long lines come in several pieces. A piece never ends within a timestamp.
        """
        while True:
            if self._file is None and not self._open():
                return
            while chunk := os.read(self._file or 0, _CHUNK):
                text = self._rest + chunk
                begun = text.rfind(b"\n") + 1
                is_shown = len(text) - begun > STAMP_BYTES or (self._continued and not begun)
                end = len(text) if is_shown else begun
                self._rest = text[end:]
                if end:
                    yield self._piece(text[:end])
            if self._is_newest():
                return
            self.close()
            self._continued, self._rest = False, b""  # Each file begins with a timestamp.

    def skip(self, lines: int = 0) -> None:
        """Continue with the last lines of the log; with 0, at its end, possibly within a line."""
        for path in reversed(self._files()):
            file = _regular_file(path)
            if file is None:
                continue
            self.close()
            self._file, self._inode = file, os.fstat(file).st_ino
            start, found = _last_lines(file, lines)
            os.lseek(file, start, os.SEEK_SET)
            lines -= found
            if not lines:
                self._continued = start > 0 and os.pread(file, 1, start - 1) != b"\n"
                return

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


def _last_lines(file: int, lines: int) -> tuple[int, int]:
    """Where the last lines of the file begin, at most as many as wanted, and their number."""
    size = end = os.lseek(file, 0, os.SEEK_END)
    if not size or not lines:
        return size, 0
    found = 0
    while end:
        start = max(0, end - _CHUNK)
        # The last byte of the file ends the last line, and does not begin another one.
        text = os.pread(file, min(end, size - 1) - start, start)
        missing = lines - found
        if text.count(b"\n") < missing:
            found += text.count(b"\n")
            end = start
            continue
        at = len(text)
        for _ in range(missing):
            at = text.rindex(b"\n", 0, at)
        return start + at + 1, lines
    return 0, found + 1


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
