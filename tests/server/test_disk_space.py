# SPDX-License-Identifier: Apache-2.0
"""A store on a full disk: deletions are written, and everything else is rejected meanwhile."""

from __future__ import annotations

import os
import sqlite3
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from full_disk import disk, fill
from kuota.api.base import Json
from kuota.server.disk_space import LOW_BYTES, RESERVE_BYTES
from kuota.server.store import Durability, NoSpace, Store
from server.objects import PODS, filled, key, thing

ROOT = pytest.mark.skipif(os.geteuid() != 0, reason="mounting a file system needs root")


class Disk:
    """A disk whose free space the test determines."""

    def __init__(self) -> None:
        self.free = 1 << 40
        self.flags = 0

    def statvfs(self, _: str) -> Any:
        return SimpleNamespace(
            f_bavail=self.free // 4096, f_frsize=4096, f_blocks=1 << 30, f_flag=self.flags
        )


@pytest.fixture
def pretended(monkeypatch: pytest.MonkeyPatch) -> Disk:
    found = Disk()
    monkeypatch.setattr(os, "statvfs", found.statvfs)
    return found


def deleting(name: str) -> Json:
    obj = thing(name)
    obj["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    return obj


def test_on_a_full_disk_only_deletions_are_written(path: str, pretended: Disk) -> None:
    store = filled(path)
    pretended.free = LOW_BYTES - 4096
    with pytest.raises(NoSpace, match="is full"):
        store.create(PODS, thing("d"))
    with pytest.raises(NoSpace, match="is full"):
        store.update(PODS, thing("a", value=1), None)
    assert 3 == store.revision
    store.delete(PODS, key("a"))
    store.update(PODS, deleting("b"), None)
    pretended.free = LOW_BYTES
    store.create(PODS, thing("d"))
    store.close()


def test_a_read_only_disk_is_reported_as_such(path: str, pretended: Disk) -> None:
    store = filled(path)
    pretended.flags = os.ST_RDONLY
    with pytest.raises(NoSpace, match="read-only"):
        store.create(PODS, thing("d"))
    pretended.flags = 0
    store.create(PODS, thing("d"))
    store.close()


def test_a_file_system_that_does_not_know_its_size_is_not_full(
    path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    unknown = SimpleNamespace(f_bavail=0, f_frsize=4096, f_blocks=0, f_flag=0)
    monkeypatch.setattr(os, "statvfs", lambda _: unknown)
    filled(path).close()


def test_the_reserve_is_given_to_the_log_and_allocated_again(path: str, pretended: Disk) -> None:
    store = filled(path)
    reserve, log = Path(f"{path}.reserve"), Path(f"{path}-wal")
    assert (RESERVE_BYTES, 0o600) == (reserve.stat().st_size, reserve.stat().st_mode & 0o777)
    pretended.free = 0
    before = log.stat().st_size
    assert store._file._space is not None
    assert store._file._space.release()
    assert not store._file._space.release()
    assert before + RESERVE_BYTES == log.stat().st_size
    assert not reserve.exists()
    store.delete(PODS, key("a"))
    pretended.free = 1 << 40
    store.create(PODS, thing("d"))
    assert reserve.exists()
    store.close()
    again = Store.open(path)
    assert "bcd" == "".join(each["metadata"]["name"] for each in again.list(PODS).items)
    again.close()


@ROOT
@pytest.mark.parametrize("greedy", [False, True], ids=["", "while another program takes space"])
def test_many_deletions_fit_on_a_disk_without_a_free_byte(tmp_path: Path, greedy: bool) -> None:
    with disk(tmp_path / "disk", size=40 << 20):
        store = Store.open(tmp_path / "disk" / "kuota.db", Durability.NORMAL)
        for number in range(200):
            store.create(PODS, thing(f"a{number}", value="x" * 3000))
        fill(tmp_path / "disk" / "filler")
        with pytest.raises(NoSpace):
            store.create(PODS, thing("b"))
        for number in range(200):
            store.delete(PODS, key(f"a{number}"))
            if greedy:
                fill(tmp_path / "disk" / f"filler-{number}")
        assert [] == store.list(PODS).items
        for each in (tmp_path / "disk").glob("filler*"):
            each.unlink()
        store.create(PODS, thing("b"))
        store.close()
        Store.open(tmp_path / "disk" / "kuota.db").close()


@ROOT
def test_a_failed_write_leaves_the_store_as_it_was(tmp_path: Path) -> None:
    with disk(tmp_path / "disk", size=16 << 20):
        store = Store.open(tmp_path / "disk" / "kuota.db", Durability.NORMAL)
        written = 0
        with suppress(NoSpace):
            for written in range(1000):
                store.create(PODS, thing(f"a{written}", value="x" * 200_000))
        assert 0 < written == store.revision < 1000
        store.close()
        with sqlite3.connect(tmp_path / "disk" / "kuota.db") as db:
            assert [("ok",)] == db.execute("PRAGMA integrity_check").fetchall()
        db.close()
