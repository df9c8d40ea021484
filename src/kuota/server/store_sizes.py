# SPDX-License-Identifier: Apache-2.0
"""Counts what the store contains: objects and bytes by resource and namespace, and the log."""

from __future__ import annotations

import sqlite3
from collections import Counter

from . import store_schema as schema
from .changes import Change

LOG_BYTES = 256 << 20
"""The size of the log above which its oldest entries are removed, however recent they are."""


class StoreSizes:
    """The sizes of one store, read once and then updated with each change."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self.log_limit = LOG_BYTES
        self._db = connection
        self._objects: Counter[tuple[str, str]] = Counter()
        self._namespaces: Counter[str] = Counter()
        self._bytes: Counter[str] = Counter()
        for resource, namespace, count, size in connection.execute(schema.SIZES):
            self._objects[resource, namespace] = count
            self._namespaces[namespace] += count
            self._bytes[namespace] += size
        self.log_bytes = int(connection.execute(schema.LOG_SIZE).fetchone()[0])

    def objects(self, resource: str, namespace: str) -> int:
        """The number of objects of a resource in a namespace."""
        return self._objects[resource, namespace]

    def namespace(self, namespace: str) -> tuple[int, int]:
        """The number and the total size in bytes of all objects in a namespace."""
        return self._namespaces[namespace], self._bytes[namespace]

    def committed(self, change: Change) -> None:
        """Account for a change."""
        place, namespace = (change.resource, change.key.namespace), change.key.namespace
        replaced = len(change.replaced or b"")
        self.log_bytes += change.size
        self._bytes[namespace] -= replaced
        if change.type != "DELETED":
            self._bytes[namespace] += len(change.body)
        step = {"ADDED": 1, "MODIFIED": 0, "DELETED": -1}[change.type]
        if step:
            self._objects[place] += step
            self._namespaces[namespace] += step
            if not self._objects[place]:
                del self._objects[place]
            if not self._namespaces[namespace]:
                del self._namespaces[namespace], self._bytes[namespace]

    def until(self, after: int, revision: int) -> int:
        """The bytes of the log entries after one revision, up to the other."""
        return int(self._db.execute(schema.LOG_PART, (after, revision)).fetchone()[0])

    def excess(self, compacted: int) -> int:
        """The revision up to which the log must be removed so that it is within its limit."""
        surplus, until = self.log_bytes - self.log_limit, compacted
        if surplus > 0:
            rows = self._db.execute(schema.LOG_OLDEST, (compacted,))
            for revision, size in rows:
                surplus, until = surplus - size, revision
                if surplus <= 0:
                    break
            rows.close()
        return until
