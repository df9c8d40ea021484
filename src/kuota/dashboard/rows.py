# SPDX-License-Identifier: Apache-2.0
"""The rows of all Workloads as JSON, rendered once per change and shared by all viewers."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterable, Iterator

import msgspec

from kuota.api.base import Key
from kuota.failures import report
from kuota.view.observed import ObservedState
from kuota.view.workload_state import OVER

from .feed import Feed
from .models.rows import workload_row
from .scopes import Scope, visible

SLICE_S = 0.005
"""How long rendering may occupy the event loop before others run."""


class RenderedRow(msgspec.Struct, frozen=True):
    """One row. `hiding` is for viewers who may not read everything that the row tells.

    It lacks the reference to a Workload of the namespace `refers`, or what pods of the namespace
    `pods_of` told. A row has at most one of both: a preempted job has not failed.
    """

    json: bytes
    order: str
    cluster_queue: str
    refers: str = ""
    pods_of: str = ""
    hiding: bytes = b""

    def seen_by(self, scope: Scope) -> bytes:
        """Return the row for a viewer who may read the Workload."""
        hides = (self.refers and not visible(scope.workloads, self.refers)) or (
            self.pods_of and not visible(scope.pods, self.pods_of)
        )
        return self.hiding if hides else self.json


class Rows:
    """The rows of the feed's Workloads. Call `refresh` before reading."""

    def __init__(self, feed: Feed) -> None:
        self.version = 0
        """Increases whenever a row may have changed."""
        self._feed = feed
        self._state: ObservedState | None = None
        self._rows: dict[Key, RenderedRow] = {}
        self._pending: dict[str, dict[Key, str]] = {}
        self._stale: set[Key] = set()
        self._lock = asyncio.Lock()
        feed.on_rows.append(self._stale.update)

    async def refresh(self) -> None:
        """Render what has changed, in slices."""
        async with self._lock:
            self._follow_state()
            began = time.perf_counter()
            while self._stale:
                self._render(self._stale.pop())
                if time.perf_counter() - began > SLICE_S:
                    await asyncio.sleep(0)
                    self._follow_state()
                    began = time.perf_counter()

    def get(self, key: Key) -> RenderedRow | None:
        return self._rows.get(key)

    def keys(self, scope: Scope) -> list[Key]:
        """Return the Workloads that the viewer may read."""
        return [key for key in self._rows if visible(scope.workloads, key.namespace)]

    def pending(self, cluster_queue: str) -> list[Key]:
        """Return the pending Workloads of a ClusterQueue in order."""
        found = self._pending.get(cluster_queue, {})
        return sorted(found, key=found.__getitem__)

    def shown(self, keys: Iterable[Key], scope: Scope) -> Iterator[bytes]:
        """Yield the rows of these Workloads, as far as they exist."""
        for key in keys:
            row = self._rows.get(key)
            if row is not None:
                yield row.seen_by(scope)

    def _follow_state(self) -> None:
        """Begin again if the feed did."""
        if self._state is not self._feed.state:
            self._state = self._feed.state
            self.version += 1
            self._rows.clear()
            self._pending.clear()
            self._stale.clear()
            self._stale.update(self._state.workloads)

    def _render(self, key: Key) -> None:
        assert self._state is not None
        self.version += 1
        before = self._rows.pop(key, None)
        if before is not None and before.order:
            self._pending[before.cluster_queue].pop(key, None)
        workload = self._state.workloads.get(key)
        if workload is None:
            return
        try:
            row = workload_row(workload, self._state)
            plain = row
            if row.state in OVER:
                plain = workload_row(workload, self._state, pods=False)
        except Exception as error:
            # One Workload that no code expected must not hide the others.
            report("dashboard", error, f"the row of Workload {key} cannot be rendered")
            return
        other = row.preempted_by
        refers = other.namespace if other is not None and other.namespace != key.namespace else ""
        hiding = msgspec.structs.replace(plain, preempted_by=None)
        self._rows[key] = RenderedRow(
            json=msgspec.json.encode(row),
            order=row.order,
            cluster_queue=row.cluster_queue,
            refers=refers,
            pods_of=key.namespace if plain != row else "",
            hiding=msgspec.json.encode(hiding) if refers or plain != row else b"",
        )
        if row.order:
            self._pending.setdefault(row.cluster_queue, {})[key] = row.order
