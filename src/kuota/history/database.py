# SPDX-License-Identifier: Apache-2.0
"""The file of the history: one record per job, and how far the changes of Workloads were recorded.

A record and the revision of the change that led to it are written in one transaction. After a crash
the recorder continues from that revision, so no change is recorded twice and none is left out.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator
from contextlib import closing

import msgspec

from .records import JobRecord

_VERSION = 1
_SCHEMA = f"""
    BEGIN IMMEDIATE;
    CREATE TABLE jobs (
        uid TEXT PRIMARY KEY, namespace TEXT NOT NULL, finished REAL, body BLOB NOT NULL
    );
    CREATE INDEX jobs_by_end ON jobs (finished);
    CREATE TABLE progress (id INTEGER PRIMARY KEY CHECK (id = 1), revision TEXT, at REAL);
    INSERT INTO progress VALUES (1, '', 0);
    PRAGMA user_version = {_VERSION};
    COMMIT
"""
_PUT = (
    "INSERT INTO jobs VALUES (?, ?, ?, ?) ON CONFLICT (uid) "
    "DO UPDATE SET finished = excluded.finished, body = excluded.body"
)
_RECORD = msgspec.json.Decoder(JobRecord)


class Progress(msgspec.Struct, frozen=True):
    """All changes up to `revision` are recorded; that was known at the time `at`."""

    revision: str
    at: float


class HistoryFile:
    """The file, open for writing. Raises sqlite3.Error if it cannot be read or written."""

    def __init__(self, path: str) -> None:
        os.close(os.open(path, os.O_RDWR | os.O_CREAT, 0o600))
        self._db = sqlite3.connect(path, isolation_level=None)
        try:
            self._db.execute("PRAGMA journal_mode = WAL")
            self._db.execute("PRAGMA synchronous = NORMAL")
            (version,) = self._db.execute("PRAGMA user_version").fetchone()
            if not version:
                self._db.executescript(_SCHEMA)
            elif version > _VERSION:
                raise sqlite3.DatabaseError(f"{path} was written by a later version of Kuota")
        except BaseException:
            self._db.close()
            raise

    def close(self) -> None:
        self._db.close()

    @property
    def progress(self) -> Progress:
        return Progress(*self._db.execute("SELECT revision, at FROM progress").fetchone())

    def get(self, uid: str) -> JobRecord | None:
        row = self._db.execute("SELECT body FROM jobs WHERE uid = ?", (uid,)).fetchone()
        return None if row is None else _RECORD.decode(row[0])

    def unfinished(self) -> list[JobRecord]:
        """The records of jobs that have not ended."""
        rows = self._db.execute("SELECT body FROM jobs WHERE finished IS NULL")
        return [_RECORD.decode(body) for (body,) in rows]

    def write(self, *records: JobRecord, progress: Progress) -> None:
        """Store records, and how far the changes are recorded, in one transaction."""
        self._db.execute("BEGIN IMMEDIATE")
        try:
            for each in records:
                body = msgspec.json.encode(each)
                self._db.execute(_PUT, (each.uid, each.namespace, each.finished, body))
            self._db.execute(
                "UPDATE progress SET revision = ?, at = ?", (progress.revision, progress.at)
            )
            self._db.execute("COMMIT")
        except BaseException:
            self._db.execute("ROLLBACK")
            raise

    def prune(self, before: float) -> None:
        """Delete the records of jobs that ended before this time."""
        self._db.execute("DELETE FROM jobs WHERE finished < ?", (before,))


def read_one(path: str, uid: str) -> JobRecord | None:
    """Return the record of one job; None if there is none. Otherwise like `read`."""
    with closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as connection:
        row = connection.execute("SELECT body FROM jobs WHERE uid = ?", (uid,)).fetchone()
    return None if row is None else _RECORD.decode(row[0])


def read(path: str, since: float, namespace: str | None) -> Iterator[JobRecord]:
    """Yield the records of jobs that had not ended at `since`, of one namespace or of all.

    Uses a connection of its own, so it may run in any thread. Raises sqlite3.Error.
    """
    where = "(finished IS NULL OR finished >= :since)"
    where += "" if namespace is None else " AND namespace = :namespace"
    with closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as connection:
        rows = connection.execute(
            f"SELECT body FROM jobs WHERE {where}", {"since": since, "namespace": namespace}
        )
        for (body,) in rows:
            yield _RECORD.decode(body)
