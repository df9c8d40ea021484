# SPDX-License-Identifier: Apache-2.0
"""The store's file: reopening, other versions, locking, compaction, copies, durability."""

from __future__ import annotations

import asyncio
import os
import sqlite3
import stat
from pathlib import Path

import pytest

from kuota.server.expiry import CHANGES_SLICE, keep_compacted
from kuota.server.store import (
    Durability,
    Gone,
    InUse,
    Store,
    StoreError,
    TooNew,
)
from kuota.server.store_copies import back_up, copy_store
from kuota.server.store_schema import RESTORE_GAP, STEPS, connected
from server.objects import JOBS, PODS, at, filled, key, thing


def test_objects_log_and_revision_outlive_the_process(path: str) -> None:
    store = filled(path)
    store.delete(PODS, key("b"))
    acknowledged = store.changes(0)
    store.close()
    again = Store.open(path)
    assert 4 == again.revision
    assert [at(thing("a"), 1), at(thing("c"), 3)] == again.list(PODS).items
    assert acknowledged == again.changes(0)
    assert at(thing("b"), 5) == again.create(PODS, thing("b"))
    again.close()


def test_no_revision_is_used_twice_even_if_the_log_is_empty(path: str) -> None:
    store = filled(path)
    store.delete(PODS, key("c"))
    store.compact(keep=0)
    store.close()
    again = Store.open(path)
    assert (4, 4) == (again.revision, again.compacted)
    with pytest.raises(Gone):
        again.watch(PODS, since=3)
    assert at(thing("c"), 5) == again.create(PODS, thing("c"))
    again.close()


def test_compaction_goes_by_count_and_by_age() -> None:
    times = iter([10.0, 20.0, 30.0, 40.0])
    store = Store.open(":memory:", clock=lambda: next(times))
    for name in "abcd":
        store.create(PODS, thing(name))
    assert 0 == store.compact(keep=9, before=10.0)
    assert 2 == store.compact(keep=9, before=30.0)
    assert 3 == store.compact(keep=1, before=30.0)
    assert 3 == store.compact(keep=4), "what is forgotten stays forgotten"
    assert 4 == store.compact(keep=9, before=99.0)
    assert 4 == len(store.list(PODS).items)
    store.close()


def test_a_compaction_can_go_in_small_steps() -> None:
    async def story() -> None:
        watch = store.watch(PODS, since=3)
        loop = asyncio.create_task(keep_compacted(store, keep=3, every_s=0.0))
        while store.compacted < 2 * CHANGES_SLICE:
            await asyncio.sleep(0)
        loop.cancel()
        await asyncio.gather(loop, return_exceptions=True)
        with pytest.raises(Gone):
            await anext(watch)

    store = Store.open(":memory:")
    for number in range(2 * CHANGES_SLICE + 3):
        store.create(PODS, thing(f"a{number}"))
    assert 1 == store.compact(keep=3, most=1)
    assert 3 == store.compact(keep=3, most=2)
    asyncio.run(story())
    assert 2 * CHANGES_SLICE == store.compact(keep=3)
    assert 3 == len(store.changes(store.compacted))
    store.close()


def test_the_file_is_for_its_owner_only(path: str) -> None:
    filled(path).close()
    store = filled(path, "d")
    modes = [stat.S_IMODE(each.stat().st_mode) for each in Path(path).parent.iterdir()]
    assert {0o600} == set(modes)
    store.close()


def test_a_store_is_open_in_one_place_only(path: str) -> None:
    store = filled(path)
    with pytest.raises(InUse, match="in use by another process"):
        Store.open(path)
    store.close()
    Store.open(path).close()


def test_a_file_of_a_later_kuota_is_refused(path: str) -> None:
    filled(path).close()
    later = (*STEPS, "ALTER TABLE objects ADD COLUMN colour TEXT")
    connected(path, Durability.FULL, later).close()
    with pytest.raises(
        TooNew, match=r"version 2, written by a later Kuota; this one reads up to 1"
    ):
        Store.open(path)
    connected(path, Durability.FULL, later).close()


def test_a_file_of_an_earlier_kuota_is_brought_up_to_date(path: str) -> None:
    filled(path).close()
    later = (*STEPS, "ALTER TABLE objects ADD COLUMN colour TEXT DEFAULT 'red'", "DROP TABLE log")
    db = connected(path, Durability.FULL, later)
    assert [("a", "red")] == db.execute("SELECT name, colour FROM objects LIMIT 1").fetchall()
    assert [(3,)] == db.execute("PRAGMA user_version").fetchall()
    db.close()


def test_a_step_that_fails_leaves_the_file_as_it_was(path: str) -> None:
    filled(path).close()
    faulty = (*STEPS, "DROP TABLE objects; DROP TABLE no_such_table")
    with pytest.raises(StoreError, match="no_such_table"):
        connected(path, Durability.FULL, faulty)
    store = Store.open(path)
    assert 3 == len(store.list(PODS).items)
    store.close()


def test_a_file_that_is_no_store_is_refused_and_left_alone(tmp_path: Path) -> None:
    text, other = tmp_path / "text", tmp_path / "other.db"
    text.write_text("not a database at all, and longer than the header of one is\n" * 9)
    db = sqlite3.connect(other)
    db.execute("CREATE TABLE theirs (x)")
    db.close()
    for file in (text, other):
        before = file.read_bytes()
        with pytest.raises(StoreError):
            Store.open(file)
        assert before == file.read_bytes()


def test_a_backup_has_what_was_there_when_it_was_made(path: str, tmp_path: Path) -> None:
    store, copy = filled(path), tmp_path / "copy.db"
    back_up(path, str(copy))
    store.create(PODS, thing("later"))
    assert [copy] == sorted(tmp_path.glob("copy*"))
    restored = Store.open(copy)
    assert [at(thing(name), i) for i, name in enumerate("abc", 1)] == restored.list(PODS).items
    restored.create(JOBS, thing("j"))
    restored.close()
    store.close()


def test_whoever_watched_the_original_lists_afresh_after_a_restore(path: str) -> None:
    store, copy = filled(path), f"{path}.copy"
    back_up(path, copy)
    store.close()
    restored = Store.open(copy)
    assert 3 + RESTORE_GAP == restored.revision
    for since in (3, 4):
        with pytest.raises(Gone):
            restored.watch(PODS, since=since)
    assert at(thing("d"), 4 + RESTORE_GAP) == restored.create(PODS, thing("d"))
    restored.close()


def test_a_store_in_use_or_at_rest_can_be_copied_from_outside(path: str, tmp_path: Path) -> None:
    store = filled(path)
    copy_store(path, str(tmp_path / "one"))
    store.close()
    copy_store(path, str(tmp_path / "two"))
    for name in ("one", "two"):
        restored = Store.open(tmp_path / name)
        assert 3 == len(restored.list(PODS).items)
        restored.close()


def test_a_backup_takes_the_place_of_an_older_one_but_never_of_the_store(path: str) -> None:
    store = filled(path)
    back_up(path, f"{path}.copy")
    store.create(PODS, thing("d"))
    back_up(path, f"{path}.copy")
    with pytest.raises(StoreError, match="is the store itself"):
        back_up(path, path)
    store.close()
    restored = Store.open(f"{path}.copy")
    assert 4 == len(restored.list(PODS).items)
    restored.close()


def test_a_backup_that_fails_leaves_the_older_one(path: str, tmp_path: Path) -> None:
    copy, wrong = tmp_path / "copy.db", tmp_path / "wrong.db"
    copy.write_text("older")
    wrong.write_text("no database" * 999)
    with pytest.raises(StoreError, match="cannot copy"):
        copy_store(str(wrong), str(copy))
    with pytest.raises(StoreError, match="cannot copy"):
        copy_store(str(tmp_path / "absent"), str(copy))
    assert "older" == copy.read_text()
    assert [copy, wrong] == sorted(tmp_path.iterdir())


def test_many_writers_share_a_sync_of_the_disk(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    syncs: list[int] = []
    monkeypatch.setattr(os, "fdatasync", syncs.append)
    store = Store.open(path, Durability.NORMAL)

    async def write(number: int) -> None:
        store.create(PODS, thing(f"a{number}"))
        await store.synced()

    async def story() -> None:
        await asyncio.gather(*(write(number) for number in range(50)))
        await store.synced()

    asyncio.run(story())
    assert 1 <= len(syncs) <= 2
    store.close()


def test_a_disk_that_failed_once_is_not_believed_again(
    path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(descriptor: int) -> None:
        raise OSError(5, "Input/output error")

    async def story() -> None:
        with monkeypatch.context() as patch:
            patch.setattr(os, "fdatasync", fail)
            with pytest.raises(StoreError, match="could not be synced to disk"):
                await store.synced()
        with pytest.raises(StoreError, match="could not be synced to disk"):
            await store.synced()

    store = filled(path)
    asyncio.run(story())
    store.close()


def test_synced_returns_at_once_where_writes_are_on_disk_already(path: str) -> None:
    async def story(store: Store) -> None:
        await store.synced()
        store.create(PODS, thing("a"))
        await store.synced()

    for store in (Store.open(path), Store.open(":memory:")):
        asyncio.run(story(store))
        store.close()
