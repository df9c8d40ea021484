# SPDX-License-Identifier: Apache-2.0
"""The open file of a store: checks it, writes transactions, and maintains ledger and reserve."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Sequence

from . import store_schema as schema
from .changes import Change
from .disk_space import DiskSpace
from .ledger import Ledger, LedgerEntry, encoded, stored_totals
from .store_check import check_complete
from .store_schema import MEMORY, DataLost, Durability, NoSpace, StoreError
from .store_sync import DiskSync, sync_log

Statement = tuple[str, tuple[object, ...]]


class StoreFile:
    """The connection to the file. ":memory:" has neither lock nor ledger nor reserve.

    `revision` is the latest one; report each change with `changed`.
    """

    def __init__(
        self, path: str, connection: sqlite3.Connection, lock: int | None, durability: Durability
    ) -> None:
        self.path = path
        self.db = connection
        self.compacted = self._number(schema.COMPACTED)
        self.revision = max(self.compacted, self._number(schema.NEWEST))
        self._lock = lock
        self._totals = stored_totals(connection)
        self._ledger: Ledger | None = None
        self._space: DiskSpace | None = None
        self._sync: DiskSync | None = None
        if path != MEMORY:
            self._space = DiskSpace(path)
            self._ledger = Ledger(path)
            sync_log(f"{path}-wal", True)  # A killed process may have left it in memory only.
            self._ledger.open(self._entry())
            if durability is Durability.NORMAL:
                self._sync = DiskSync(path, self._ledger, self._entry)

    @classmethod
    def open(cls, path: str, durability: Durability, accept_loss: bool) -> StoreFile:
        """Raises TooNew, InUse, Damaged, DataLost, StoreError, OSError."""
        if path == MEMORY:
            return cls(path, schema.connected(path, durability), None, durability)
        lock = schema.locked(path)
        try:
            least = _accepted_revision(path) if accept_loss else 0
            if not least:
                check_complete(path, Ledger(path))
            connection = schema.connected(path, durability)
            if least:
                schema.raise_revision(connection, least)
            return cls(path, connection, lock, durability)
        except BaseException:
            os.close(lock)
            raise

    def close(self) -> None:
        self.db.close()
        if self._ledger is not None:
            # Closing has moved everything into the file and synced it.
            self._ledger.write(encoded(self._entry()))
            self._ledger.close()
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

    async def synced(self) -> None:
        """Wait until all previous writes are on disk. See `Store.synced`."""
        if self._sync is not None:
            await self._sync.synced(self.revision)

    def changed(self, change: Change) -> None:
        """Record a change that was written."""
        self.revision = change.revision
        body = None if change.type == "DELETED" else change.body
        self._totals.change(change.resource, change.replaced, body)
        if self._ledger is not None and self._sync is None:
            self._ledger.write(encoded(self._entry()))

    def transact(self, *statements: Statement, deletes: bool) -> None:
        """Execute all statements in one transaction.

        On a full disk, only a deletion is written, if necessary with the reserve of the disk.
        Raises StoreError, NoSpace.
        """
        if not deletes and self._space is not None and (why := self._space.shortage()):
            raise _no_space(why)
        try:
            self._attempt(statements)
        except NoSpace:
            if not deletes or self._space is None or not self._space.release():
                raise
            self._attempt(statements)

    def _attempt(self, statements: Sequence[Statement]) -> None:
        try:
            self.db.execute("BEGIN IMMEDIATE")
            for statement, values in statements:
                self.db.execute(statement, values)
            self.db.execute("COMMIT")
        except BaseException as error:
            if self.db.in_transaction:
                self.db.execute("ROLLBACK")
            if isinstance(error, sqlite3.Error):
                raise self._failure(error) from error
            raise

    def _failure(self, error: sqlite3.Error) -> StoreError:
        code = getattr(error, "sqlite_errorcode", 0) & 0xFF
        if code == sqlite3.SQLITE_FULL:
            return _no_space(f"the disk of {self.path} is full")
        if code in (sqlite3.SQLITE_READONLY, sqlite3.SQLITE_IOERR, sqlite3.SQLITE_CANTOPEN):
            why = self._space.shortage() if self._space is not None else ""
            return _no_space(why or f"the disk of {self.path} cannot be written: {error}")
        return StoreError(f"{self.path}: nothing was written: {error}")

    def _entry(self) -> LedgerEntry:
        return self._totals.entry(self.revision)

    def _number(self, query: str) -> int:
        return int(self.db.execute(query).fetchone()[0])


def _accepted_revision(path: str) -> int:
    """The revision from which a store with missing objects continues; 0 if it is complete.

    No client has seen it, so everyone lists again.
    """
    ledger = Ledger(path)
    try:
        check_complete(path, ledger)
    except DataLost:
        entry = ledger.latest()
        return schema.RESTORE_GAP + (0 if entry is None else entry.revision)
    return 0


def _no_space(why: str) -> NoSpace:
    remedy = "Free space or repair the disk. On a full disk, objects can still be deleted"
    return NoSpace(f"nothing was written: {why}. {remedy}")
