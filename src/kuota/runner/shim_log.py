# SPDX-License-Identifier: Apache-2.0
"""The log of one run: lines with timestamps, in files that are rotated by size.

`log` is the newest file, `log.1` the previous one. Used by the shim, so it imports almost nothing.
"""

from __future__ import annotations

import os
import time
from io import FileIO

STAMP_BYTES = 31


class Log:
    """A log file whose lines begin with a timestamp of fixed width, and its rotated files."""

    def __init__(self, path: str, limit_bytes: int, files: int) -> None:
        self._path, self._limit, self._files = path, limit_bytes, files
        self._file: FileIO | None = None
        self._size = 0
        self._fresh_line = True

    def write(self, chunk: bytes) -> None:
        """Append output. The timestamp of a line is the time of its first byte.

        Raises OSError if the disk is full. The output is then lost; a later call may succeed.
        """
        if self._file is None:
            self._file = FileIO(self._path, "a+b", opener=_opened)
            self._size = os.fstat(self._file.fileno()).st_size
            if self._size:  # A killed shim may have written the beginning of a line.
                self._fresh_line = os.pread(self._file.fileno(), 1, self._size - 1) == b"\n"
        if self._size >= self._limit:
            # A line is not split between files unless it is longer than a file may be.
            rest = b"" if self._fresh_line else chunk[: chunk.find(b"\n") + 1]
            if rest:
                self._append(rest)
                chunk = chunk[len(rest) :]
            if self._fresh_line or self._size >= 2 * self._limit:
                self._rotate()
        if chunk:
            self._append(chunk)

    def _append(self, chunk: bytes) -> None:
        stamp = _stamp()
        text = chunk.replace(b"\n", b"\n" + stamp)
        ends = chunk.endswith(b"\n")
        if ends:
            text = text[: -len(stamp)]
        if self._fresh_line:
            text = stamp + text
        assert self._file is not None
        written = self._file.write(text)
        self._fresh_line = ends and written == len(text)
        self._size += written

    def _rotate(self) -> None:
        for number in range(self._files - 1, 0, -1):
            older = f"{self._path}.{number}"
            newer = f"{self._path}.{number - 1}" if number > 1 else self._path
            try:
                os.rename(newer, older)
            except FileNotFoundError:
                continue
        if self._file is not None:
            self._file.close()
        self._file = None  # If the next line fails, the next write opens it.
        self._file = FileIO(self._path, "wb", opener=_opened)
        self._size = 0
        self._fresh_line = True


def _opened(path: str, flags: int) -> int:
    """Open a private file, and not where a link leads."""
    return os.open(path, flags | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)


def _stamp() -> bytes:
    seconds, rest = divmod(time.time_ns(), 1_000_000_000)
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(seconds)).encode() + b".%09dZ " % rest
