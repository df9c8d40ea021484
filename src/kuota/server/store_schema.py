# SPDX-License-Identifier: Apache-2.0
"""The store's file: its tables, how it is opened, brought up to date, and copied while in use.

`objects` holds what is, `log` what happened. The log's revision is the resourceVersion; it grows by
one with each change and is never used again. `state.compacted` is the last revision that the log
has forgotten, so the current revision survives even an empty log.
"""

from __future__ import annotations

import fcntl
import os
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from enum import StrEnum
from pathlib import Path


class StoreError(Exception):
    """The store could not do what was asked, and changed nothing."""


class NotFound(StoreError):
    """No such object."""


class AlreadyExists(StoreError):
    """An object of that name is there already."""


class Conflict(StoreError):
    """The object is not at the revision that the caller expected."""


class Gone(StoreError):
    """The log does not reach from that revision to now: list afresh and watch from there."""


class TooNew(StoreError):
    """A later version of Kuota wrote this file."""


class InUse(StoreError):
    """Another process has this file open for writing."""


MEMORY = ":memory:"
APPLICATION_ID = 0x4B756F74  # "Kuot", in the file's header

RESTORE_GAP = 1_000_000_000
"""A copy's revisions go on this far above the original's, where no client has been."""

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
"""Step i takes a file from version i to i + 1. Steps are only ever added."""


class Durability(StrEnum):
    """What has happened by the time a write returns.

    Either way the death of this process, at any instant, loses nothing.
    """

    FULL = "FULL"
    """The write is on disk: it also survives a power cut. Costs one sync of the disk each."""

    NORMAL = "NORMAL"
    """The write is with the operating system: a power cut may take the last writes, in order, and
    leaves a sound file. `Store.synced` then says when they are on disk, many at a time."""


def connected(
    path: str, durability: Durability, steps: Sequence[str] = STEPS
) -> sqlite3.Connection:
    """A connection to the store at `path`, which is made or brought up to date first.

    Raises TooNew, or StoreError if this is no store.
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
    version = _version(connection, path)
    if version > len(steps):
        raise TooNew(
            f"{path} has store version {version}, written by a later Kuota; this one reads up to "
            f"{len(steps)}. Use the later Kuota, or restore a backup made by this one"
        )
    connection.execute("PRAGMA journal_mode = WAL")
    for number in range(version, len(steps)):
        connection.executescript(
            f"BEGIN IMMEDIATE; {steps[number]}; PRAGMA application_id = {APPLICATION_ID};"
            f"PRAGMA user_version = {number + 1}; COMMIT"
        )


def _version(connection: sqlite3.Connection, path: str) -> int:
    (application,) = connection.execute("PRAGMA application_id").fetchone()
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    (tables,) = connection.execute("SELECT count(*) FROM sqlite_schema").fetchone()
    if application != APPLICATION_ID and (tables or application):
        raise StoreError(f"{path} is an SQLite file, but no store of Kuota's")
    return int(version)


def locked(path: str) -> int:
    """A file descriptor that keeps other processes from opening this store for as long as it is
    open: whatever this process's end. Reading the file, as a backup does, is not kept out."""
    descriptor = os.open(f"{path}.lock", os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        os.close(descriptor)
        raise InUse(f"{path} is in use by another process; stop that one first") from error
    return descriptor


def copy_store(source: str, target: str) -> None:
    """Copy a store, also one that another process is writing to, as it was at one instant.

    The copy appears whole or not at all, replacing what was there. It has no log, and its revisions
    go on far above the original's: opened in the original's place, it makes whoever watched that
    one list afresh.
    """
    try:
        with closing(reading(source)) as origin:
            copy_connection(origin, target)
    except sqlite3.Error as error:
        raise StoreError(f"cannot copy {source} to {target}: {error}") from error


def reading(path: str) -> sqlite3.Connection:
    """A connection that writes nothing to the store; also to one that another process has open."""
    return sqlite3.connect(f"{Path(path).resolve().as_uri()}?mode=ro", uri=True)


def copy_connection(origin: sqlite3.Connection, target: str) -> None:
    """As `copy_store`, from an open connection."""
    with _appearing(target) as path, closing(sqlite3.connect(path, isolation_level=None)) as copy:
        origin.backup(copy)
        copy.execute("PRAGMA journal_mode = DELETE")
        copy.execute("BEGIN IMMEDIATE")
        copy.execute(
            "UPDATE state SET value = ? + max(value, (SELECT ifnull(max(revision), 0) FROM log)) "
            "WHERE name = 'compacted'",
            (RESTORE_GAP,),
        )
        copy.execute("DELETE FROM log")
        copy.execute("COMMIT")
        copy.execute("VACUUM")


@contextmanager
def _appearing(target: str) -> Iterator[str]:
    """A path to write to, whose file then takes the place of `target` in one step."""
    partial = f"{target}.partial"
    Path(partial).unlink(missing_ok=True)
    descriptor = os.open(partial, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        yield partial
        os.fsync(descriptor)
        os.replace(partial, target)
        sync_directory(target)
    except BaseException:
        Path(partial).unlink(missing_ok=True)
        raise
    finally:
        os.close(descriptor)


def sync_directory(path: str) -> None:
    """Put on disk that the file of this path exists."""
    descriptor = os.open(Path(path).resolve().parent, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
