# SPDX-License-Identifier: Apache-2.0
"""Limits open connections: which to close when there are too many.

A connection is anonymous until a request on it presents valid credentials. When the anonymous
connections exceed their limit, the oldest one of the peer with the most of them is closed, so that
silent connections cannot keep others out. Authenticated connections are limited per user.
"""

from __future__ import annotations

import resource
from collections import Counter
from collections.abc import Callable

import msgspec

MOST_CONNECTIONS = 8192
ANONYMOUS_SHARE = 4
"""Anonymous connections get at most one part in this many of all connections."""


class ConnectionLimits(msgspec.Struct, frozen=True):
    """Limits of one server. `total` leaves descriptors for the store, for logs and for pods."""

    total: int = 512
    per_user: int = 64
    per_peer: int = 384

    @property
    def anonymous(self) -> int:
        return max(8, self.total // ANONYMOUS_SHARE)


def raise_descriptor_limit() -> ConnectionLimits:
    """Raise the soft limit of open files to the hard limit, and derive limits of connections.

    At most half of the descriptors are for connections. The other half is reserved for the store,
    for logs, and for the processes of pods.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
            soft = hard
        except (OSError, ValueError):
            # A container runtime may report a hard limit that the kernel does not permit.
            pass
    unlimited = soft == resource.RLIM_INFINITY
    total = MOST_CONNECTIONS if unlimited else min(MOST_CONNECTIONS, max(16, soft // 2))
    return ConnectionLimits(total, min(512, max(32, total // 8)), total * 3 // 4)


class AcceptedConnection:
    """One accepted connection. `abort` closes it at once; its transport sets it."""

    def __init__(self, peer: str, abort: Callable[[], object] = lambda: None) -> None:
        self.peer = peer
        self.user: str | None = None
        self.abort = abort


class Connections:
    """The open connections of one server, oldest first."""

    def __init__(self, limits: ConnectionLimits | None = None) -> None:
        self.limits = limits or ConnectionLimits()
        self.counts: Counter[str] = Counter()
        """Connections that were closed or rejected since the start, by reason."""
        self._anonymous: dict[AcceptedConnection, None] = {}
        self._known: dict[AcceptedConnection, None] = {}
        self._per_peer: Counter[str] = Counter()
        self._per_user: Counter[str] = Counter()

    def __len__(self) -> int:
        return len(self._anonymous) + len(self._known)

    @property
    def anonymous(self) -> int:
        """The number of connections without valid credentials."""
        return len(self._anonymous)

    def admit(self, new: AcceptedConnection) -> bool:
        """Add an accepted connection; closes others if it must. False if it must be rejected."""
        crowded = self._per_peer[new.peer] >= self.limits.per_peer
        if crowded and not self._evict("peer_limit", new.peer):
            self.counts["peer_limit"] += 1
            return False
        full = len(self) >= self.limits.total or len(self._anonymous) >= self.limits.anonymous
        if full and not self._evict("anonymous_limit"):
            self.counts["total_limit"] += 1
            return False
        self._anonymous[new] = None
        self._per_peer[new.peer] += 1
        return True

    def authenticated(self, connection: AcceptedConnection, user: str) -> bool:
        """Record the user of a connection. False if the user has too many connections."""
        if connection.user == user:
            return True
        if self._per_user[user] >= self.limits.per_user:
            self.counts["user_limit"] += 1
            return False
        if connection.user is not None:
            decrement(self._per_user, connection.user)
        elif connection not in self._anonymous:
            return False  # It is closed already.
        self._anonymous.pop(connection, None)
        self._known[connection] = None
        self._per_user[user] += 1
        connection.user = user
        return True

    def closed(self, connection: AcceptedConnection) -> None:
        """Remove a connection. Does nothing if it was removed before."""
        if connection in self._anonymous:
            del self._anonymous[connection]
        elif connection in self._known:
            del self._known[connection]
            decrement(self._per_user, connection.user or "")
        else:
            return
        decrement(self._per_peer, connection.peer)

    def make_room(self) -> bool:
        """Close an anonymous connection because descriptors have run out. False if none is left."""
        return self._evict("descriptors")

    def _evict(self, reason: str, peer: str = "") -> bool:
        """Close the oldest anonymous connection of the peer, by default of the one with the most.
        False if there is none.
        """
        if not peer:
            crowd = Counter(each.peer for each in self._anonymous)
            if not crowd:
                return False
            peer = crowd.most_common(1)[0][0]
        oldest = next((each for each in self._anonymous if each.peer == peer), None)
        if oldest is None:
            return False
        self.counts[reason] += 1
        self.closed(oldest)
        oldest.abort()
        return True


def decrement(counter: Counter[str], name: str) -> None:
    """Count one less, and drop a name whose count is 0."""
    counter[name] -= 1
    if counter[name] <= 0:
        del counter[name]
