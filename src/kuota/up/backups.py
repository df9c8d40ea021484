# SPDX-License-Identifier: Apache-2.0
"""Automatic backups of the store: created while it is in use, and rotated.

The newest ones are kept, and one of each of the last days. Each is a store in one file, for
`kuota restore`.
"""

from __future__ import annotations

import asyncio
import logging
import os
import re
import sqlite3
from collections.abc import Callable, Sequence
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import Never

import msgspec

from kuota.server.store import Store, StoreError
from kuota.server.store_check import reading
from kuota.server.store_copies import back_up

EVERY_S = 3600.0
FIRST_S = 60.0
"""The delay of the first backup of a new store, in which an admin typically sets it up."""
NEWEST, DAYS = 6, 7
_NAME = re.compile(r"kuota-(\d{8}T\d{6})Z\.db")
_FORMAT = "%Y%m%dT%H%M%S"
LOG = logging.getLogger(__name__)


class Backup(msgspec.Struct, frozen=True):
    """One backup and its time, which is part of its name."""

    path: Path
    at: datetime

    @property
    def objects(self) -> int | None:
        """The number of its objects; None if it cannot be read."""
        try:
            with closing(reading(str(self.path))) as connection:
                return int(connection.execute("SELECT count(*) FROM objects").fetchone()[0])
        except sqlite3.Error:
            return None


class Backups:
    """The backups in one directory, which is created with the first one."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def found(self) -> list[Backup]:
        """All backups, newest first."""
        paths = self.folder.iterdir() if self.folder.is_dir() else ()
        named = [(each, _NAME.fullmatch(each.name)) for each in paths]
        found = [Backup(path, _time(match[1])) for path, match in named if match is not None]
        return sorted(found, key=lambda each: each.at, reverse=True)

    def named(self, name: str) -> Backup | None:
        """The backup with this file name, or the newest one for "latest"."""
        found = self.found()
        if name == "latest":
            return found[0] if found else None
        return next((each for each in found if name in (each.path.name, each.path.stem)), None)

    def create(self, store: Path, now: datetime) -> Path:
        """Back up the store, and delete backups that are no longer needed.

        Raises StoreError, OSError.
        """
        self.folder.mkdir(mode=0o700, exist_ok=True)
        _check_room(self.folder, store)
        target = self.folder / f"kuota-{now.astimezone(UTC).strftime(_FORMAT)}Z.db"
        back_up(str(store), str(target))
        for each in expendable(self.found()):
            each.path.unlink(missing_ok=True)
        return target


def expendable(backups: Sequence[Backup]) -> list[Backup]:
    """The backups to delete: neither among the newest nor the last of one of the last days."""
    ordered = sorted(backups, key=lambda each: each.at, reverse=True)
    kept = {each.path for each in ordered[:NEWEST]}
    last_of_day: dict[str, Backup] = {}
    for each in ordered:
        last_of_day.setdefault(f"{each.at:%Y%m%d}", each)
    kept |= {each.path for each in list(last_of_day.values())[:DAYS]}
    return [each for each in ordered if each.path not in kept]


async def keep_backed_up(
    store: Store, backups: Backups, clock: Callable[[], float], every_s: float = EVERY_S
) -> Never:
    """Back up the store periodically if it has changed. Never returns."""
    last = None
    while True:
        await asyncio.sleep(_delay_s(backups, clock(), every_s))
        revision = store.revision
        if revision == last:
            await asyncio.sleep(every_s)
            continue
        try:
            now = datetime.fromtimestamp(clock(), UTC)
            await asyncio.to_thread(backups.create, Path(store.path), now)
            last = revision
        except (StoreError, OSError) as error:
            LOG.warning("no automatic backup was made: %s", error)
            await asyncio.sleep(every_s)


def _delay_s(backups: Backups, now: float, every_s: float) -> float:
    """Seconds until the next backup is due, at most one interval, whatever the clock shows."""
    found = backups.found()
    if not found:
        return min(FIRST_S, every_s)
    return min(every_s, max(0.0, found[0].at.timestamp() + every_s - now))


def _check_room(folder: Path, store: Path) -> None:
    """Raises StoreError if a backup would fill the disk: a copy, and its temporary files."""
    disk = os.statvfs(folder)
    needed = 4 * store.stat().st_size
    if disk.f_bavail * disk.f_frsize < needed:
        raise StoreError(f"less than {needed >> 20} MiB are free in {folder}")


def _time(text: str) -> datetime:
    return datetime.strptime(text, _FORMAT).replace(tzinfo=UTC)
