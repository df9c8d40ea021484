# SPDX-License-Identifier: Apache-2.0
"""Backups of the store: creates them, also while it is in use, and restores them.

A backup is a store in one file. A restored store continues with revisions above all earlier ones,
so that watchers list again. The previous store is kept next to it.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from .ledger import Ledger
from .store_check import check_readable, reading
from .store_schema import (
    APPLICATION_ID,
    RESTORE_GAP,
    StoreError,
    locked,
    raise_revision,
    sync_directory,
)

_REVISION = (
    "SELECT max(value, (SELECT ifnull(max(revision), 0) FROM log)) "
    "FROM state WHERE name = 'compacted'"
)


def back_up(source: str, target: str) -> None:
    """Copy a consistent state of the store at `source` to a file for `restore`.

    Replaces an earlier backup, but no other file. Raises StoreError, OSError.
    """
    if not os.path.exists(source):
        raise StoreError(f"there is no store at {source}")
    check_readable(source)
    if os.path.exists(target):
        if os.path.samefile(source, target):
            raise StoreError(f"{target} is the store itself; choose another file")
        if os.path.getsize(target) and not _is_store(target):
            raise StoreError(f"{target} already exists and is not a backup; choose another file")
    copy_store(source, target)


def restore(source: str, target: str, stamp: str) -> str | None:
    """Replace the store at `target` by the backup at `source`.

    Returns the new path of the previous store, which contains `stamp`; None if there was none.
    Raises InUse while another process has the store open, TooNew, StoreError, OSError; then nothing
    is changed.
    """
    lock = locked(target)
    try:
        check_readable(source)
        if os.path.exists(target) and os.path.samefile(source, target):
            raise StoreError(f"{source} is the store itself, not a backup of it")
        fresh = f"{target}.restored"
        copy_store(source, fresh)
        try:
            _raise_revision(fresh, _settled_revision(target) + RESTORE_GAP)
            old = _set_aside(target, f"{target}.before-{stamp}")
            # It describes the previous store. The next start writes a new one.
            Path(Ledger(target).path).unlink(missing_ok=True)
            sync_directory(target)
            os.replace(fresh, target)
        except BaseException:
            Path(fresh).unlink(missing_ok=True)
            raise
        sync_directory(target)
        return old
    finally:
        os.close(lock)


def copy_store(source: str, target: str) -> None:
    """Copy a consistent state of a store, even if another process writes to it.

    The copy appears atomically and replaces an existing file. It has no log, and its revisions are
    far above those of the original: if it replaces the original, watchers list again.
    """
    try:
        with (
            closing(reading(source)) as origin,
            _appearing(target) as path,
            closing(sqlite3.connect(path, isolation_level=None)) as copy,
        ):
            origin.backup(copy)
            copy.execute("PRAGMA journal_mode = DELETE")
            copy.execute("BEGIN IMMEDIATE")
            copy.execute(
                f"UPDATE state SET value = ? + ({_REVISION}) WHERE name = 'compacted'",
                (RESTORE_GAP,),
            )
            copy.execute("DELETE FROM log")
            copy.execute("COMMIT")
            copy.execute("VACUUM")
    except sqlite3.Error as error:
        raise StoreError(f"cannot copy {source} to {target}: {error}") from error


@contextmanager
def _appearing(target: str) -> Iterator[str]:
    """A path to write to; its file then replaces `target` atomically."""
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


def _is_store(path: str) -> bool:
    try:
        with closing(reading(path)) as connection:
            (application,) = connection.execute("PRAGMA application_id").fetchone()
    except sqlite3.Error:
        return False
    return bool(application == APPLICATION_ID)


def _settled_revision(path: str) -> int:
    """The latest revision of the store or of its ledger, after moving everything into one file.

    0 if neither is readable: a damaged store may be the reason for a restore.
    """
    entry = Ledger(path).latest()
    noted = 0 if entry is None else entry.revision
    if not os.path.exists(path):
        return noted
    try:
        with closing(sqlite3.connect(path, isolation_level=None)) as connection:
            (revision,) = connection.execute(_REVISION).fetchone()
            connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    except sqlite3.Error:
        return noted
    return max(noted, int(revision))


def _raise_revision(path: str, least: int) -> None:
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("PRAGMA synchronous = FULL")
        raise_revision(connection, least)


def _set_aside(path: str, aside: str) -> str | None:
    """Give the store another name too, and leave nothing that would mix with what comes in its
    place. Under its own name there is a store at every instant."""
    if not os.path.exists(path):
        return None
    for end in ("", "-wal"):
        if os.path.exists(path + end):
            os.link(path + end, aside + end)
    sync_directory(path)
    for end in ("-wal", "-shm"):
        Path(path + end).unlink(missing_ok=True)
    return aside
