# SPDX-License-Identifier: Apache-2.0
"""Automatic backups: when they are made, which are kept, and how they are listed."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from click.testing import CliRunner

from kuota.cli.main import main
from kuota.server.store import Store
from kuota.up import backups as module
from kuota.up.backups import DAYS, NEWEST, Backup, Backups, expendable, keep_backed_up
from server.objects import PODS, thing

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)


def hourly(count: int) -> list[Backup]:
    times = [NOON - timedelta(hours=number) for number in range(count)]
    return [Backup(Path(f"{each:%d-%H}"), each) for each in times]


def test_the_newest_and_one_of_each_day_are_kept() -> None:
    made = hourly(24 * 20)
    kept = [each for each in made if each not in expendable(made)]
    assert made[:NEWEST] == kept[:NEWEST]
    days = [each.at.day for each in kept]
    assert DAYS == len(set(days))
    assert NEWEST + DAYS - 1 == len(kept)
    assert {23} == {each.at.hour for each in kept[NEWEST:]}, "the last one of an earlier day"
    assert [] == expendable(hourly(NEWEST))


@pytest.fixture
def store(tmp_path: Path) -> Store:
    store = Store.open(tmp_path / "kuota.db")
    store.create(PODS, thing("a"))
    return store


def test_a_store_is_backed_up_when_it_has_changed(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    backups = Backups(tmp_path / "backups")
    waits: list[float] = []
    now = NOON.timestamp()

    async def sleep(seconds: float) -> None:
        """Let time pass; the second backup is due after a change only."""
        nonlocal now
        waits.append(seconds)
        now += seconds
        if len(waits) == 5:
            store.create(PODS, thing("b"))
        if len(waits) == 8:
            raise asyncio.CancelledError

    async def story() -> None:
        monkeypatch.setattr(asyncio, "sleep", sleep)
        with pytest.raises(asyncio.CancelledError):
            await keep_backed_up(store, backups, lambda: now)

    asyncio.run(story())
    assert [2, 1] == [each.objects for each in backups.found()]
    assert 0o700 == (tmp_path / "backups").stat().st_mode & 0o777
    store.close()


@pytest.mark.parametrize("jump_s", [-7200.0, 7200.0])
def test_a_clock_that_jumps_neither_stops_backups_nor_floods_the_disk(
    store: Store, tmp_path: Path, jump_s: float
) -> None:
    backups = Backups(tmp_path / "backups")
    backups.create(Path(store.path), NOON)
    wait_s = module._delay_s(backups, NOON.timestamp() + jump_s, module.EVERY_S)
    assert (0.0 if jump_s > 0 else module.EVERY_S) == wait_s
    store.close()


def test_a_disk_without_room_gets_no_backup(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_check_room", lambda *_: fail())

    def fail() -> None:
        raise OSError(28, "No space left on device")

    async def stop(_: float) -> None:
        stops.append(1)
        if len(stops) == 2:
            raise asyncio.CancelledError

    stops: list[int] = []

    async def story() -> None:
        monkeypatch.setattr(asyncio, "sleep", stop)
        with pytest.raises(asyncio.CancelledError):
            await keep_backed_up(store, Backups(tmp_path / "backups"), NOON.timestamp)

    asyncio.run(story())
    assert [] == Backups(tmp_path / "backups").found()
    store.close()


def test_restore_lists_backups_and_restores_one_by_name(store: Store, tmp_path: Path) -> None:
    def kuota(*arguments: str, code: int = 0) -> str:
        done = CliRunner().invoke(main, ["restore", *arguments, "--state", str(tmp_path)])
        assert code == done.exit_code, done.output
        return done.output

    assert "There are no backups" in kuota()
    backups = Backups(tmp_path / "backups")
    backups.create(Path(store.path), NOON)
    store.create(PODS, thing("b"))
    backups.create(Path(store.path), NOON + timedelta(hours=1))
    store.close()
    first, second = kuota().splitlines()[1:3]
    assert ["kuota-20260301T130000Z", "2"] == [first.split()[0], first.split()[4]]
    assert ["kuota-20260301T120000Z", "1"] == [second.split()[0], second.split()[4]]
    assert "lists the automatic backups" in kuota("kuota-2", code=2)
    kuota("kuota-20260301T120000Z")
    assert 1 == objects(tmp_path)
    kuota("latest")
    assert 2 == objects(tmp_path)


def objects(folder: Path) -> int:
    store = Store.open(folder / "kuota.db")
    try:
        return len(store.list(PODS).items)
    finally:
        store.close()
