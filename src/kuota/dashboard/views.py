# SPDX-License-Identifier: Apache-2.0
"""The views of a stream: what a new viewer gets, and what follows after changes.

One view serves all its viewers. What viewers with the same permissions get is computed once.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Hashable, Iterable, Iterator
from typing import Generic, Protocol, TypeVar

import msgspec

from kuota.api.base import Key

from .feed import TICK_S, Feed
from .models.tree import queue_meta
from .models.visible import visible_queue
from .responses import not_found
from .rows import Rows
from .scopes import Scope, visible
from .shapes import Shape

_MOST_CACHED = 64
"""The most results that one view caches."""
REST = 10
"""Views are computed for at most one part in this many of the time, all of them together."""
SLOWEST_S = 10.0
"""The longest time between two events of a view that changes."""
K = TypeVar("K", bound=Hashable)
V = TypeVar("V")

Changes = tuple[frozenset[Key], frozenset[str]]
"""The Workloads that look different, and the kinds that changed."""
TIME = "time"
"""Among the kinds of changes: it is time to refresh the view."""


class Load:
    """How long views take to compute. The more they take, the less often they are computed."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._costs: dict[Hashable, tuple[float, float]] = {}

    def record(self, what: Hashable, took_s: float) -> None:
        """Record how long one view took for viewers with the same permissions."""
        self._costs[what] = self._clock(), took_s

    @property
    def pace_s(self) -> float:
        """The time between two computations of each view."""
        since = self._clock() - 2 * SLOWEST_S
        self._costs = {what: cost for what, cost in self._costs.items() if cost[0] > since}
        total_s = sum(took_s for _, took_s in self._costs.values())
        return min(SLOWEST_S, max(TICK_S, REST * total_s))


class Sent:
    """What one viewer got last of the parts that are sent whole."""

    def __init__(self) -> None:
        self.part = b""

    def news(self, part: bytes) -> bytes | None:
        """Return the part if it differs from what was sent last, and remember it."""
        if part == self.part:
            return None
        self.part = part
        return part


class View(Protocol):
    """One view. Raises StatusError if what it shows does not exist."""

    name: str

    @property
    def pace_s(self) -> float:
        """The least time between two events."""

    refresh_s: float | None
    """How often the view may change although no object did; None if it does not."""

    async def snapshot(self, scope: Scope, sent: Sent) -> Iterable[bytes]:
        """Return the data of the event `snapshot`, in pieces."""

    async def change(self, scope: Scope, changes: Changes, sent: Sent) -> bytes | None:
        """Return the data of the event `change`; None if the viewer sees no difference."""


class WorkloadsView:
    """All jobs, as rows."""

    name = "workloads"
    refresh_s: float | None = None

    def __init__(self, rows: Rows) -> None:
        self._rows = rows
        self._last = _Recent[tuple[int, Scope, frozenset[Key]], bytes | None]()

    @property
    def pace_s(self) -> float:
        return TICK_S

    async def snapshot(self, scope: Scope, sent: Sent) -> Iterable[bytes]:
        await self._rows.refresh()
        return _snapshot(self.name, b'{"rows":[', self._rows.shown(self._rows.keys(scope), scope))

    async def change(self, scope: Scope, changes: Changes, sent: Sent) -> bytes | None:
        await self._rows.refresh()
        at = self._rows.version, scope, changes[0]
        if at not in self._last:
            self._last[at] = self._change(scope, changes[0])
        return self._last[at]

    def _change(self, scope: Scope, changed: frozenset[Key]) -> bytes | None:
        keys = [key for key in changed if visible(scope.workloads, key.namespace)]
        gone = [str(key) for key in keys if self._rows.get(key) is None]
        return _row_change(self._rows.shown(keys, scope), gone)


class QueueView:
    """The pending workloads of a ClusterQueue in order, and its quota."""

    name = "queue"
    refresh_s: float | None = None

    def __init__(self, feed: Feed, rows: Rows, load: Load, cluster_queue: str) -> None:
        self._load = load
        self._feed = feed
        self._rows = rows
        self._queue = cluster_queue
        self._meta = _Recent[tuple[int, int, Scope], bytes]()

    @property
    def pace_s(self) -> float:
        return self._load.pace_s

    async def snapshot(self, scope: Scope, sent: Sent) -> Iterable[bytes]:
        await self._rows.refresh()
        keys = self._rows.pending(self._queue)
        sent.part = self._current_meta(scope, keys)
        shown = [key for key in keys if visible(scope.workloads, key.namespace)]
        head = b'{"meta":' + sent.part + b',"rows":['
        return _snapshot(self.name, head, self._rows.shown(shown, scope))

    async def change(self, scope: Scope, changes: Changes, sent: Sent) -> bytes | None:
        await self._rows.refresh()
        order = self._rows.pending(self._queue)
        pending = set(order)
        changed = [key for key in changes[0] if visible(scope.workloads, key.namespace)]
        gone = [str(key) for key in changed if key not in pending]
        meta = sent.news(self._current_meta(scope, order))
        return _row_change(
            self._rows.shown(filter(pending.__contains__, changed), scope), gone, meta
        )

    def _current_meta(self, scope: Scope, order: list[Key]) -> bytes:
        at = self._feed.tick, self._rows.version, scope
        if at not in self._meta:
            began = time.perf_counter()
            self._meta[at] = self._encoded_meta(scope, order)
            self._load.record((self.name, self._queue, scope), time.perf_counter() - began)
        return self._meta[at]

    def _encoded_meta(self, scope: Scope, order: list[Key]) -> bytes:
        """Return the meta for a viewer. Raises StatusError if the queue does not exist."""
        meta = queue_meta(self._feed.state, self._queue)
        if meta is None:
            raise not_found(f'ClusterQueue "{self._queue}" does not exist')
        shown = visible_queue(
            meta,
            order,
            lambda each: visible(scope.workloads, each),
            lambda each: visible(scope.local_queues, each),
        )
        return msgspec.json.encode(shown)


class WholeView:
    """A view that is sent whole after a change of one of the kinds that it shows."""

    def __init__(
        self,
        name: str,
        feed: Feed,
        load: Load,
        kinds: Iterable[str],
        model: Callable[[Scope], Awaitable[Shape]],
        refresh_s: float | None = None,
    ) -> None:
        self.name = name
        self.refresh_s = refresh_s
        self._load = load
        self._feed = feed
        self._kinds = frozenset((*kinds, TIME))
        self._model = model
        self._last = _Recent[tuple[int, int, Scope], bytes]()

    @property
    def pace_s(self) -> float:
        return self._load.pace_s

    async def snapshot(self, scope: Scope, sent: Sent) -> Iterable[bytes]:
        sent.part = await self._encoded(scope)
        return [b'{"view":"', self.name.encode(), b'","model":', sent.part, b"}"]

    async def change(self, scope: Scope, changes: Changes, sent: Sent) -> bytes | None:
        if not changes[1] & self._kinds:
            return None
        body = sent.news(await self._encoded(scope))
        return b'{"model":' + body + b"}" if body is not None else None

    async def _encoded(self, scope: Scope) -> bytes:
        period = int(time.monotonic() / self.refresh_s) if self.refresh_s else 0
        at = self._feed.tick, period, scope
        if at not in self._last:
            began = time.perf_counter()
            self._last[at] = msgspec.json.encode(await self._model(scope))
            self._load.record((self.name, scope), time.perf_counter() - began)
        return self._last[at]


class _Recent(Generic[K, V]):
    """The latest results by what they depend on."""

    def __init__(self) -> None:
        self._found: dict[K, V] = {}

    def __contains__(self, key: K) -> bool:
        return key in self._found

    def __getitem__(self, key: K) -> V:
        return self._found[key]

    def __setitem__(self, key: K, value: V) -> None:
        if len(self._found) >= _MOST_CACHED:
            del self._found[next(iter(self._found))]
        self._found[key] = value


def _snapshot(view: str, head: bytes, rows: Iterator[bytes]) -> Iterator[bytes]:
    yield b'{"view":"' + view.encode() + b'","model":' + head
    first = True
    for row in rows:
        yield row if first else b"," + row
        first = False
    yield b"]}}"


def _row_change(rows: Iterator[bytes], gone: list[str], meta: bytes | None = None) -> bytes | None:
    upsert = b",".join(rows)
    if not upsert and not gone and meta is None:
        return None
    tail = b',"meta":' + meta if meta is not None else b""
    return b'{"upsert":[' + upsert + b'],"remove":' + msgspec.json.encode(gone) + tail + b"}"
