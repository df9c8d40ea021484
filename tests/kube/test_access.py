# SPDX-License-Identifier: Apache-2.0
"""Results of access reviews are cached for a limited time."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from typing import Any

from kuota.api.base import Json
from kuota.kube.access import (
    ALLOWED_S,
    DENIED_S,
    KNOWN_S,
    MOST,
    UNPROVEN_AT_ONCE,
    AccessRequest,
    AccessReviews,
    UserInfo,
)
from kuota.kube.resources import Resource

SCRAPE = AccessRequest(verb="get", path="/metrics")


class Clock:
    def __init__(self) -> None:
        self.at = 0.0

    def now(self) -> datetime:
        return datetime.fromtimestamp(self.at, UTC)

    def monotonic(self) -> float:
        return self.at

    async def sleep(self, seconds: float) -> None:
        self.at += seconds


class Server:
    """Knows one token, and lets those in whom `allowed` names."""

    def __init__(self) -> None:
        self.allowed = {"ann"}
        self.valid = "t"
        self.asked: list[Json] = []

    async def create(self, resource: Resource, obj: Json, **_: Any) -> Json:
        self.asked.append(obj)
        spec = obj["spec"]
        if resource.kind == "TokenReview":
            user = {"username": "ann", "groups": ["red"], "extra": {"site": ["a"]}}
            return obj | {"status": {"authenticated": spec["token"] == self.valid, "user": user}}
        return obj | {"status": {"allowed": spec["user"] in self.allowed}}


def made() -> tuple[AccessReviews, Server, Clock]:
    server, clock = Server(), Clock()
    return AccessReviews(server, clock), server, clock  # type: ignore[arg-type]


def test_a_token_that_is_not_utf_8_is_invalid_and_not_sent() -> None:
    async def story() -> None:
        reviews, server, _ = made()
        assert await reviews.user("t\udcff") is None
        assert not server.asked

    asyncio.run(story())


def test_a_person_is_asked_for_again_after_a_while() -> None:
    async def story() -> None:
        reviews, server, clock = made()
        ann = UserInfo("ann", groups=("red",), extra=(("site", ("a",)),))
        assert ann == await reviews.user("t")
        clock.at += KNOWN_S - 1
        assert ann == await reviews.user("t")
        assert 1 == len(server.asked)
        clock.at += 2
        assert ann == await reviews.user("t")
        assert await reviews.user("other") is None
        assert 3 == len(server.asked)

    asyncio.run(story())


def test_a_refusal_is_forgotten_sooner_than_a_permission() -> None:
    async def story() -> None:
        reviews, server, clock = made()
        ann, bob = UserInfo("ann"), UserInfo("bob")
        assert await reviews.allows(ann, SCRAPE)
        assert not await reviews.allows(bob, SCRAPE)
        server.allowed = {"bob"}
        clock.at += DENIED_S + 1
        assert await reviews.allows(ann, SCRAPE)
        assert await reviews.allows(bob, SCRAPE)
        clock.at += ALLOWED_S
        assert not await reviews.allows(ann, SCRAPE)

    asyncio.run(story())


def test_what_is_kept_is_bounded_and_holds_no_token() -> None:
    async def story() -> None:
        reviews, server, _ = made()
        for number in range(MOST + 10):
            await reviews.user(f"guess-{number}")
        kept = reviews._invalid._until
        assert MOST == len(kept)
        assert not any(b"guess" in each for each in kept)
        await reviews.user("guess-0")
        assert MOST + 11 == len(server.asked)

    asyncio.run(story())


class SlowServer(Server):
    """Reviews no token but the valid one until it is released."""

    def __init__(self) -> None:
        super().__init__()
        self.release = asyncio.Event()

    async def create(self, resource: Resource, obj: Json, **options: Any) -> Json:
        answer = await super().create(resource, obj, **options)
        if obj["spec"].get("token") != "t":
            await self.release.wait()
        return answer


def test_a_flood_of_wrong_tokens_is_reviewed_piecemeal_and_delays_no_proven_one() -> None:
    async def story() -> None:
        server, clock = SlowServer(), Clock()
        reviews = AccessReviews(server, clock)  # type: ignore[arg-type]
        assert await reviews.user("t") is not None
        guesses = [asyncio.create_task(reviews.user(f"guess-{each}")) for each in range(100)]
        await asyncio.sleep(0)
        assert 1 + UNPROVEN_AT_ONCE == len(server.asked)
        clock.at += KNOWN_S + 1
        assert await reviews.user("t") is not None
        server.release.set()
        assert [None] * 100 == await asyncio.gather(*guesses)

    asyncio.run(story())


def test_wrong_tokens_evict_no_valid_ones() -> None:
    async def story() -> None:
        reviews, server, _ = made()
        await reviews.user("t")
        for number in range(MOST + 10):
            await reviews.user(f"guess-{number}")
        asked = len(server.asked)
        assert await reviews.user("t") is not None
        assert asked == len(server.asked)

    asyncio.run(story())


def test_a_token_that_was_revoked_counts_as_unproven_again() -> None:
    async def story() -> None:
        reviews, server, clock = made()
        await reviews.user("t")
        server.valid = "another"
        clock.at += KNOWN_S + 1
        assert await reviews.user("t") is None
        asked = len(server.asked)
        assert await reviews.user("t") is None
        assert asked == len(server.asked)

    asyncio.run(story())


def test_a_resource_is_asked_for_by_its_parts() -> None:
    access = AccessRequest(verb="get", group="g", resource="queues", subresource="line", name="q")
    parts = {"verb": "get", "group": "g", "resource": "queues", "subresource": "line", "name": "q"}
    assert {"resourceAttributes": parts} == access.attributes
    assert {"nonResourceAttributes": {"path": "/metrics", "verb": "get"}} == SCRAPE.attributes
