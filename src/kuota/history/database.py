# SPDX-License-Identifier: Apache-2.0
"""The tables of the history: one record per Workload, and how far their changes were recorded.

A record and the revision of the change that led to it are written in one transaction. After a crash
the recorder continues from that revision, so no change is recorded twice and none is left out. Each
write increments a version, and a write that is based on another version fails, so two recorders
can never write about the same change.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import Self

import msgspec

from kuota.view.idle import IdlePeriod

from .address import Address
from .connection import (
    SCHEMA,
    DatabaseConnection,
    HistoryUnavailable,
    PostgresConnection,
    connected,
)
from .quotas import QuotaFact, QuotaKind, Targets
from .records import JobRecord
from .waste import IdleSpan

VERSION = 4
_TABLES = (
    """CREATE TABLE jobs (
        uid TEXT PRIMARY KEY, namespace TEXT NOT NULL, finished DOUBLE PRECISION,
        body TEXT NOT NULL, job TEXT NOT NULL DEFAULT ''
    )""",
    "CREATE INDEX jobs_by_end ON jobs (finished)",
    """CREATE TABLE progress (
        id INTEGER PRIMARY KEY CHECK (id = 1), revision TEXT NOT NULL,
        at DOUBLE PRECISION NOT NULL, version BIGINT NOT NULL DEFAULT 0
    )""",
    "INSERT INTO progress (id, revision, at) VALUES (1, '', 0)",
)
_FROM_VERSION_1 = (
    "ALTER TABLE jobs ADD COLUMN job TEXT NOT NULL DEFAULT ''",
    "UPDATE jobs SET job = uid",
    "ALTER TABLE progress ADD COLUMN version BIGINT NOT NULL DEFAULT 0",
)
_SINCE_VERSION_2 = ("CREATE INDEX jobs_by_job ON jobs (job)",)
_SINCE_VERSION_3 = (
    """CREATE TABLE idle (
        pod TEXT NOT NULL, device TEXT NOT NULL, since DOUBLE PRECISION NOT NULL,
        until DOUBLE PRECISION NOT NULL, namespace TEXT NOT NULL, workload TEXT NOT NULL,
        resource TEXT NOT NULL, PRIMARY KEY (pod, device, since)
    )""",
    """CREATE TABLE quotas (
        kind TEXT NOT NULL, name TEXT NOT NULL, since DOUBLE PRECISION NOT NULL, body TEXT,
        PRIMARY KEY (kind, name, since)
    )""",
)
_SINCE_VERSION_4 = ("CREATE INDEX jobs_by_namespace ON jobs (namespace, finished)",)
_PUT = (
    "INSERT INTO jobs (uid, namespace, finished, body, job) VALUES (?, ?, ?, ?, ?) "
    "ON CONFLICT (uid) DO UPDATE SET finished = excluded.finished, body = excluded.body"
)
_PUT_QUOTA = (
    "INSERT INTO quotas (kind, name, since, body) VALUES (?, ?, ?, ?) "
    "ON CONFLICT (kind, name, since) DO UPDATE SET body = excluded.body"
)
_PUT_IDLE = (
    "INSERT INTO idle (pod, device, since, until, namespace, workload, resource) "
    "VALUES (?, ?, ?, ?, ?, ?, ?) ON CONFLICT (pod, device, since) "
    "DO UPDATE SET until = excluded.until WHERE excluded.until > idle.until"
)
_FORGET_NEVER_RUN = (
    "DELETE FROM jobs WHERE namespace = ? AND finished <= (SELECT finished FROM jobs "
    "WHERE namespace = ? AND finished IS NOT NULL AND body LIKE ? "
    "ORDER BY finished DESC LIMIT 1 OFFSET ?) AND body LIKE ?"
)
_NEVER_RUN = '%"runs":[]%'
"""Matches these records only: in texts of users, quotation marks are escaped."""
MOST_NEVER_RUN = 10_000
"""How many jobs of a namespace that ended before they ran are kept. Users can create and delete
such jobs without end, and no account contains them."""
_SURPLUS = 1000
"""After how many more of them the oldest are deleted."""
MOST_BYTES = 128 << 20
"""The most bytes of records for one report. In memory, they take several times as much."""
_RECORD = msgspec.json.Decoder(JobRecord)


class RecordingProgress(msgspec.Struct, frozen=True):
    """All changes up to `revision` are recorded; that was known at the time `at`."""

    revision: str
    at: float


class Superseded(Exception):
    """Another recorder has written since. Continue from its progress."""


class TooManyRecords(Exception):
    """The period contains more jobs than can be read at once."""

    def __init__(self, jobs: int) -> None:
        super().__init__(
            f"the period has {jobs} jobs, more than can be read at once; choose a shorter period, "
            "or one namespace"
        )


class _History:
    """A database that is closed at the end of a `with` block."""

    def __init__(self, address: Address, *, writes: bool) -> None:
        self._db = connected(address, writes=writes)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        at: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        self._db.close()


class HistoryWriter(_History):
    """The database of one recorder. All methods raise HistoryUnavailable."""

    def __init__(self, address: Address) -> None:
        super().__init__(address, writes=True)
        self._never_run: Counter[str] = Counter()
        try:
            _migrate(self._db)
            self.refresh()
        except BaseException:
            self._db.close()
            raise

    def refresh(self) -> None:
        """Read how far changes are recorded, also by others."""
        ((revision, at, version),) = self._db.rows("SELECT revision, at, version FROM progress")
        self.progress = RecordingProgress(revision, at)
        self._version = version

    def get(self, uid: str) -> JobRecord | None:
        return _job(self._db, uid)

    def unfinished(self) -> list[JobRecord]:
        """The records of jobs that have not ended."""
        rows = self._db.rows("SELECT body FROM jobs WHERE finished IS NULL")
        return [_RECORD.decode(body) for (body,) in rows]

    def write(self, *records: JobRecord, progress: RecordingProgress) -> None:
        """Store records, and how far the changes are recorded, in one transaction.

        Raises Superseded if another recorder has written since this one read or wrote.
        """
        with _transaction(self._db):
            changed = self._db.change(
                "UPDATE progress SET revision = ?, at = ?, version = version + 1 WHERE version = ?",
                progress.revision,
                progress.at,
                self._version,
            )
            if not changed:
                raise Superseded
            for each in records:
                body = msgspec.json.encode(each).decode()
                parts = each.uid, each.namespace, each.finished, body, each.job_id
                self._db.change(_PUT, *parts)
        self._version += 1
        self.progress = progress
        self._forget_never_run(records)

    def _forget_never_run(self, records: Iterable[JobRecord]) -> None:
        """Delete the oldest jobs that never ran of namespaces with many new ones."""
        self._never_run.update(
            each.namespace for each in records if each.finished is not None and not each.runs
        )
        for namespace in [name for name, new in self._never_run.items() if new >= _SURPLUS]:
            del self._never_run[namespace]
            which = namespace, namespace, _NEVER_RUN, MOST_NEVER_RUN, _NEVER_RUN
            self._db.change(_FORGET_NEVER_RUN, *which)

    def prune(self, before: float) -> None:
        """Delete the records of jobs that ended before this time, and what explains their waste."""
        self._db.change("DELETE FROM jobs WHERE finished < ?", before)
        self._db.change("DELETE FROM idle WHERE until < ?", before)
        self._db.change(
            "DELETE FROM quotas WHERE since < ? AND EXISTS (SELECT 1 FROM quotas later WHERE "
            "later.kind = quotas.kind AND later.name = quotas.name AND later.since > quotas.since "
            "AND later.since <= ?)",
            before,
            before,
        )

    def write_quotas(self, facts: Iterable[QuotaFact]) -> None:
        """Store facts about quotas, unless they repeat the last one about the same object."""
        with _transaction(self._db):
            known = {(each.kind, each.name): each for each in _quotas(self._db)}
            for each in facts:
                last = known.get((each.kind, each.name))
                if each.spec == (last.spec if last is not None else None):
                    continue
                body = None if each.spec is None else msgspec.json.encode(each.spec).decode()
                at = each.since if last is None else max(each.since, last.since)
                self._db.change(_PUT_QUOTA, str(each.kind), each.name, at, body)
                known[each.kind, each.name] = each

    def live_quotas(self) -> set[tuple[QuotaKind, str]]:
        """Return the objects that exist according to the last facts about them."""
        last = {(each.kind, each.name): each.spec for each in _quotas(self._db)}
        return {key for key, spec in last.items() if spec is not None}

    def write_idle(self, periods: Iterable[IdlePeriod]) -> None:
        """Store idle periods. The latest report about a period replaces earlier ones."""
        with _transaction(self._db):
            for each in periods:
                of = each.holder
                place = of.namespace, of.workload, each.resource
                self._db.change(_PUT_IDLE, *each.identity, each.until, *place)


class HistoryReader(_History):
    """A connection for one report. All methods raise HistoryUnavailable."""

    def __init__(self, address: Address) -> None:
        super().__init__(address, writes=False)

    def job(self, uid: str) -> JobRecord | None:
        """Return the record of one Workload; None if there is none."""
        return _job(self._db, uid)

    def quotas(self, until: float) -> list[QuotaFact]:
        """Return all facts about quotas up to a time."""
        return _quotas(self._db, until)

    def idle(self, since: float, until: float) -> list[IdleSpan]:
        """Return the idle periods that a period touches."""
        rows = self._db.rows(
            "SELECT pod, device, namespace, workload, resource, since, until FROM idle "
            "WHERE until > ? AND since < ?",
            since,
            until,
        )
        return [IdleSpan(*row) for row in rows]

    def jobs(self, since: float, namespaces: tuple[str, ...] | None) -> list[JobRecord]:
        """Return the records of jobs that had not ended at `since`, of some namespaces or all.

        Raises TooManyRecords.
        """
        where = "(finished IS NULL OR finished >= ?)"
        parameters: list[object] = [since]
        if namespaces is not None:
            where += f" AND namespace IN ({', '.join('?' * len(namespaces))})"
            parameters += namespaces
        chosen = f"FROM jobs WHERE job IN (SELECT job FROM jobs WHERE {where})"
        ((number, size),) = self._db.rows(
            f"SELECT COUNT(*), COALESCE(SUM(LENGTH(body)), 0) {chosen}", *parameters
        )
        if int(size) > MOST_BYTES:
            raise TooManyRecords(number)
        rows = self._db.rows(f"SELECT body {chosen}", *parameters)
        return self._targeted([_RECORD.decode(body) for (body,) in rows])

    def _targeted(self, records: list[JobRecord]) -> list[JobRecord]:
        """Return the records with the ClusterQueues in which jobs waited that have not run."""
        if all(each.runs for each in records):
            return records
        targets = Targets(_quotas(self._db, kind=QuotaKind.LOCAL_QUEUE))

        def target(record: JobRecord) -> str:
            at = math.inf if record.finished is None else record.finished
            return targets.at(f"{record.namespace}/{record.queue}", at)

        return [
            each if each.runs else msgspec.structs.replace(each, target=target(each))
            for each in records
        ]


def read(address: Address, since: float, namespaces: tuple[str, ...] | None) -> list[JobRecord]:
    """Return records as `HistoryReader.jobs` does, with a connection of its own."""
    with HistoryReader(address) as reader:
        return reader.jobs(since, namespaces)


def read_one(address: Address, uid: str) -> JobRecord | None:
    """Return a record as `HistoryReader.job` does, with a connection of its own."""
    with HistoryReader(address) as reader:
        return reader.job(uid)


def _job(db: DatabaseConnection, uid: str) -> JobRecord | None:
    rows = db.rows("SELECT body FROM jobs WHERE uid = ?", uid)
    return _RECORD.decode(rows[0][0]) if rows else None


def read_waste(
    address: Address, since: float, until: float
) -> tuple[list[JobRecord], list[QuotaFact], list[IdleSpan]]:
    """Return what the waste of a period is computed from, of all namespaces."""
    with HistoryReader(address) as reader:
        return reader.jobs(since, None), reader.quotas(until), reader.idle(since, until)


def _quotas(
    db: DatabaseConnection, until: float | None = None, kind: QuotaKind | None = None
) -> list[QuotaFact]:
    """Return all facts up to a time and of one kind, or of all, in order."""
    given = {"since < ?": until, "kind = ?": kind and str(kind)}
    chosen = {text: value for text, value in given.items() if value is not None}
    where = f" WHERE {' AND '.join(chosen)}" if chosen else ""
    text = f"SELECT kind, name, since, body FROM quotas{where} ORDER BY since"
    rows = db.rows(text, *chosen.values())
    return [
        QuotaFact(QuotaKind(kind), name, since, None if body is None else msgspec.json.decode(body))
        for kind, name, since, body in rows
    ]


@contextmanager
def _transaction(db: DatabaseConnection) -> Iterator[None]:
    db.begin()
    try:
        yield
        db.change("COMMIT")
    except BaseException:
        db.change("ROLLBACK")
        raise


def _migrate(db: DatabaseConnection) -> None:
    """Create the tables, or change those of an earlier version."""
    if isinstance(db, PostgresConnection):
        db.change(f"CREATE SCHEMA IF NOT EXISTS {SCHEMA}")
    if db.version() == VERSION:
        return
    with _transaction(db):
        db.lock_schema()
        found = db.version()
        if found > VERSION:
            raise HistoryUnavailable("the history was written by a later version of Kuota")
        for statement in _steps(found):
            db.change(statement)
        db.set_version(VERSION)


def _steps(found: int) -> Iterator[str]:
    """Yield the statements that lead from a version of the tables to the current one."""
    if found < 2:
        yield from _FROM_VERSION_1 if found else _TABLES
        yield from _SINCE_VERSION_2
    if found < 3:
        yield from _SINCE_VERSION_3
    if found < 4:
        yield from _SINCE_VERSION_4
