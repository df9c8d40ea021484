# SPDX-License-Identifier: Apache-2.0
"""Says when the store's writes are on disk, for many writers with one sync of the disk.

A disk syncs a few hundred times a second, however much it is given. So writers write, and then wait
together: whoever comes while a sync is under way shares the next one. The sync runs in a thread.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable

from .store_schema import StoreError, sync_directory


class DiskSync:
    """Syncs the write-ahead log of the SQLite file at `path`. `revision` is the latest written."""

    def __init__(self, path: str, revision: Callable[[], int]) -> None:
        self._log = f"{path}-wal"
        self._revision = revision
        self._reached = 0
        self._running: asyncio.Task[None] | None = None
        self._fault = ""

    async def synced(self) -> None:
        """Return when all that was written before this call is on disk.

        Raises StoreError if the disk fails, and then always: what a failed sync was to write may
        be lost although a later one succeeds.
        """
        wanted = self._revision()
        while self._reached < wanted:
            if self._fault:
                raise StoreError(self._fault)
            if self._running is None:
                self._running = asyncio.create_task(self._sync())
            await asyncio.shield(self._running)

    async def _sync(self) -> None:
        written = self._revision()
        try:
            await asyncio.to_thread(_sync_log, self._log, self._reached == 0)
            self._reached = written
        except Exception as error:
            self._fault = f"{self._log} could not be put on disk: {error}"
        finally:
            self._running = None


def _sync_log(path: str, first: bool) -> None:
    try:
        descriptor = os.open(path, os.O_RDONLY)
    except FileNotFoundError:  # the store was closed meanwhile, which leaves all of it on disk
        return
    try:
        os.fdatasync(descriptor)
    finally:
        os.close(descriptor)
    if first:
        sync_directory(path)
