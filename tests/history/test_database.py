# SPDX-License-Identifier: Apache-2.0
"""SQLite and PostgreSQL keep the same promises about records and progress."""

from __future__ import annotations

import sqlite3
from pathlib import Path
from typing import Any

import msgspec
import pytest

from kuota.api.workload import Workload
from kuota.history import database
from kuota.history.address import Address, InvalidAddress, PostgresDatabase, SqliteFile, parsed
from kuota.history.connection import HistoryUnavailable, connected
from kuota.history.database import (
    VERSION,
    HistoryReader,
    HistoryWriter,
    RecordingProgress,
    Superseded,
    TooManyRecords,
)
from kuota.history.records import JobRecord, Run, recorded


def record(uid: str, finished: float | None = None, **more: Any) -> JobRecord:
    return JobRecord(uid, "team", "w", "Job", "j", "q", "ann\x00é", 1.5, finished=finished, **more)


def test_records_are_read_as_they_were_written(address: Address) -> None:
    run = Run(1e9 + 0.123456, 1e9 + 0.123456, "cq", {"f": {"cpu": 10**15}})
    given = record("a", runs=(run,)), record("b", 10.0)
    with HistoryWriter(address) as writer:
        writer.write(*given, progress=RecordingProgress("7", 1e9 + 0.123456))
        assert given[0] == writer.get("a")
        assert [given[0]] == writer.unfinished()
        writer.write(
            msgspec.structs.replace(given[0], finished=99.0), progress=RecordingProgress("8", 2.0)
        )
    with HistoryWriter(address) as writer:
        assert RecordingProgress("8", 2.0) == writer.progress
        assert [] == writer.unfinished()


def test_a_report_contains_all_workloads_of_a_job(address: Address) -> None:
    slices = record("a", 10.0, job_uid="x"), record("b", 20.0, job_uid="x"), record("c", 10.0)
    with HistoryWriter(address) as writer:
        writer.write(*slices, progress=RecordingProgress("1", 0.0))
    with HistoryReader(address) as reader:
        assert {"a", "b"} == {each.uid for each in reader.jobs(15.0, ("team",))}
        assert [] == reader.jobs(0.0, ("other",))
        assert 3 == len(reader.jobs(0.0, None))


def test_a_recorder_that_was_superseded_writes_nothing(address: Address) -> None:
    with HistoryWriter(address) as old, HistoryWriter(address) as new:
        new.write(record("a"), progress=RecordingProgress("1", 1.0))
        with pytest.raises(Superseded):
            old.write(record("b"), progress=RecordingProgress("1", 1.0))
        assert None is new.get("b")
        old.refresh()
        assert RecordingProgress("1", 1.0) == old.progress
        old.write(record("b"), progress=RecordingProgress("2", 2.0))
        with pytest.raises(Superseded):
            new.write(progress=RecordingProgress("3", 3.0))


def test_a_failed_write_leaves_the_database_as_it_was(address: Address) -> None:
    with HistoryWriter(address) as writer:
        writer.write(progress=RecordingProgress("7", 1.0))
        unfit: Any = object()
        with pytest.raises(TypeError):
            writer.write(record("a"), unfit, progress=RecordingProgress("8", 2.0))
        assert RecordingProgress("7", 1.0) == writer.progress
        assert None is writer.get("a")
        writer.write(record("a"), progress=RecordingProgress("8", 2.0))


def test_records_of_jobs_that_ended_long_ago_are_deleted(address: Address) -> None:
    with HistoryWriter(address) as writer, HistoryReader(address) as reader:
        writer.write(record("a", 10.0), record("b"), progress=RecordingProgress("1", 0.0))
        writer.prune(10.0)
        assert 2 == len(reader.jobs(0.0, ("team",)))
        writer.prune(10.5)
        assert ["b"] == [each.uid for each in reader.jobs(0.0, None)]


def test_jobs_that_were_deleted_before_they_ran_do_not_fill_the_database(
    address: Address, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(database, "MOST_NEVER_RUN", 3)
    monkeypatch.setattr(database, "_SURPLUS", 2)
    run = Run(1.0, 2.0, "cq", {})
    with HistoryWriter(address) as writer:
        kept = record("ran", 0.5, runs=(run,)), record("waits"), record("other", 0.1)
        other = msgspec.structs.replace(kept[2], namespace="other")
        writer.write(*kept[:2], other, progress=RecordingProgress("1", 1.0))
        for number in range(10):
            deleted = record(f"d{number}", 1.0 + number)
            writer.write(deleted, progress=RecordingProgress(str(number), 1.0))
    with HistoryReader(address) as reader:
        found = {each.uid for each in reader.jobs(0.0, None)}
    assert {"ran", "waits", "other", "d7", "d8", "d9"} <= found
    assert len(found) <= 3 + 3 + 2


def test_a_report_of_too_much_is_rejected_before_it_is_read(
    address: Address, monkeypatch: pytest.MonkeyPatch
) -> None:
    with HistoryWriter(address) as writer:
        writer.write(record("a", 10.0), record("b", 20.0), progress=RecordingProgress("1", 1.0))
    monkeypatch.setattr(database, "MOST_BYTES", len(msgspec.json.encode(record("a", 10.0))) + 9)
    with HistoryReader(address) as reader:
        assert 1 == len(reader.jobs(15.0, None))
        with pytest.raises(TooManyRecords, match="choose a shorter period"):
            reader.jobs(5.0, None)


def test_a_record_has_a_limited_size() -> None:
    names = {f"x{number}.example.com/gpu": "1" for number in range(1000)}
    pods = {"containers": [{"name": "main", "image": "x", "resources": {"requests": names}}]}
    labels = {"metadata": {"labels": {f"x{number}.example.com/l": "v" for number in range(1000)}}}
    pod_set = {"name": "main", "count": 1, "template": {**labels, "spec": pods}}
    workload = {"metadata": {"uid": "u"}, "spec": {"podSets": [pod_set]}}
    found = recorded(None, msgspec.convert(workload, Workload), 1.0)
    assert (64, 64) == (len(found.requests), len(found.labels))


def test_tables_of_a_later_version_are_not_touched(address: Address) -> None:
    HistoryWriter(address).close()
    connection = connected(address, writes=True)
    connection.set_version(VERSION + 1)
    connection.close()
    with pytest.raises(HistoryUnavailable, match="later version"):
        HistoryWriter(address)


def test_a_file_of_the_first_version_is_converted(tmp_path: Path) -> None:
    path = str(tmp_path / "history")
    old = sqlite3.connect(path)
    old.executescript("""
        CREATE TABLE jobs (
            uid TEXT PRIMARY KEY, namespace TEXT NOT NULL, finished REAL, body BLOB NOT NULL
        );
        CREATE INDEX jobs_by_end ON jobs (finished);
        CREATE TABLE progress (id INTEGER PRIMARY KEY CHECK (id = 1), revision TEXT, at REAL);
        INSERT INTO progress VALUES (1, '41', 5);
        PRAGMA user_version = 1;
    """)
    body = msgspec.json.encode(record("a", 10.0))
    old.execute("INSERT INTO jobs VALUES ('a', 'team', 10, ?)", (body,))
    old.commit()
    old.close()
    with HistoryWriter(SqliteFile(path)) as writer:
        assert RecordingProgress("41", 5.0) == writer.progress
        writer.write(record("b", 11.0), progress=RecordingProgress("42", 6.0))
    with HistoryReader(SqliteFile(path)) as reader:
        assert {"a", "b"} == {each.uid for each in reader.jobs(0.0, ("team",))}


def test_a_database_that_cannot_be_used_is_reported(tmp_path: Path) -> None:
    with pytest.raises(HistoryUnavailable, match="missing/history"):
        HistoryWriter(SqliteFile(str(tmp_path / "missing/history")))
    nowhere = PostgresDatabase(str(tmp_path), 1, "d", "u", "secret", "disable")
    with pytest.raises(HistoryUnavailable) as caught:
        HistoryReader(nowhere)
    assert "secret" not in str(caught.value)


def test_addresses_are_paths_or_urls() -> None:
    assert SqliteFile("/a b") == parsed("/a b") == parsed("sqlite:///a%20b")
    found = parsed("postgresql://me:p%40ss@db.example/usage?sslrootcert=/ca")
    assert (
        PostgresDatabase("db.example", 5432, "usage", "me", "p@ss", "verify-full", "/ca") == found
    )
    assert "p@ss" not in str(found)
    local = parsed("postgres://me@127.0.0.1:6000/usage")
    assert isinstance(local, PostgresDatabase)
    assert ("disable", 6000) == (local.ssl_mode, local.port)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "history.db",
        "sqlite://",
        "sqlite://host/x",
        "mysql://a/b",
        "postgresql://h/d",
        "postgresql://u:secret@/d",
        "postgresql://u:secret@h:port/d",
        "postgresql://u:secret@h/d?sslmode=allow",
        "postgresql://u:secret@h/d?nonsense=1",
    ],
)
def test_other_addresses_are_rejected_without_naming_the_password(text: str) -> None:
    with pytest.raises(InvalidAddress) as caught:
        parsed(text)
    assert "postgresql://user:password@host" in str(caught.value)
    assert "secret" not in str(caught.value)
