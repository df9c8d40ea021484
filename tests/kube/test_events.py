# SPDX-License-Identifier: Apache-2.0
"""Events are recorded once, counted when repeated, and never block the caller."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from kube.tiny_server import TinyServer
from kube.virtual_time import VirtualClock, run, settled
from kuota.api.base import Json
from kuota.kube.client import Client
from kuota.kube.events import (
    BURST,
    FIRST_INTERVAL_S,
    FLOOD_QPS,
    INTERVAL_S,
    MOST_WAITING,
    OBJECT_BURST,
    OBJECT_REFILL_S,
    QUIET_S,
    EventRecorder,
)
from kuota.kube.requests import HttpRequest, HttpResponse

JOB: Json = {
    "apiVersion": "batch/v1",
    "kind": "Job",
    "metadata": {"namespace": "team", "name": "it", "uid": "u1"},
}
NODE: Json = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n1"}}


class RecorderHarness:
    def __init__(self, server: TinyServer | None = None) -> None:
        self.clock = VirtualClock()
        self.server = server or TinyServer()
        client = Client(self.server, clock=self.clock)
        self.recorder = EventRecorder(client, "kueue-admission", "me", clock=self.clock)

    def during(self, story: Callable[[], Awaitable[None]]) -> list[Json]:
        async def main() -> None:
            task = asyncio.create_task(self.recorder.run())
            await settled()
            await story()
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

        run(self.clock, main())
        return list(self.server.objects.values())


def test_an_event_has_all_that_the_api_demands() -> None:
    harness = RecorderHarness()

    async def story() -> None:
        harness.recorder.record(JOB, "Started", "It runs")
        harness.recorder.record(NODE, "Odd", "x" * 2000, warning=True)
        await settled()

    first, second = harness.during(story)
    name = first["metadata"].pop("name")
    assert name.startswith("it.")
    assert {"namespace": "team", "uid": "u1", "resourceVersion": "2"} == first.pop("metadata")
    assert {
        "apiVersion": "v1",
        "kind": "Event",
        "eventTime": "2026-01-01T12:00:00.000000Z",
        "firstTimestamp": "2026-01-01T12:00:00Z",
        "lastTimestamp": "2026-01-01T12:00:00Z",
        "count": 1,
        "source": {"component": "kueue-admission"},
        "reportingComponent": "kueue-admission",
        "reportingInstance": "me",
        "action": "Started",
        "reason": "Started",
        "involvedObject": {
            "apiVersion": "batch/v1",
            "kind": "Job",
            "namespace": "team",
            "name": "it",
            "uid": "u1",
        },
        "message": "It runs",
        "type": "Normal",
    } == first
    assert ("default", "Warning", "Odd") == (
        second["metadata"]["namespace"],
        second["type"],
        second["action"],
    )
    assert len(second["message"].encode()) <= 1024


def test_it_can_be_recorded_for_another_and_later_than_it_happened() -> None:
    harness = RecorderHarness()

    async def story() -> None:
        began = harness.clock.now()
        await harness.clock.sleep(5)
        harness.recorder.record(JOB, "Started", "It runs", controller="job-controller", when=began)
        harness.recorder.record(JOB, "Started", "It runs")
        await settled()

    first, second = harness.during(story)
    assert ("job-controller", "2026-01-01T12:00:00.000000Z") == (
        first["reportingComponent"],
        first["eventTime"],
    )
    assert "kueue-admission" == second["reportingComponent"]


def test_readers_of_events_v1_see_repeats_as_a_series() -> None:
    """The count of core/v1 is deprecated there, and may be ignored."""
    harness = RecorderHarness()

    async def story() -> None:
        for _ in range(2):
            harness.recorder.record(JOB, "Pending", "no quota")
            await harness.clock.sleep(1)
        await harness.clock.sleep(FIRST_INTERVAL_S)

    (event,) = harness.during(story)
    assert {"count": 2, "lastObservedTime": "2026-01-01T12:00:01.000000Z"} == event["series"]


def test_repeats_become_a_count_that_is_written_soon_and_then_once_in_a_while() -> None:
    harness = RecorderHarness()

    async def story() -> None:
        for _ in range(120):
            harness.recorder.record(JOB, "Pending", "no quota")
            await harness.clock.sleep(1)
        await harness.clock.sleep(3 * INTERVAL_S)

    (event,) = harness.during(story)
    assert 120 == event["count"]
    assert ("2026-01-01T12:00:00Z", "2026-01-01T12:01:59Z") == (
        event["firstTimestamp"],
        event["lastTimestamp"],
    )
    assert ["POST", *["PATCH"] * 3] == [each.method for each in harness.server.requests]


def test_repeats_before_the_first_is_sent_go_with_it() -> None:
    harness = RecorderHarness()

    async def story() -> None:
        for _ in range(3):
            harness.recorder.record(JOB, "Pending", "no quota")
        await settled()

    (event,) = harness.during(story)
    assert 3 == event["count"]
    assert 1 == len(harness.server.requests)


def test_after_a_quiet_time_it_is_news_again() -> None:
    harness = RecorderHarness()

    async def story() -> None:
        harness.recorder.record(JOB, "Pending", "no quota")
        await harness.clock.sleep(QUIET_S)
        harness.recorder.record(JOB, "Pending", "no quota")
        await settled()

    first, second = harness.during(story)
    assert first["metadata"]["name"] != second["metadata"]["name"]


def test_another_note_is_the_same_event_and_another_reason_or_type_is_not() -> None:
    harness = RecorderHarness()

    async def story() -> None:
        harness.recorder.record(JOB, "Pending", "no quota")
        harness.recorder.record(JOB, "Pending", "no flavor")
        harness.recorder.record(JOB, "Waiting", "no quota")
        harness.recorder.record(JOB, "Pending", "no quota", warning=True)
        await settled()

    first, *others = harness.during(story)
    assert ("no flavor", 2) == (first["message"], first["count"])
    assert [1] * 2 == [each["count"] for each in others]


def test_a_repeated_event_has_the_newest_note() -> None:
    harness = RecorderHarness()

    async def story() -> None:
        for name in ("train-a", "train-b"):
            harness.recorder.record(JOB, "SuccessfulCreate", f"Created pod: {name}")
            await harness.clock.sleep(1)
        await harness.clock.sleep(FIRST_INTERVAL_S)

    (event,) = harness.during(story)
    assert ("Created pod: train-b", 2) == (event["message"], event["count"])


def test_events_about_one_object_are_rate_limited() -> None:
    harness = RecorderHarness()

    async def story() -> None:
        for number in range(100):
            harness.recorder.record(JOB, f"Try{number}", "no quota")
        harness.recorder.record(NODE, "Fine", "another object")
        await harness.clock.sleep(2 * OBJECT_REFILL_S)
        harness.recorder.record(JOB, "Pending", "much later")
        await settled()

    events = harness.during(story)
    assert OBJECT_BURST + 2 == len(events)
    assert 100 - OBJECT_BURST == harness.recorder.dropped


def test_an_event_that_the_server_forgot_is_made_again() -> None:
    harness = RecorderHarness()

    async def story() -> None:
        harness.recorder.record(JOB, "Pending", "no quota")
        await settled()
        harness.server.remove(next(iter(harness.server.objects)))
        harness.recorder.record(JOB, "Pending", "no quota")
        await harness.clock.sleep(INTERVAL_S + 1)

    (event,) = harness.during(story)
    assert 2 == event["count"]


def test_what_waits_has_a_bound_and_recording_never_waits() -> None:
    harness = RecorderHarness()
    for number in range(MOST_WAITING + 10):
        about: dict[str, Any] = {"metadata": {"namespace": "team", "name": f"j{number}"}}
        harness.recorder.record(about, "Pending", "no quota")
    assert 10 == harness.recorder.dropped


def test_a_server_that_is_down_costs_events_and_nothing_else() -> None:
    harness = RecorderHarness()
    harness.server.down = True

    async def story() -> None:
        harness.recorder.record(JOB, "Pending", "no quota")
        await harness.clock.sleep(30)
        harness.server.down = False
        harness.recorder.record(JOB, "Started", "now")
        await settled()

    assert ["Started"] == [each["reason"] for each in harness.during(story)]
    assert 1 == harness.recorder.dropped


def test_at_the_end_all_is_sent() -> None:
    harness = RecorderHarness()

    async def main() -> None:
        harness.recorder.record(JOB, "Pending", "no quota")
        await harness.recorder.flush()
        harness.recorder.record(JOB, "Pending", "no quota")
        await harness.recorder.flush()

    run(harness.clock, main())
    (event,) = harness.server.objects.values()
    assert 2 == event["count"]


def test_a_long_name_still_makes_a_legal_one() -> None:
    harness = RecorderHarness()

    async def story() -> None:
        name = "a" * 230 + "-" * 10 + "b" * 13
        harness.recorder.record({"metadata": {"namespace": "team", "name": name}}, "X", "y")
        await settled()

    (event,) = harness.during(story)
    name = event["metadata"]["name"]
    assert len(name) <= 253
    assert "-." not in name


def test_a_flood_leaves_slowly_after_a_first_burst() -> None:
    harness = RecorderHarness()

    async def story() -> None:
        for number in range(BURST + 100):
            about: dict[str, Any] = {"metadata": {"namespace": "team", "name": f"j{number}"}}
            harness.recorder.record(about, "Admitted", "at last")
        await settled()
        assert len(harness.server.objects) <= BURST
        await harness.clock.sleep(100 / FLOOD_QPS + 1)

    assert BURST + 100 == len(harness.during(story))


class RoleOfKueue(TinyServer):
    """A server that lets the caller write Events of events.k8s.io only, as Kueue's role does."""

    async def send(self, request: HttpRequest) -> HttpResponse:
        if request.path.startswith("/api/v1/"):
            return HttpResponse(403, {}, b'{"kind": "Status", "reason": "Forbidden", "code": 403}')
        return await super().send(request)


def test_with_the_role_of_kueue_events_are_written_in_the_version_that_it_allows() -> None:
    harness = RecorderHarness(RoleOfKueue())

    async def story() -> None:
        harness.recorder.record(JOB, "Pending", "no quota")
        await settled()
        harness.recorder.record(JOB, "Pending", "no quota")
        harness.recorder.record(JOB, "Started", "It runs")
        await harness.clock.sleep(INTERVAL_S + 1)

    first, second = harness.during(story)
    assert ("events.k8s.io/v1", "no quota", "it") == (
        first["apiVersion"],
        first["note"],
        first["regarding"]["name"],
    )
    assert {"count": 2, "lastObservedTime": "2026-01-01T12:00:00.000000Z"} == first["series"]
    assert "series" not in second
    assert not {"count", "firstTimestamp", "lastTimestamp", "source"} & second.keys()
