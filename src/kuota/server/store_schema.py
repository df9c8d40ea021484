# SPDX-License-Identifier: Apache-2.0
"""The file of the store: tables, statements, errors, opening, migration.

`objects` contains the current state, `log` the changes. The revision of the log is the
resourceVersion. It grows by one with each change and is never reused. `state.compacted` is the last
revision that was removed from the log, so the current revision is known even if the log is empty.
"""

from __future__ import annotations

import fcntl
import os
import sqlite3
from collections.abc import Sequence
from enum import StrEnum
from pathlib import Path


class StoreError(Exception):
    """The store could not perform the operation, and changed nothing."""


class NotFound(StoreError):
    """The object does not exist."""


class AlreadyExists(StoreError):
    """An object with this name already exists."""


class Conflict(StoreError):
    """The object is not at the revision that the caller expected."""


class Gone(StoreError):
    """The log does not contain all changes since that revision: list again and watch from there."""


class TooNew(StoreError):
    """A later version of Kuota wrote this file."""


class InUse(StoreError):
    """Another process has this file open for writing."""


class Damaged(StoreError):
    """The file cannot be read: restore a backup."""


class DataLost(StoreError):
    """The file can be read, but does not contain everything that was acknowledged."""


class NoSpace(StoreError):
    """The disk is full or read-only. The write can be repeated when that has changed."""


MEMORY = ":memory:"
APPLICATION_ID = 0x4B756F74  # "Kuot", in the file's header

RESTORE_GAP = 1_000_000_000
"""The revisions of a copy start this far above the original, where no client has been."""

STEPS = (
    """
    CREATE TABLE state (name TEXT PRIMARY KEY, value INTEGER NOT NULL);
    INSERT INTO state VALUES ('compacted', 0);
    CREATE TABLE objects (
        resource TEXT NOT NULL, namespace TEXT NOT NULL, name TEXT NOT NULL,
        revision INTEGER NOT NULL, body BLOB NOT NULL,
        PRIMARY KEY (resource, namespace, name)
    );
    CREATE TABLE log (
        revision INTEGER PRIMARY KEY, type TEXT NOT NULL,
        resource TEXT NOT NULL, namespace TEXT NOT NULL, name TEXT NOT NULL,
        at REAL NOT NULL, prior INTEGER, body BLOB NOT NULL, replaced BLOB
    );
    CREATE INDEX log_by_resource ON log (resource, revision);
    """,
)
"""Step i migrates a file from version i to i + 1. Steps are only ever added."""

ROW = "SELECT revision, body FROM objects WHERE resource = ? AND namespace = ? AND name = ?"
PUT = (
    "INSERT INTO objects VALUES (?, ?, ?, ?, ?) ON CONFLICT (resource, namespace, name) "
    "DO UPDATE SET revision = excluded.revision, body = excluded.body"
)
DROP = "DELETE FROM objects WHERE resource = ? AND namespace = ? AND name = ?"
LOG = "INSERT INTO log VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)"
EVERYTHING = "SELECT resource, namespace, name, body FROM objects"
COMPACTED = "SELECT value FROM state WHERE name = 'compacted'"
COMPACT = "UPDATE state SET value = ? WHERE name = 'compacted'"
COMPACT_AT_LEAST = "UPDATE state SET value = max(value, ?) WHERE name = 'compacted'"
TRIM = "DELETE FROM log WHERE revision <= ?"
NEWEST = "SELECT ifnull(max(revision), 0) FROM log"
# SQLite knows the length of a column without reading it.
_SIZE = "length(body) + ifnull(length(replaced), 0)"
LOG_SIZE = f"SELECT ifnull(sum({_SIZE}), 0) FROM log"
LOG_PART = f"{LOG_SIZE} WHERE revision > ? AND revision <= ?"
LOG_OLDEST = f"SELECT revision, {_SIZE} FROM log WHERE revision > ? ORDER BY revision"
SIZES = (
    "SELECT resource, namespace, count(*), sum(length(body)) FROM objects "
    "GROUP BY resource, namespace"
)
# Entries are ordered by time, so this only reads what is about to be removed.
BEFORE = "SELECT revision - 1 FROM log WHERE revision > ? AND at >= ? ORDER BY revision LIMIT 1"
# Skip from each resource to the next instead of reading all objects.
RESOURCES = """
    WITH RECURSIVE found (name) AS (
        SELECT min(resource) FROM objects UNION ALL
        SELECT (SELECT min(resource) FROM objects WHERE resource > found.name) FROM found
        WHERE name IS NOT NULL
    )
    SELECT name FROM found WHERE name IS NOT NULL
"""

_NOW = "SELECT namespace, name, body FROM objects WHERE resource = :resource"
_REPLACED = "SELECT namespace, name, replaced FROM log WHERE resource = :resource"
_CHANGES = "SELECT revision, type, resource, namespace, name, body, replaced FROM log"


def page(past: bool, one_namespace: bool, further: bool) -> str:
    """Bodies of a resource in order: as of revision :at if `past`, of one namespace or all, from
    the first or from after a key."""
    where = " AND namespace = :namespace" if one_namespace else ""
    if further and one_namespace:
        # A comparison of pairs would make SQLite read and sort all that is left for every page.
        where += " AND name > :after_name"
    elif further:
        where += " AND (namespace, name) > (:after_namespace, :after_name)"
    query = _NOW + where
    if past:
        # What has not changed since, and what the first later change of any other replaced. Both
        # arms are told the order, so that SQLite merges them and stops at the limit.
        query += f" AND revision <= :at UNION ALL {_REPLACED}{where}"
        query += " AND revision > :at AND prior <= :at"
    return f"{query} ORDER BY namespace, name LIMIT :limit"


def changes(one_resource: bool, one_namespace: bool) -> str:
    """The entries of the log after revision :since."""
    where = "revision > :since"
    where += " AND resource = :resource" if one_resource else ""
    where += " AND namespace = :namespace" if one_namespace else ""
    return f"{_CHANGES} WHERE {where} ORDER BY revision LIMIT :limit"


class Durability(StrEnum):
    """The guarantee when a write returns.

    In both modes, the death of this process loses nothing.
    """

    FULL = "FULL"
    """The write is on disk and survives a power failure. Costs one disk sync per write."""

    NORMAL = "NORMAL"
    """The write is with the operating system: a power cut may take the last writes, in order, and
    leaves a sound file. `Store.synced` then says when they are on disk, many at a time."""


def connected(
    path: str, durability: Durability, steps: Sequence[str] = STEPS
) -> sqlite3.Connection:
    """A connection to the store at `path`, which is created or migrated first.

    Raises TooNew, or StoreError if this is not a store.
    """
    if path != MEMORY:
        os.close(os.open(path, os.O_RDWR | os.O_CREAT, 0o600))  # it will hold Secrets
    connection = sqlite3.connect(path, isolation_level=None)
    try:
        _prepare(connection, path, steps)
        connection.execute(f"PRAGMA synchronous = {durability}")
        connection.execute("PRAGMA cache_size = -16384")
        connection.execute("PRAGMA journal_size_limit = 16777216")
    except sqlite3.Error as error:
        connection.close()
        raise StoreError(f"cannot open {path} as a store: {error}") from error
    except BaseException:
        connection.close()
        raise
    return connection


def _prepare(connection: sqlite3.Connection, path: str, steps: Sequence[str]) -> None:
    present = version(connection, path, len(steps))
    connection.execute("PRAGMA journal_mode = WAL")
    for number in range(present, len(steps)):
        connection.executescript(
            f"BEGIN IMMEDIATE; {steps[number]}; PRAGMA application_id = {APPLICATION_ID};"
            f"PRAGMA user_version = {number + 1}; COMMIT"
        )


def version(connection: sqlite3.Connection, path: str, latest: int = len(STEPS)) -> int:
    """The version of the store; 0 for an empty file.

    Raises TooNew for one above `latest`, StoreError if this is another program's file.
    """
    (application,) = connection.execute("PRAGMA application_id").fetchone()
    (found,) = connection.execute("PRAGMA user_version").fetchone()
    (tables,) = connection.execute("SELECT count(*) FROM sqlite_schema").fetchone()
    if application != APPLICATION_ID and (tables or application):
        raise StoreError(f"{path} is an SQLite file, but not a Kuota store")
    if found > latest:
        raise TooNew(
            f"{path} has store version {found}, written by a later Kuota; this one reads up to "
            f"{latest}. Use the later Kuota, or restore a backup made by this one"
        )
    return int(found)


def raise_revision(connection: sqlite3.Connection, least: int) -> None:
    """Continue from this revision if the store is below it. Its log starts anew."""
    connection.execute("BEGIN IMMEDIATE")
    connection.execute(COMPACT_AT_LEAST, (least,))
    connection.execute("DELETE FROM log WHERE revision < ?", (least,))
    connection.execute("COMMIT")


def locked(path: str) -> int:
    """A file descriptor that keeps other processes from opening this store for as long as it is
    open: whatever this process's end. Reading the file, as a backup does, is not kept out."""
    descriptor = os.open(f"{path}.lock", os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        os.close(descriptor)
        raise InUse(f"{path} is in use by another process; stop it first") from error
    return descriptor


def sync_directory(path: str) -> None:
    """Sync the directory, so that the existence of the file is on disk."""
    descriptor = os.open(Path(path).resolve().parent, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
