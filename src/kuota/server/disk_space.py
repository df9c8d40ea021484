# SPDX-License-Identifier: Apache-2.0
"""Keeps room on the disk of the store for deletions, which are how a full disk is emptied.

When little is free, the store rejects all other writes. If even a deletion does not fit, the space
of a reserve file is given to the write-ahead log at once, before another program takes it. The
reserve is allocated again when there is space.
"""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

LOW_BYTES = 4 << 20
"""With less than this, only deletions are written."""
RESERVE_BYTES = 8 << 20
"""Some hundred deletions, even if the log cannot be moved into the store meanwhile."""


class DiskSpace:
    """The free space on the disk of a store, and its reserve."""

    def __init__(self, store: str) -> None:
        self._folder = os.path.dirname(os.path.abspath(store))
        self._reserve = f"{store}.reserve"
        self._log = f"{store}-wal"
        self._reserved = os.path.exists(self._reserve)

    def shortage(self) -> str:
        """Why only deletions may be written, in words; "" if everything may."""
        disk = os.statvfs(self._folder)
        if disk.f_flag & os.ST_RDONLY:
            return f"the file system of {self._folder} is read-only"
        free = disk.f_bavail * disk.f_frsize
        # Some file systems do not know their size.
        if disk.f_blocks and free < LOW_BYTES:
            return f"the disk of {self._folder} is full"
        if not self._reserved and free > 4 * RESERVE_BYTES:
            self._allocate()
        return ""

    def release(self) -> bool:
        """Give the space of the reserve to the log. False if there is none."""
        if not self._reserved:
            return False
        self._reserved = False
        try:
            Path(self._reserve).unlink()
            descriptor = os.open(self._log, os.O_RDWR | os.O_CLOEXEC)
        except OSError:
            return False
        try:
            # The log ignores everything after its last valid entry.
            os.posix_fallocate(descriptor, os.fstat(descriptor).st_size, RESERVE_BYTES)
        except OSError:
            return True  # Another program was faster, or the file system cannot do this.
        finally:
            os.close(descriptor)
        return True

    def _allocate(self) -> None:
        self._reserved = True  # Once: what fails now is not tried again by every write.
        flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC
        with suppress(OSError):
            descriptor = os.open(self._reserve, flags, 0o600)
            try:
                os.posix_fallocate(descriptor, 0, RESERVE_BYTES)
            finally:
                os.close(descriptor)
