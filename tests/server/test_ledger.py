# SPDX-License-Identifier: Apache-2.0
"""A store that lost acknowledged objects does not open, and one that lost nothing always does."""

from __future__ import annotations

import asyncio
import shutil
import sqlite3
from collections.abc import Callable
from pathlib import Path

import pytest

from kuota.server.ledger import Ledger
from kuota.server.store import Durability, Gone, Store
from kuota.server.store_copies import back_up, restore
from kuota.server.store_schema import RESTORE_GAP, Damaged, DataLost
from server.objects import JOBS, PODS, at, key, thing

FILES = ("kuota.db", "kuota.db-wal", "kuota.db.ledger")


class Killed:
    """The files that a killed process leaves: checkpointed Jobs, and pods in the log only."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.path = str(folder / "kuota.db")
        self.log = folder / "kuota.db-wal"
        self.ledger = folder / "kuota.db.ledger"

    def names(self, resource: str = PODS, **options: bool) -> str:
        store = Store.open(self.path, **options)  # type: ignore[arg-type]
        found = store.list(resource).items
        store.close()
        return "".join(each["metadata"]["name"] for each in found)


def copied(source: Path, target: Path, *names: str) -> None:
    for name in names or FILES:
        shutil.copyfile(source / name, target / name)


@pytest.fixture
def killed(tmp_path: Path) -> Killed:
    origin, left = tmp_path / "origin", tmp_path / "left"
    origin.mkdir()
    left.mkdir()
    first = Store.open(origin / "kuota.db")
    for name in "xyz":
        first.create(JOBS, thing(name))
    first.close()
    store = Store.open(origin / "kuota.db", Durability.NORMAL)
    for name in "abc":
        store.create(PODS, thing(name))
    asyncio.run(store.synced())
    copied(origin, left)
    store.close()
    return Killed(left)


def remove_log(killed: Killed) -> None:
    killed.log.unlink()


def truncate_log(killed: Killed) -> None:
    killed.log.write_bytes(killed.log.read_bytes()[:-5000])


def damage_log(killed: Killed) -> None:
    content = bytearray(killed.log.read_bytes())
    content[40:44] = b"\xff\xff\xff\xff"
    killed.log.write_bytes(content)


def empty_file(killed: Killed) -> None:
    Path(killed.path).write_bytes(b"")
    killed.log.unlink()


def empty_file_beside_its_log(killed: Killed) -> None:
    Path(killed.path).write_bytes(b"")


def remove_file(killed: Killed) -> None:
    Path(killed.path).unlink()
    killed.log.unlink()


def remove_log_of_new_store(killed: Killed) -> None:
    """Only the header of a new store is in its file."""
    Path(killed.path).unlink()
    killed.log.unlink()
    sqlite3.connect(killed.path).execute("PRAGMA journal_mode = WAL").connection.close()


def delete_rows(killed: Killed) -> None:
    with sqlite3.connect(killed.path) as db:
        db.execute("DELETE FROM objects WHERE resource = ? AND name = 'b'", (PODS,))
    db.close()


def alter_row(killed: Killed) -> None:
    with sqlite3.connect(killed.path) as db:
        text = "replace(CAST(body AS TEXT), '\"b\"', '\"B\"')"
        db.execute(f"UPDATE objects SET body = {text} WHERE name = 'b'")
    db.close()


def replace_by_older_copy(killed: Killed) -> None:
    older = killed.folder.parent / "older.db"
    store = Store.open(older)
    store.create(PODS, thing("a"))
    store.close()
    shutil.copyfile(older, killed.path)
    killed.log.unlink()


FAULTS: list[Callable[[Killed], None]] = [
    remove_log,
    truncate_log,
    damage_log,
    empty_file,
    empty_file_beside_its_log,
    remove_file,
    remove_log_of_new_store,
    delete_rows,
    alter_row,
    replace_by_older_copy,
]


@pytest.mark.parametrize("fault", FAULTS)
def test_a_store_that_lost_acknowledged_objects_does_not_open(
    killed: Killed, fault: Callable[[Killed], None]
) -> None:
    fault(killed)
    before = {each.name: each.read_bytes() for each in killed.folder.glob("*.db*")}
    for _ in range(2):
        with pytest.raises(DataLost):
            Store.open(killed.path)
    after = {each.name: each.read_bytes() for each in killed.folder.glob("*.db*")}
    after = {name: after[name] for name in before if not name.endswith("-shm")}
    assert after == {name: before[name] for name in after}, "what is left can still be examined"


@pytest.mark.parametrize("fault", FAULTS)
def test_a_loss_can_be_accepted_and_everyone_lists_again(
    killed: Killed, fault: Callable[[Killed], None]
) -> None:
    fault(killed)
    store = Store.open(killed.path, accept_loss=True)
    for since in (3, 6):
        with pytest.raises(Gone):
            store.watch(PODS, since=since)
    created = store.create(PODS, thing("new"))
    assert str(RESTORE_GAP) < created["metadata"]["resourceVersion"]
    store.close()
    assert killed.names().endswith("new")


def test_the_report_says_what_is_lost(killed: Killed) -> None:
    remove_log(killed)
    with pytest.raises(DataLost) as found:
        Store.open(killed.path)
    said = str(found.value)
    assert "it ends at revision 3, but revision 6 was acknowledged: 3 changes are missing" in said
    assert "It held 6 objects and now holds 3: pods 3 -> 0" in said
    remove_log(killed) if killed.log.exists() else None
    Path(killed.path).unlink()
    with pytest.raises(DataLost, match=r"is missing: it held 6 objects \(3 jobs\.batch, 3 pods\)"):
        Store.open(killed.path)


def test_accepting_a_loss_changes_nothing_if_there_is_none(killed: Killed) -> None:
    assert "abc" == killed.names(accept_loss=True)
    store = Store.open(killed.path)
    assert 6 == store.revision
    store.close()


def test_damaged_pages_are_reported_as_damage(killed: Killed) -> None:
    killed.names()
    content = bytearray(Path(killed.path).read_bytes())
    content[4096:] = b"\xa5" * (len(content) - 4096)
    Path(killed.path).write_bytes(content)
    with pytest.raises(Damaged, match=r"kuota\.db"):
        Store.open(killed.path)
    Path(killed.path).write_bytes(b"no database" * 999)
    with pytest.raises(Damaged, match=r"kuota\.db"):
        Store.open(killed.path)


def test_a_damaged_ledger_is_no_proof_of_anything(killed: Killed) -> None:
    killed.ledger.write_bytes(b"\0" * 40000)
    with pytest.raises(DataLost, match="ledger is damaged"):
        Store.open(killed.path)
    assert "abc" == killed.names(accept_loss=True)
    assert "abc" == killed.names()


def test_a_store_of_an_earlier_kuota_has_no_ledger_and_opens(killed: Killed) -> None:
    killed.ledger.unlink()
    assert "abc" == killed.names()
    assert killed.ledger.exists()


def test_one_torn_slot_of_the_ledger_does_not_matter(killed: Killed) -> None:
    content = killed.ledger.read_bytes()
    for slot in (0, 16384):
        torn = bytearray(content)
        torn[slot + 20 : slot + 30] = b"\0" * 10
        killed.ledger.write_bytes(torn)
        assert "abc" == killed.names()


def test_no_moment_of_a_power_failure_causes_a_false_alarm(tmp_path: Path) -> None:
    """The disk has some state of the store, and any earlier or equal state of the ledger."""
    origin = tmp_path / "origin"
    origin.mkdir()
    store = Store.open(origin / "kuota.db", Durability.NORMAL)
    ledgers: list[bytes] = []

    def check() -> None:
        for number, ledger in enumerate(ledgers):
            left = tmp_path / f"{store.revision}-{number}"
            left.mkdir()
            copied(origin, left, "kuota.db", "kuota.db-wal")
            (left / "kuota.db.ledger").write_bytes(ledger)
            Store.open(left / "kuota.db", Durability.NORMAL).close()

    async def story() -> None:
        for turn in range(4):
            ledgers.append((origin / "kuota.db.ledger").read_bytes())
            store.create(PODS, thing(f"a{turn}"))
            check()
            await store.synced()
            ledgers.append((origin / "kuota.db.ledger").read_bytes())
            store.update(PODS, thing(f"a{turn}", value="new"), None)
            check()
            if turn % 2:
                store.delete(PODS, key(f"a{turn}"))
                store.compact(keep=1)
                check()

    asyncio.run(story())
    store.close()


def test_a_restored_store_opens_and_its_revisions_are_above_the_lost_ones(
    killed: Killed, tmp_path: Path
) -> None:
    copy = str(tmp_path / "copy.db")
    back_up(killed.path, copy)
    remove_file(killed)
    restore(copy, killed.path, "now")
    store = Store.open(killed.path)
    assert at(thing("a"), 4) == store.get(PODS, key("a"))
    assert store.revision > RESTORE_GAP + 6
    store.close()
    assert Ledger(killed.path).latest() is not None
