# SPDX-License-Identifier: Apache-2.0
"""The ledger of a store: a small file that states what the store must at least contain.

SQLite recovers silently from a truncated or missing write-ahead log, and an empty file is a valid
database: both lose changes that clients were told are stored. The ledger contains the last
acknowledged revision, the number of objects of each resource, and a checksum of all objects, so
that the next start notices.

The ledger is written after the change is on disk and before the change is acknowledged. It is never
ahead of the store, so neither a killed process nor a power failure causes a false alarm. It is
not synced: a power failure can leave an earlier entry, which claims less. Two slots in separate
blocks are written in turn, so that one of them is always complete.
"""

from __future__ import annotations

import logging
import os
import sqlite3
import zlib
from collections import Counter

import msgspec

from . import store_schema as schema

LOG = logging.getLogger(__name__)
_SLOT = 16384
_MASK = (1 << 64) - 1
_OTHER = "(all)"


class LedgerEntry(msgspec.Struct, frozen=True):
    """The totals of a store at one revision. `objects` is the number of each resource."""

    revision: int
    objects: dict[str, int]
    checksum: int

    @property
    def count(self) -> int:
        return sum(self.objects.values())


class Totals:
    """Counts objects and maintains the checksum, which does not depend on their order."""

    def __init__(self) -> None:
        self._objects: Counter[str] = Counter()
        self._checksum = 0

    def add(self, resource: str, body: bytes) -> None:
        self._objects[resource] += 1
        self._checksum += _checksum(resource, body)

    def remove(self, resource: str, body: bytes) -> None:
        self._objects[resource] -= 1
        self._checksum -= _checksum(resource, body)

    def change(self, resource: str, replaced: bytes | None, body: bytes | None) -> None:
        """Apply a change: `replaced` is None for a new object, `body` for a deleted one."""
        if replaced is not None:
            self.remove(resource, replaced)
        if body is not None:
            self.add(resource, body)

    def entry(self, revision: int) -> LedgerEntry:
        return LedgerEntry(revision, dict(+self._objects), self._checksum & _MASK)


class Ledger:
    """The file. It is created by the first entry; `latest` is None without a valid one."""

    def __init__(self, store: str) -> None:
        self.path = f"{store}.ledger"
        self._fd: int | None = None
        self._slot = 0

    def latest(self) -> LedgerEntry | None:
        """The newest valid entry. Raises OSError."""
        if not self.exists:
            return None
        found = [each for each in self._entries() if each is not None]
        return max(found, key=lambda each: each.revision, default=None)

    def _entries(self) -> tuple[LedgerEntry | None, LedgerEntry | None]:
        """The entries of both slots; None for one that is not valid."""
        with open(self.path, "rb") as file:
            return _decoded(file.read(_SLOT)), _decoded(file.read(_SLOT))

    @property
    def exists(self) -> bool:
        return os.path.exists(self.path)

    def open(self, entry: LedgerEntry) -> None:
        """Start with an entry that is on disk when this returns. Raises OSError.

        It replaces the older entry of an existing file.
        """
        if self.exists:
            first, second = self._entries()
            self._slot = 1 if first is not None and _is_newer(first, second) else 0
            self._fd = os.open(self.path, os.O_RDWR | os.O_CLOEXEC)
            self.write(encoded(entry))
            os.fsync(self._fd)
            return
        # It appears with its first entry, because one without any counts as damaged.
        fresh = f"{self.path}.new"
        flags = os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC
        self._fd = os.open(fresh, flags, 0o600)
        self.write(encoded(entry))
        os.fsync(self._fd)
        os.replace(fresh, self.path)
        schema.sync_directory(self.path)

    def write(self, record: bytes) -> None:
        """Replace the older entry.

        A failure is only logged: the ledger then claims less than it could.
        """
        if self._fd is None:
            return
        try:
            os.pwrite(self._fd, record, self._slot * _SLOT)
        except OSError as error:
            LOG.warning("%s: %s", self.path, error.strerror)
        else:
            self._slot = 1 - self._slot

    def close(self) -> None:
        if self._fd is not None:
            os.close(self._fd)
            self._fd = None


def encoded(entry: LedgerEntry) -> bytes:
    """The record of an entry, padded to the size of a slot."""
    text = msgspec.json.encode(entry)
    if len(text) > _SLOT // 2:  # There are very many custom resources.
        text = msgspec.json.encode(
            LedgerEntry(entry.revision, {_OTHER: entry.count}, entry.checksum)
        )
    return b"%08x %s\n" % (zlib.crc32(text), text)


def _decoded(slot: bytes) -> LedgerEntry | None:
    line, newline, _ = slot.partition(b"\n")
    crc, _, text = line.partition(b" ")
    try:
        if not newline or int(crc, 16) != zlib.crc32(text):
            return None
        return msgspec.json.decode(text, type=LedgerEntry)
    except ValueError:
        return None


def _is_newer(one: LedgerEntry, other: LedgerEntry | None) -> bool:
    return other is None or one.revision >= other.revision


def _checksum(resource: str, body: bytes) -> int:
    return zlib.crc32(body, zlib.crc32(resource.encode()))


def stored_totals(connection: sqlite3.Connection) -> Totals:
    """The totals of all stored objects."""
    totals = Totals()
    for resource, body in connection.execute("SELECT resource, CAST(body AS BLOB) FROM objects"):
        totals.add(resource, body)
    return totals


def missing(connection: sqlite3.Connection, entry: LedgerEntry) -> str:
    """What the store lacks of the entry, in words; "" if it contains everything.

    The store may have changes after the entry, which were not acknowledged. Without their log, as
    after a restore by an earlier Kuota, only the revision can be compared.
    """
    (compacted,) = connection.execute(schema.COMPACTED).fetchone()
    (newest,) = connection.execute(schema.NEWEST).fetchone()
    revision = max(compacted, newest)
    found = stored_totals(connection)
    if revision < entry.revision:
        now = found.entry(revision)
        return (
            f"it ends at revision {revision}, but revision {entry.revision} was acknowledged: "
            f"{entry.revision - revision} changes are missing. {_compared(entry, now)}"
        )
    if compacted > entry.revision:
        return ""
    _undo(connection, found, entry.revision)
    before = found.entry(entry.revision)
    if before == entry:
        return ""
    if entry.objects.keys() == {_OTHER} and (before.count, before.checksum) == (
        entry.count,
        entry.checksum,
    ):
        return ""
    return f"its content was changed from outside or is damaged. {_compared(entry, before)}"


def _undo(connection: sqlite3.Connection, totals: Totals, since: int) -> None:
    """Take back the changes after this revision."""
    query = "SELECT type, resource, body, replaced FROM log WHERE revision > ?"
    for kind, resource, body, replaced in connection.execute(query, (since,)):
        totals.change(resource, None if kind == "DELETED" else body, replaced)


def _compared(then: LedgerEntry, now: LedgerEntry) -> str:
    """The difference between what was acknowledged and what is there."""
    names = sorted(then.objects.keys() | now.objects.keys())
    parts = [
        f"{name} {then.objects.get(name, 0)} -> {now.objects.get(name, 0)}"
        for name in names
        if then.objects.get(name, 0) != now.objects.get(name, 0)
    ]
    counted = f"It held {then.count} objects and now holds {now.count}"
    if not parts:
        return f"{counted}, some of them in another state"
    return f"{counted}: {', '.join(parts)}"
