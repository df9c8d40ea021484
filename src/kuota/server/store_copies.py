# SPDX-License-Identifier: Apache-2.0
"""Backups of the store's file: made while it is in use or at rest, and put back in its place.

A backup is a store of its own, in one file. What is put back goes on with revisions above all that
anyone has seen, so whoever watched the old store lists afresh; the old store stays beside it.
"""

from __future__ import annotations

import os
import sqlite3
from contextlib import closing
from pathlib import Path

from .store_schema import (
    APPLICATION_ID,
    RESTORE_GAP,
    STEPS,
    StoreError,
    TooNew,
    copy_store,
    locked,
    reading,
    sync_directory,
)

_REVISION = (
    "SELECT max(value, (SELECT ifnull(max(revision), 0) FROM log)) "
    "FROM state WHERE name = 'compacted'"
)
_RAISE = "UPDATE state SET value = max(value, ?) WHERE name = 'compacted'"


def back_up(source: str, target: str) -> None:
    """Copy the store at `source`, as it is at one instant, to a file that `restore` takes.

    Takes the place of an earlier backup, and of nothing else. Raises StoreError, OSError.
    """
    if not os.path.exists(source):
        raise StoreError(f"there is no store at {source}")
    check_readable(source)
    if os.path.exists(target):
        if os.path.samefile(source, target):
            raise StoreError(f"{target} is the store itself; back it up to another file")
        if os.path.getsize(target) and not _is_store(target):
            raise StoreError(f"{target} is there already and no backup; name another file")
    copy_store(source, target)


def restore(source: str, target: str, stamp: str) -> str | None:
    """Put the backup at `source` in the place of the store at `target`.

    Returns where the old store now is, named after `stamp`; None if there was none. Raises InUse
    while another process has the store open, TooNew, StoreError, OSError; then nothing changed.
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
            os.replace(fresh, target)
        except BaseException:
            Path(fresh).unlink(missing_ok=True)
            raise
        sync_directory(target)
        return old
    finally:
        os.close(lock)


def check_readable(path: str) -> None:
    """Raises StoreError if this is no sound store, TooNew if a later Kuota wrote it."""
    try:
        with closing(reading(path)) as connection:
            (application,) = connection.execute("PRAGMA application_id").fetchone()
            (version,) = connection.execute("PRAGMA user_version").fetchone()
            if application != APPLICATION_ID:
                raise StoreError(f"{path} is no store of Kuota's")
            if version > len(STEPS):
                raise TooNew(
                    f"{path} has store version {version}, written by a later Kuota; this one reads "
                    f"up to {len(STEPS)}. Use the later Kuota"
                )
            (fault,) = connection.execute("PRAGMA quick_check(1)").fetchone()
            if fault != "ok":
                raise StoreError(f"{path} is damaged: {fault}")
    except sqlite3.Error as error:
        raise StoreError(f"cannot read {path} as a store: {error}") from error


def _is_store(path: str) -> bool:
    try:
        with closing(reading(path)) as connection:
            (application,) = connection.execute("PRAGMA application_id").fetchone()
    except sqlite3.Error:
        return False
    return bool(application == APPLICATION_ID)


def _settled_revision(path: str) -> int:
    """The store's latest revision, all of it moved into the one file.

    0 if there is none to be had: a damaged store is what some restores are for.
    """
    if not os.path.exists(path):
        return 0
    try:
        with closing(sqlite3.connect(path, isolation_level=None)) as connection:
            (revision,) = connection.execute(_REVISION).fetchone()
            connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    except sqlite3.Error:
        return 0
    return int(revision)


def _raise_revision(path: str, least: int) -> None:
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("PRAGMA synchronous = FULL")
        connection.execute(_RAISE, (least,))


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
