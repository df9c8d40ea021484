# SPDX-License-Identifier: Apache-2.0
"""Authenticates and authorizes callers of our own servers, through the API server.

Results are cached for a short time, as other Kubernetes extensions do, so that frequent scrapes do
not cause a request each. Tokens are not stored, only their digests. Anybody can send invalid
tokens: they take no room in the cache from valid ones, and only a few tokens are reviewed at a
time. A token that was valid before does not wait for them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Hashable
from hashlib import sha256
from typing import Generic, TypeVar

import msgspec

from kuota.api.base import Json

from .client import Client
from .clock import Clock, SystemClock
from .resources import Resource

TOKEN_REVIEWS = Resource(
    "authentication.k8s.io", "v1", "tokenreviews", "TokenReview", namespaced=False
)
ACCESS_REVIEWS = Resource(
    "authorization.k8s.io", "v1", "subjectaccessreviews", "SubjectAccessReview", namespaced=False
)

KNOWN_S = 60.0
"""How long the user of a token is cached."""
ALLOWED_S = 300.0
DENIED_S = 30.0
MOST = 1024
"""The maximum number of cached results of each kind, by default."""

UNPROVEN_AT_ONCE = 16
"""How many tokens that were never valid before are reviewed at the same time."""

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class UserInfo(msgspec.Struct, frozen=True):
    """An authenticated user, as the API server knows it."""

    name: str
    uid: str = ""
    groups: tuple[str, ...] = ()
    extra: tuple[tuple[str, tuple[str, ...]], ...] = ()


class AccessRequest(msgspec.Struct, frozen=True):
    """The requested access: a path or a resource."""

    verb: str
    path: str = ""
    group: str = ""
    version: str = ""
    resource: str = ""
    subresource: str = ""
    namespace: str = ""
    name: str = ""

    @property
    def attributes(self) -> Json:
        """Return the attributes for a SubjectAccessReview."""
        if self.path:
            return {"nonResourceAttributes": {"path": self.path, "verb": self.verb}}
        named = msgspec.structs.asdict(self)
        return {"resourceAttributes": {word: said for word, said in named.items() if said}}


class AccessReviews:
    """Access reviews by one API server. Raises the errors of `kuota.kube.errors`.

    No result is cached for more than `longest_s`, and no more than `most` of each kind.
    """

    def __init__(
        self,
        client: Client,
        clock: Clock | None = None,
        *,
        longest_s: float = ALLOWED_S,
        most: int = MOST,
    ) -> None:
        self._client = client
        clock = clock or SystemClock()
        self._longest_s = longest_s
        self._users: _TtlCache[bytes, UserInfo] = _TtlCache(clock, most)
        self._invalid: _TtlCache[bytes, None] = _TtlCache(clock, MOST)
        self._unproven = asyncio.Semaphore(UNPROVEN_AT_ONCE)
        self._answers: _TtlCache[tuple[UserInfo, AccessRequest], bool] = _TtlCache(clock, most)

    async def user(self, token: str) -> UserInfo | None:
        """Return the user of this token; None if the token is invalid."""
        try:
            at = sha256(token.encode()).digest()
        except UnicodeEncodeError:
            return None  # No token, and JSON cannot represent it.
        if at not in self._users and not self._users.had(at):
            async with self._unproven:
                return await self._user(at, token)
        return await self._user(at, token)

    async def _user(self, at: bytes, token: str) -> UserInfo | None:
        """Return the user of the token with this digest."""
        if at in self._users:
            return self._users[at]
        if at in self._invalid:
            return None
        answer = await self._asked(TOKEN_REVIEWS, {"token": token})
        if not answer.get("authenticated"):
            self._users.remove(at)
            self._invalid.put(at, None, min(DENIED_S, self._longest_s))
            return None
        found = _person(answer.get("user") or {})
        self._users.put(at, found, min(KNOWN_S, self._longest_s))
        return found

    async def allows(self, user: UserInfo, access: AccessRequest) -> bool:
        """Whether the user has this access."""
        at = user, access
        if at in self._answers:
            return self._answers[at]
        spec: Json = {
            "user": user.name,
            "uid": user.uid,
            "groups": list(user.groups),
            "extra": {name: list(values) for name, values in user.extra},
        }
        answer = await self._asked(ACCESS_REVIEWS, spec | access.attributes)
        allowed = bool(answer.get("allowed")) and not answer.get("denied")
        kept_s = ALLOWED_S if allowed else DENIED_S
        self._answers.put(at, allowed, min(kept_s, self._longest_s))
        return allowed

    async def _asked(self, resource: Resource, spec: Json) -> Json:
        review = {"apiVersion": resource.api_version, "kind": resource.kind, "spec": spec}
        status: Json = (await self._client.create(resource, review)).get("status") or {}
        return status


def _person(user: Json) -> UserInfo:
    extra = user.get("extra") or {}
    return UserInfo(
        name=str(user.get("username") or ""),
        uid=str(user.get("uid") or ""),
        groups=tuple(user.get("groups") or ()),
        extra=tuple((name, tuple(values)) for name, values in sorted(extra.items())),
    )


class _TtlCache(Generic[K, V]):
    """Results that expire. The oldest ones are evicted first."""

    def __init__(self, clock: Clock, most: int) -> None:
        self._clock = clock
        self._most = most
        self._until: dict[K, tuple[float, V]] = {}

    def __contains__(self, key: K) -> bool:
        found = self._until.get(key)
        return found is not None and found[0] > self._clock.monotonic()

    def __getitem__(self, key: K) -> V:
        return self._until[key][1]

    def had(self, key: K) -> bool:
        """Whether there is a result, even if it has expired."""
        return key in self._until

    def remove(self, key: K) -> None:
        self._until.pop(key, None)

    def put(self, key: K, value: V, seconds: float) -> None:
        self._until.pop(key, None)
        if len(self._until) >= self._most:
            del self._until[next(iter(self._until))]
        self._until[key] = self._clock.monotonic() + seconds, value
