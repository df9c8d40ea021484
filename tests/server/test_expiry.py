# SPDX-License-Identifier: Apache-2.0
"""Events expire an hour after their last write; other objects do not."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from datetime import timedelta

import pytest

from kuota.api.base import Json
from kuota.server.expiry import SLICE, keep_expiring, remove_expired
from server.served import MAPS, MERGE, NOW, Local, config_map

CORE = "/api/v1/namespaces/default/events"
NEWER = "/apis/events.k8s.io/v1/namespaces/default/events"
HOUR = timedelta(hours=1)


@pytest.fixture
def local() -> Iterator[Local]:
    made = Local()
    yield made
    made.close()


def event(name: str) -> Json:
    about = {"kind": "Pod", "namespace": "default", "name": "p"}
    return {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"name": name},
        "involvedObject": about,
        "reason": "Said",
    }


def newer_event(name: str) -> Json:
    return {
        "apiVersion": "events.k8s.io/v1",
        "kind": "Event",
        "metadata": {"name": name},
        "regarding": {"kind": "Pod", "namespace": "default", "name": "p"},
        "reason": "Said",
        "action": "Saying",
        "type": "Normal",
        "eventTime": "2026-11-15T12:00:00.000000Z",
        "reportingController": "test",
        "reportingInstance": "test-1",
    }


def left(local: Local) -> list[str]:
    return [each["metadata"]["name"] for each in local.ask("GET", CORE)["items"]]


def test_an_event_goes_an_hour_after_it_was_last_written(local: Local) -> None:
    local.ask("POST", CORE, event("once"))
    local.ask("POST", NEWER, newer_event("newer"))
    local.ask("POST", CORE, event("again"))
    local.ask("POST", MAPS, config_map("kept"))
    local.now = NOW + timedelta(minutes=10)
    local.ask("PATCH", f"{CORE}/again", {"count": 2}, media=MERGE)
    local.run(remove_expired(local.store, NOW))
    assert ["again", "newer", "once"] == left(local)
    local.run(remove_expired(local.store, NOW + timedelta(seconds=1)))
    assert ["again"] == left(local)
    local.run(remove_expired(local.store, NOW + HOUR))
    assert [] == left(local)
    assert "kept" == local.ask("GET", f"{MAPS}/kept")["metadata"]["name"]


def test_an_untracked_event_expires_by_its_creation_time(local: Local) -> None:
    made = event("old")
    made["metadata"] |= {"namespace": "default", "creationTimestamp": "2026-11-15T12:00:00Z"}
    local.store.create("events", made)
    local.run(remove_expired(local.store, NOW))
    assert ["old"] == left(local)
    local.run(remove_expired(local.store, NOW + HOUR))
    assert [] == left(local)


def test_whoever_watches_hears_that_events_go(local: Local) -> None:
    local.ask("POST", CORE, event("once"))
    watch = local.raw("GET", CORE, watch="true", resourceVersion=str(local.store.revision))
    local.run(remove_expired(local.store, NOW + HOUR))
    (gone,) = local.events(watch, 1)
    assert ("DELETED", "once") == (gone["type"], gone["object"]["metadata"]["name"])


def test_others_get_their_turn_while_many_events_go(local: Local) -> None:
    for number in range(3 * SLICE):
        local.ask("POST", CORE, event(f"e{number:04d}"))
    turns: list[int] = []

    async def story() -> None:
        clock = (NOW + HOUR).timestamp() + 1
        task = asyncio.create_task(keep_expiring(local.store, clock=lambda: clock))
        while local.store.list("events", limit=1).bodies:
            await asyncio.sleep(0)
            turns.append(len(local.store.list("events").bodies))
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

    local.run(story())
    assert [2 * SLICE, SLICE, 0] == turns
