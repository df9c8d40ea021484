# SPDX-License-Identifier: Apache-2.0
"""Stores the objects of the embedded API server and the log of their changes in an SQLite file.

When a write returns, it is in the file; `Durability` defines against which failures it is safe. The
revision of the log is the resourceVersion. Objects are plain JSON, identified by resource
("jobs.batch", "pods") and key. The store only interprets metadata.{namespace,name,resourceVersion};
higher layers handle uid, timestamps, generation, finalizers and selectors.

There is one thread and one connection, and no method awaits: nothing changes between two awaits of
the caller, so read-check-write needs no lock. The store keeps bytes only. Callers may change
returned objects. The result of a write may share parts with its argument.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress

from kuota.api.base import Json, Key
from kuota.api.canonical_json import canonical_json
from kuota.steady_time import SHARED

from . import store_schema as schema
from .changes import Change, ChangeFeed, Watch, decoded
from .store_file import Statement, StoreFile
from .store_reads import ObjectPage, key_of, listed, logged
from .store_schema import (
    AlreadyExists,
    Conflict,
    DataLost,
    Durability,
    Gone,
    InUse,
    NoSpace,
    NotFound,
    StoreError,
    TooNew,
)
from .store_sizes import StoreSizes

__all__ = [
    "AlreadyExists",
    "Change",
    "Conflict",
    "DataLost",
    "Durability",
    "Gone",
    "InUse",
    "NoSpace",
    "NotFound",
    "ObjectPage",
    "Store",
    "StoreError",
    "TooNew",
    "Watch",
    "key_of",
]

# Sorted keys give equal objects equal bytes, and distinguish 1 from true and 1.0.


class Store:
    """The store. Create it with `Store.open`, and use it from one thread and one event loop."""

    def __init__(self, file: StoreFile, clock: Callable[[], float] = SHARED.now) -> None:
        self.path = file.path
        self._file = file
        self._db = file.db
        self._clock = clock
        self._feed = ChangeFeed()
        self._compacted = file.compacted
        self.sizes = StoreSizes(file.db)

    @property
    def watchers(self) -> int:
        """The number of open watches."""
        return self._feed.watchers

    @property
    def buffered_bytes(self) -> int:
        """The size of the changes that watches have not read yet."""
        return self._feed.buffered_bytes

    def counts(self) -> dict[str, int]:
        """The number of objects of each resource."""
        return dict(self._db.execute("SELECT resource, COUNT(*) FROM objects GROUP BY resource"))

    @classmethod
    def open(
        cls,
        path: str | os.PathLike[str],
        durability: Durability = Durability.FULL,
        clock: Callable[[], float] = SHARED.now,
        accept_loss: bool = False,
    ) -> Store:
        """Open the store in this file, created if absent; ":memory:" is not persistent.

        `clock` sets the time of log entries, for compaction by age. With `accept_loss`, continue
        with what is there even if acknowledged objects are missing. Raises TooNew, InUse, Damaged,
        DataLost, StoreError, OSError.
        """
        return cls(StoreFile.open(os.fspath(path), durability, accept_loss), clock)

    def close(self) -> None:
        """Close all watches and the file."""
        self._feed.close()
        self._file.close()

    @property
    def revision(self) -> int:
        """The revision of the latest change; 0 in a new store."""
        return self._file.revision

    @property
    def compacted(self) -> int:
        """The earliest revision that can be watched from or listed at."""
        return self._compacted

    def get(self, resource: str, key: Key) -> Json | None:
        body = self.body(resource, key)
        return None if body is None else decoded(body)

    def body(self, resource: str, key: Key) -> bytes | None:
        """The stored object as JSON."""
        row = self._row(resource, key)
        return None if row is None else row[1]

    def list(
        self,
        resource: str,
        namespace: str | None = None,
        *,
        after: Key | None = None,
        limit: int | None = None,
        most_bytes: int | None = None,
        at: int | None = None,
    ) -> ObjectPage:
        """The objects of a resource, in one namespace or (None) in all.

        `after`, `limit` and `most_bytes` select a page, and `at` the state at an earlier revision,
        so that all pages of a list are consistent. A page ends with the object that reaches
        `most_bytes`. Raises Gone if the log does not reach back to `at`.
        """
        revision = self.revision if at is None else at
        past = revision != self.revision
        if past:
            self._check_reach(revision)
        rows = self._db.execute(
            schema.page(past, namespace is not None, after is not None),
            {
                "resource": resource,
                "namespace": namespace,
                "after_namespace": after and after.namespace,
                "after_name": after and after.name,
                "at": revision,
                "limit": -1 if limit is None else limit,
            },
        )
        return listed(rows, revision, limit, most_bytes)

    def resources(self) -> Sequence[str]:
        """The resources that have objects."""
        return [name for (name,) in self._db.execute(schema.RESOURCES)]

    def objects(self) -> Iterator[tuple[str, Key, bytes]]:
        """Every object: resource, key and JSON. Do not write during the iteration."""
        for resource, namespace, name, body in self._db.execute(schema.EVERYTHING):
            yield resource, Key(namespace, name), body

    def create(self, resource: str, obj: Json) -> Json:
        """Store a new object. Returns it with its resourceVersion; raises AlreadyExists."""
        key = key_of(obj)
        if self._row(resource, key) is not None:
            raise AlreadyExists(f"{resource} {key} already exists")
        stored, body = _at_revision(obj, self.revision + 1)
        self._commit(Change(self.revision + 1, "ADDED", resource, key, body), None)
        return stored

    def update(self, resource: str, obj: Json, expected: str | None) -> Json:
        """Replace an object if it is at resourceVersion `expected` (None: any).

        Returns it with its resourceVersion. An update without changes writes nothing and returns
        the stored object. Raises NotFound, Conflict.
        """
        key = key_of(obj)
        prior, replaced = self._expected(resource, key, expected)
        unchanged, body = _at_revision(obj, prior)
        if body == replaced:
            return unchanged
        stored, body = _at_revision(obj, self.revision + 1)
        change = Change(self.revision + 1, "MODIFIED", resource, key, body, replaced)
        self._commit(change, prior, bool(obj["metadata"].get("deletionTimestamp")))
        return stored

    def delete(self, resource: str, key: Key, expected: str | None = None) -> Json:
        """Remove an object if it is at resourceVersion `expected` (None: any).

        Returns its last state, with the revision of the deletion as resourceVersion. Raises
        NotFound, Conflict.
        """
        prior, replaced = self._expected(resource, key, expected)
        last, body = _at_revision(decoded(replaced), self.revision + 1)
        self._commit(Change(self.revision + 1, "DELETED", resource, key, body, replaced), prior)
        return last

    def watch(
        self, resource: str | None, namespace: str | None = None, since: int | None = None
    ) -> Watch:
        """Changes after revision `since` (None: from now on) of one resource or (None) of all.

        Raises Gone, now or later, if the log does not contain all of them, or if `since` is in the
        future, which can happen after a restore.
        """
        start = self.revision if since is None else since
        self._check_reach(start)
        watch = Watch(self, resource, namespace, start)
        self._feed.join(resource, watch)
        return watch

    def changes(
        self,
        since: int,
        resource: str | None = None,
        namespace: str | None = None,
        limit: int | None = None,
        most_bytes: int | None = None,
    ) -> Sequence[Change]:
        """The log after revision `since`, in order. Raises Gone if that part was compacted.

        Ends with the entry that reaches `limit` or `most_bytes`.
        """
        self._check_reach(since)
        rows = self._db.execute(
            schema.changes(resource is not None, namespace is not None),
            {
                "since": since,
                "resource": resource,
                "namespace": namespace,
                "limit": -1 if limit is None else limit,
            },
        )
        return logged(rows, most_bytes)

    async def synced(self) -> None:
        """Wait until all previous writes are on disk; returns immediately under FULL.

        Under NORMAL, awaiting this before a response is sent gives clients the guarantee of FULL,
        at the cost of one disk sync that all waiting tasks share.
        """
        await self._file.synced()

    def compact(self, keep: int, before: float | None = None, most: int | None = None) -> int:
        """Remove old entries of the log: all but the newest `keep`, and those before `before`.

        Removes at `most` this number of entries, if given, because each takes time. Objects are not
        changed. Watches that have not read removed entries get Gone. Returns the earliest revision
        that can still be watched from.
        """
        until = max(self._compacted, self.revision - keep)
        if before is not None:
            row = self._db.execute(schema.BEFORE, (until, before)).fetchone()
            until = self.revision if row is None else row[0]
        if most is not None:
            until = min(until, self._compacted + most)
        if until > self._compacted:
            self._trim(until)
        return until

    def _trim(self, until: int) -> None:
        removed = self.sizes.until(self._compacted, until)
        statements = (schema.COMPACT, (until,)), (schema.TRIM, (until,))
        self._file.transact(*statements, deletes=True)
        self._compacted = until
        self.sizes.log_bytes -= removed

    def _row(self, resource: str, key: Key) -> tuple[int, bytes] | None:
        row: tuple[int, bytes] | None = self._db.execute(
            schema.ROW, (resource, key.namespace, key.name)
        ).fetchone()
        return row

    def _expected(self, resource: str, key: Key, expected: str | None) -> tuple[int, bytes]:
        row = self._row(resource, key)
        if row is None:
            raise NotFound(f"{resource} {key} does not exist")
        if expected is not None and expected != str(row[0]):
            raise Conflict(
                f"{resource} {key} is at resourceVersion {row[0]}, not {expected}: "
                "read it again and repeat the change"
            )
        return row

    def _check_reach(self, revision: int) -> None:
        if not self._compacted <= revision <= self.revision:
            raise Gone(
                f"revision {revision} is not available: the log contains {self._compacted} to "
                f"{self.revision}. List again"
            )

    def _commit(self, change: Change, prior: int | None, deleting: bool = False) -> None:
        """Write a change. On a full disk, only if it is part of a deletion."""
        place = (change.resource, change.key.namespace, change.key.name)
        if change.type == "DELETED":
            effect: Statement = (schema.DROP, place)
        else:
            effect = (schema.PUT, (*place, change.revision, change.body))
        entry = (change.revision, change.type, *place, self._clock(), prior, change.body)
        deletes = deleting or change.type == "DELETED"
        self._file.transact(effect, (schema.LOG, (*entry, change.replaced)), deletes=deletes)
        self._file.changed(change)
        self.sizes.committed(change)
        self._feed.publish(change)
        if self.sizes.log_bytes > self.sizes.log_limit:
            # The change is committed. Periodic compaction reports what prevents this.
            with suppress(StoreError):
                self._trim(self.sizes.excess(self._compacted))


def _at_revision(obj: Json, revision: int) -> tuple[Json, bytes]:
    metadata = {**obj["metadata"], "resourceVersion": str(revision)}
    stamped = {**obj, "metadata": metadata}
    return stamped, canonical_json(stamped)
