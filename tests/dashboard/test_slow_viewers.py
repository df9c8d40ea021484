# SPDX-License-Identifier: Apache-2.0
"""Viewers who read slowly or not at all cost no memory: they skip states, or are disconnected."""

from __future__ import annotations

import asyncio

import pytest

from dashboard.events import put_queues, put_workload, stream
from dashboard.served import Served, serving
from kuota.dashboard import feed as feeds
from kuota.dashboard.stream import EventStreamWriter, Stalled


class SilentResponse:
    """A response whose client reads nothing."""

    prepared = True

    async def write(self, piece: bytes) -> None:
        await asyncio.Event().wait()


def test_a_viewer_who_reads_nothing_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kuota.dashboard.stream.STALL_S", 0.01)

    async def story() -> None:
        events = EventStreamWriter.__new__(EventStreamWriter)
        events.response = SilentResponse()  # type: ignore[assignment]
        with pytest.raises(Stalled):
            await events.send("change", [b"{}"])

    asyncio.run(story())


def test_a_viewer_who_missed_too_many_ticks_gets_everything_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(feeds, "TICK_S", 0.01)

    async def work(served: Served) -> None:
        await put_queues(served)
        feed = served.dashboard.feed
        async with feed.viewing():
            seen = feed.tick
            await put_workload(served, "vision", "a")
            assert await feed.wait(seen, 5)
            changes = feed.changes(seen)
            assert changes is not None
            assert ["vision/a"] == [str(each) for each in changes[0]]
            for _ in range(feeds.TICKS):
                feed._changed(frozenset(), "Workload")
                feed._end_tick()
            assert feed.changes(seen) is None
            assert feed.changes(feed.tick) == (frozenset(), frozenset())

    serving(work)


def test_a_model_that_cannot_be_computed_ends_its_stream_only(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def broken(observed: object) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr("kuota.dashboard.catalog.tree_model", broken)

    async def work(served: Served) -> None:
        async with served.browser("ann-token") as ann:
            async with stream(served, ann, "view=tree") as events:
                name, data = await events.next()
                assert ("error", 500) == (name, data["code"])
                assert "ZeroDivision" not in str(data)
            async with stream(served, ann, "view=workloads") as events:
                assert "snapshot" == (await events.next())[0]

    serving(work)
