# SPDX-License-Identifier: Apache-2.0
"""Reads pages of objects and of the log, which are limited by number and by bytes."""

from __future__ import annotations

import sqlite3
from typing import Any

import msgspec

from kuota.api.base import Json, Key

from .changes import Change, decoded


class ObjectPage(msgspec.Struct, frozen=True):
    """The objects at `revision`, ordered by namespace and name.

    `last` is the key of the last one. There may be `more` after it.
    """

    bodies: list[bytes]
    revision: int
    last: Key | None = None
    more: bool = False

    @property
    def items(self) -> list[Json]:
        """The objects, decoded at each access. The caller may change them."""
        return [decoded(body) for body in self.bodies]


def key_of(obj: Json) -> Key:
    metadata = obj["metadata"]
    return Key(metadata.get("namespace") or "", metadata["name"])


def listed(
    rows: sqlite3.Cursor, revision: int, limit: int | None, most_bytes: int | None
) -> ObjectPage:
    """The page in rows of namespace, name and body."""
    found = _until(rows, most_bytes, 2)
    last = Key(found[-1][0], found[-1][1]) if found else None
    cut = most_bytes is not None and sum(len(row[2]) for row in found) >= most_bytes
    more = bool(found) and (cut or len(found) == limit)
    return ObjectPage([row[2] for row in found], revision, last, more)


def logged(rows: sqlite3.Cursor, most_bytes: int | None) -> list[Change]:
    """The changes in rows of the log."""
    return [
        Change(row[0], row[1], row[2], Key(row[3], row[4]), row[5], row[6])
        for row in _until(rows, most_bytes, 5, 6)
    ]


def _until(rows: sqlite3.Cursor, most_bytes: int | None, *columns: int) -> list[tuple[Any, ...]]:
    """The rows up to the one with which the blobs in these columns reach `most_bytes`."""
    if most_bytes is None:
        return rows.fetchall()
    found: list[tuple[Any, ...]] = []
    for row in rows:
        found.append(row)
        most_bytes -= sum(len(row[column] or b"") for column in columns)
        if most_bytes <= 0:
            break
    rows.close()
    return found
