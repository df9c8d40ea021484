# SPDX-License-Identifier: Apache-2.0
"""Sessions of browsers, and the one-time codes that begin them.

Secrets are random and of 256 bits. Only their digests are stored, so that neither a copy of the
memory nor a comparison reveals one. All tables are bounded: the oldest entry makes room.
"""

from __future__ import annotations

import hashlib
import secrets
from collections import deque
from collections.abc import Callable

import msgspec

from .access import Credential

GROUP = "dashboard.kuota.dev"
CODES_PATH = f"/apis/{GROUP}/v1alpha1/signincodes"
"""Where a server issues codes to clients of its API."""
CODE_S = 300.0
"""How long a one-time code is valid."""
SESSION_S = 12 * 3600.0
"""How long a session lasts. Afterwards the user signs in again."""
MOST_CODES = 1000
MOST_SESSIONS = 2000
MOST_PER_OWNER = 50
"""The most codes, and the most sessions, of one user and the service accounts of this user."""
FAILURES = 20
FAILURES_S = 60.0
"""A peer with this many failed sign-ins in this time is told to wait after each further one."""
_MOST_PEERS = 1000


class BrowserSession(msgspec.Struct, frozen=True):
    """One signed-in browser. `csrf` proves that a request comes from our own page.

    `owner` is who signed in, and `flow` the user to whom limits apply.
    """

    id: bytes
    owner: str
    flow: str
    credential: Credential
    csrf: str
    until: float


class _Code(msgspec.Struct, frozen=True):
    owner: str
    flow: str
    credential: Credential
    until: float


class Sessions:
    """All codes and sessions of one server. `clock` returns monotonic seconds."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._codes: dict[bytes, _Code] = {}
        self._sessions: dict[bytes, BrowserSession] = {}

    def issue_code(self, owner: str, credential: Credential, flow: str = "") -> str:
        """Return a code with which the owner of the credential can sign in once.

        It counts as one of `flow`, by default the owner.
        """
        text, flow = secrets.token_urlsafe(32), flow or owner
        _make_room(self._codes, flow, MOST_CODES)
        self._codes[digest(text)] = _Code(owner, flow, credential, self._clock() + CODE_S)
        return text

    def redeem(self, code: str) -> tuple[str, Credential] | None:
        """Use a code up; None if there is no such code, or if it was used or has expired."""
        found = self._codes.pop(digest(code), None)
        if found is None or found.until <= self._clock():
            return None
        return found.owner, found.credential

    def begin(self, owner: str, credential: Credential, flow: str = "") -> str:
        """Begin a session, and return the value of its cookie. It counts as one of `flow`."""
        text, flow = secrets.token_urlsafe(32), flow or owner
        _make_room(self._sessions, flow, MOST_SESSIONS)
        self._sessions[digest(text)] = BrowserSession(
            id=digest(text),
            owner=owner,
            flow=flow,
            credential=credential,
            csrf=secrets.token_urlsafe(32),
            until=self._clock() + SESSION_S,
        )
        return text

    def find(self, cookie: str) -> BrowserSession | None:
        """Return the session with this cookie; None if there is none any more."""
        found = self._sessions.get(digest(cookie)) if cookie else None
        return found if found is not None and self.lasts(found) else None

    def lasts(self, session: BrowserSession) -> bool:
        """Whether the session has neither ended nor expired."""
        return session.id in self._sessions and session.until > self._clock()

    def end(self, cookie: str) -> None:
        """End the session with this cookie. Does nothing if there is none."""
        self._sessions.pop(digest(cookie), None)

    def __len__(self) -> int:
        return len(self._sessions)


class FailureLimit:
    """Counts failed sign-ins of each peer in a moving window."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._failures: dict[str, deque[float]] = {}

    def exceeded(self, peer: str) -> bool:
        """Whether the peer failed too often. This says nothing about its next attempt."""
        recent = self._failures.get(peer)
        if recent is None:
            return False
        while recent and recent[0] <= self._clock() - FAILURES_S:
            recent.popleft()
        return len(recent) >= FAILURES

    def failed(self, peer: str) -> None:
        """Count a failed sign-in."""
        if peer not in self._failures and len(self._failures) >= _MOST_PEERS:
            del self._failures[next(iter(self._failures))]
        self._failures.setdefault(peer, deque(maxlen=FAILURES)).append(self._clock())


def digest(secret: str) -> bytes:
    return hashlib.sha256(secret.encode(errors="surrogatepass")).digest()


def _make_room(
    table: dict[bytes, _Code] | dict[bytes, BrowserSession], flow: str, most: int
) -> None:
    """Remove the oldest entry of the user if there are many, or the oldest of all."""
    own = [key for key, each in table.items() if each.flow == flow]
    if len(own) >= MOST_PER_OWNER:
        del table[own[0]]
    elif len(table) >= most:
        del table[next(iter(table))]
