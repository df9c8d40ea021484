# SPDX-License-Identifier: Apache-2.0
"""Checks the file of a store before it is opened: integrity, and completeness by its ledger.

Nothing is changed: the files of a store that is rejected remain as they are, for whoever wants to
examine or rescue them.
"""

from __future__ import annotations

import os
import sqlite3
from contextlib import closing
from pathlib import Path

from .ledger import Ledger, missing
from .store_schema import Damaged, DataLost, StoreError, version


def check_complete(path: str, ledger: Ledger) -> None:
    """Raises Damaged, TooNew or StoreError if the file is invalid, DataLost if it is incomplete.

    A store without a ledger, as an earlier Kuota left it, is only checked for integrity.
    """
    entry = ledger.latest()
    if entry is None and ledger.exists:
        raise DataLost(f"{ledger.path} is damaged, so nobody can tell whether {path} is complete")
    if _is_blank(path):
        if entry is not None and entry.count:
            what = "is empty" if os.path.exists(path) else "is missing"
            held = ", ".join(f"{number} {name}" for name, number in sorted(entry.objects.items()))
            raise DataLost(f"{path} {what}: it held {entry.count} objects ({held})")
        return
    check_readable(path)
    if entry is None:
        return
    try:
        with closing(reading(path)) as connection:
            said = missing(connection, entry)
    except sqlite3.Error as error:
        raise Damaged(f"cannot read {path} as a store: {error}") from error
    if said:
        raise DataLost(f"{path} is incomplete: {said}")


def _is_blank(path: str) -> bool:
    """Whether there is no store yet: no file, or one without tables.

    The tables of a new store are in its write-ahead log at first.
    """
    if not os.path.exists(path) or not os.path.getsize(path):
        return True
    try:
        with closing(reading(path)) as connection:
            (tables,) = connection.execute("SELECT count(*) FROM sqlite_schema").fetchone()
            return not tables
    except sqlite3.Error:
        return False


def reading(path: str) -> sqlite3.Connection:
    """A read-only connection to the store, which another process may have open."""
    return sqlite3.connect(f"{Path(path).resolve().as_uri()}?mode=ro", uri=True)


def check_readable(path: str) -> None:
    """Raises Damaged or StoreError if the store is invalid, TooNew if a later Kuota wrote it."""
    try:
        with closing(reading(path)) as connection:
            if not version(connection, path):
                raise StoreError(f"{path} is not a Kuota store")
            (fault,) = connection.execute("PRAGMA quick_check(1)").fetchone()
            if fault != "ok":
                raise Damaged(f"{path} is damaged: {fault}")
    except sqlite3.Error as error:
        raise Damaged(f"cannot read {path} as a store: {error}") from error
