# SPDX-License-Identifier: Apache-2.0
"""Makes writes of the store durable: many wait for one sync of the disk."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable

from .ledger import Ledger, LedgerEntry, encoded
from .store_schema import StoreError, sync_directory


class DiskSync:
    """Syncs the write-ahead log of the SQLite file at `path`, and then writes the ledger.

    `entry` returns the latest state.

    A disk syncs a few hundred times per second, regardless of the amount of data. Writers therefore
    write first and then wait together: those that arrive during a sync share the next one. The sync
    runs in a thread.
    """

    def __init__(self, path: str, ledger: Ledger, entry: Callable[[], LedgerEntry]) -> None:
        self._log = f"{path}-wal"
        self._ledger = ledger
        self._entry = entry
        self._reached = 0
        self._running: asyncio.Task[None] | None = None
        self._fault = ""

    async def synced(self, revision: int) -> None:
        """Wait until all writes up to this revision are on disk.

        Raises StoreError if the disk fails, and from then on always: data of a failed sync may be
        lost even if a later one succeeds.
        """
        while self._reached < revision:
            if self._fault:
                raise StoreError(self._fault)
            if self._running is None:
                self._running = asyncio.create_task(self._sync())
            await asyncio.shield(self._running)

    async def _sync(self) -> None:
        entry = self._entry()
        try:
            await asyncio.to_thread(sync_log, self._log, self._reached == 0)
            self._ledger.write(encoded(entry))
            self._reached = entry.revision
        except Exception as error:
            self._fault = f"{self._log} could not be synced to disk: {error}"
        finally:
            self._running = None


def sync_log(path: str, first: bool) -> None:
    """Sync a write-ahead log, and with `first` its existence too."""
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
