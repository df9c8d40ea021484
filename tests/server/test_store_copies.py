# SPDX-License-Identifier: Apache-2.0
"""Backups of the store: overwriting, errors, and the state after a restore."""

from __future__ import annotations

import os
import sqlite3
import stat
from pathlib import Path

import pytest

from kuota.server.store import Durability, Gone, InUse, Store, StoreError, TooNew
from kuota.server.store_copies import back_up, restore
from kuota.server.store_schema import STEPS, connected
from server.objects import PODS, filled, key, thing


@pytest.fixture
def copy(tmp_path: Path) -> str:
    return str(tmp_path / "copy")


def names(path: str) -> str:
    store = Store.open(path)
    found = "".join(each["metadata"]["name"] for each in store.list(PODS).items)
    store.close()
    return found


def test_a_store_goes_on_from_a_backup_and_the_old_one_is_kept(path: str, copy: str) -> None:
    store = filled(path)
    back_up(path, copy)
    store.delete(PODS, key("a"))
    store.close()
    assert f"{path}.before-now" == restore(copy, path, "now")
    assert ("abc", "bc") == (names(path), names(f"{path}.before-now"))


def test_a_backup_is_for_its_owner_only(path: str, copy: str) -> None:
    filled(path).close()
    back_up(path, copy)
    assert 0o600 == stat.S_IMODE(os.stat(copy).st_mode)


def test_what_was_not_yet_moved_into_the_file_is_kept_too(path: str, copy: str) -> None:
    store = filled(path)
    back_up(path, copy)
    store.create(PODS, thing("late"))
    # As a killed process leaves them: the write-ahead log beside the file.
    left = Path(path).parent / "left"
    left.mkdir()
    for name in ("kuota.db", "kuota.db-wal"):
        (left / name).write_bytes((Path(path).parent / name).read_bytes())
    store.close()
    restored = str(left / "kuota.db")
    restore(copy, restored, "now")
    assert ("abc", "abclate") == (names(restored), names(f"{restored}.before-now"))


def test_revisions_go_on_above_all_that_anyone_has_seen(path: str, copy: str) -> None:
    filled(path).close()
    back_up(path, copy)
    seen = 0
    for turn in "12":
        restore(copy, path, turn)
        store = Store.open(path)
        with pytest.raises(Gone):
            store.watch(PODS, since=seen)
        assert store.revision > seen
        store.create(PODS, thing("new"))
        seen = store.revision
        store.close()


def test_a_store_that_is_open_is_not_restored(path: str, copy: str) -> None:
    store = filled(path)
    back_up(path, copy)
    store.create(PODS, thing("d"))
    with pytest.raises(InUse):
        restore(copy, path, "now")
    assert 4 == len(store.list(PODS).items)
    store.close()
    assert "abcd" == names(path)


def test_a_backup_of_a_later_kuota_is_refused(path: str, copy: str) -> None:
    filled(path).close()
    back_up(path, copy)
    connected(copy, Durability.FULL, (*STEPS, "CREATE TABLE later (x)")).close()
    with pytest.raises(TooNew, match="written by a later Kuota"):
        restore(copy, path, "now")
    with pytest.raises(TooNew):
        back_up(copy, f"{path}.other")
    assert "abc" == names(path)


def test_what_is_no_sound_store_is_neither_restored_nor_overwritten(
    path: str, tmp_path: Path
) -> None:
    filled(path).close()
    text, empty, other, torn = (tmp_path / name for name in ("text", "empty", "other", "torn"))
    text.write_text("a letter\n" * 999)
    empty.touch()
    with sqlite3.connect(other) as db:
        db.execute("CREATE TABLE theirs (x)")
    db.close()
    torn.write_bytes(Path(path).read_bytes()[:5000])
    for file in (text, empty, other, torn):
        with pytest.raises(StoreError):
            restore(str(file), path, "now")
    for file in (text, other):
        before = file.read_bytes()
        with pytest.raises(StoreError, match="is not a backup"):
            back_up(path, str(file))
        assert before == file.read_bytes()
    assert "abc" == names(path)
    assert not list(tmp_path.glob("*before*"))
    assert not list(tmp_path.glob("*restored*"))


def test_a_damaged_store_gives_way_to_a_backup(path: str, copy: str) -> None:
    filled(path).close()
    back_up(path, copy)
    Path(path).write_bytes(b"ruined" * 999)
    old = restore(copy, path, "now")
    assert "abc" == names(path)
    assert old is not None
    assert b"ruined" == Path(old).read_bytes()[:6]


def test_a_backup_needs_a_store_and_another_file(path: str, copy: str) -> None:
    with pytest.raises(StoreError, match="there is no store"):
        back_up(path, copy)
    filled(path).close()
    with pytest.raises(StoreError, match="the store itself"):
        back_up(path, path)
    with pytest.raises(StoreError, match="the store itself"):
        restore(path, path, "now")
    assert "abc" == names(path)


def test_a_backup_can_be_put_where_there_was_no_store(path: str, copy: str) -> None:
    filled(path).close()
    back_up(path, copy)
    elsewhere = f"{path}.elsewhere"
    assert None is restore(copy, elsewhere, "now")
    assert "abc" == names(elsewhere)
