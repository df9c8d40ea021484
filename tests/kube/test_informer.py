# SPDX-License-Identifier: Apache-2.0
"""An informer reports every change once, regardless of failures of its watch."""

from __future__ import annotations

from typing import Any

import pytest

from kube.scripted import Scripted, Wait, line, ok, refused
from kube.tiny_server import TinyServer
from kube.virtual_time import run, settled
from kube.watched import PATH, Watched, size_of
from kuota.api.base import Json, Key
from kuota.failures import COUNTS, Fatal
from kuota.kube.errors import Unreachable

A, B, C = (Key("team", name) for name in "abc")


def test_what_is_there_is_reported_and_then_every_change() -> None:
    server = TinyServer()
    server.put(f"{PATH}/a", size=1)
    it = Watched(server)

    async def story() -> None:
        assert it.informer.synced.is_set()
        server.put(f"{PATH}/b", size=1)
        server.put(f"{PATH}/a", size=2)
        server.remove(f"{PATH}/b")
        await settled()

    it.during(story)
    assert [("a", None, 1), ("b", None, 1), ("a", 1, 2), ("b", 1, None)] == it.observed
    assert [A] == list(it.informer.keys())


def test_nothing_is_synced_before_the_first_list() -> None:
    server = TinyServer()
    server.down = True
    it = Watched(server)

    async def story() -> None:
        await it.clock.sleep(10)
        assert not it.informer.synced.is_set()
        assert isinstance(it.informer.error, Unreachable)
        server.down = False
        server.put(f"{PATH}/a", size=1)
        await it.informer.synced.wait()

    it.during(story)
    assert [("a", None, 1)] == it.observed


def test_a_long_list_is_read_page_by_page() -> None:
    server = TinyServer()
    server.initial_events = False
    for number in range(7):
        server.put(f"{PATH}/p{number}", size=number)
    it = Watched(server)
    it.during(settled)
    assert 7 == len(it.informer)
    assert 4 == sum("limit" in each.query for each in server.requests)


def test_a_list_is_the_beginning_of_the_watch() -> None:
    server = TinyServer()
    for number in range(7):
        server.put(f"{PATH}/p{number}", size=number)
    it = Watched(server)

    async def story() -> None:
        server.remove(f"{PATH}/p0")
        await settled()

    it.during(story)
    assert 6 == len(it.informer)
    assert 1 == len(server.requests)


def test_a_watch_that_ends_before_the_last_object_is_begun_again() -> None:
    server = TinyServer()
    for name in "abc":
        server.put(f"{PATH}/{name}", size=1)
    server.sends_at_most = 2
    it = Watched(server)

    async def story() -> None:
        await it.moments_later()
        assert not it.informer.synced.is_set()
        server.sends_at_most = None
        await it.moments_later()

    it.during(story)
    assert it.informer.synced.is_set()
    assert [("a", None, 1), ("b", None, 1), ("c", None, 1)] == it.observed


def test_a_list_overtaken_by_compaction_is_read_in_one_piece() -> None:
    first = {"metadata": {"resourceVersion": "1", "continue": "c"}, "items": [_pod("a", 1)]}
    again = {"metadata": {"resourceVersion": "9"}, "items": [_pod("a", 1), _pod("b", 2)]}
    script = Scripted([ok(first), refused(410, "Expired"), ok(again)], [[Wait()]])
    it = Watched(script)
    it.during(it.moments_later)
    assert [("a", None, 1), ("b", None, 2)] == it.observed
    assert "limit" not in script.requests[2].query


def test_a_cut_watch_goes_on_where_it_was() -> None:
    server = TinyServer()
    it = Watched(server)

    async def story() -> None:
        server.put(f"{PATH}/a", size=1)
        await settled()
        server.cut()
        server.put(f"{PATH}/a", size=2)
        await it.moments_later()

    it.during(story)
    assert [("a", None, 1), ("a", 1, 2)] == it.observed
    assert 1 == server.lists


def test_a_forgotten_revision_leads_to_a_new_list_and_only_the_differences() -> None:
    server = TinyServer()
    for name in "abc":
        server.put(f"{PATH}/{name}", size=1)
    it = Watched(server)

    async def story() -> None:
        it.observed.clear()
        server.down = True
        server.cut()
        await settled()
        server.put(f"{PATH}/a", size=2)
        server.remove(f"{PATH}/b")
        server.put(f"{PATH}/d", size=1)
        server.compact()
        server.down = False
        await it.moments_later()

    it.during(story)
    assert [("a", 1, 2), ("d", None, 1), ("b", 1, None)] == it.observed


def test_an_object_made_again_under_its_name_is_another_object() -> None:
    server = TinyServer()
    server.put(f"{PATH}/a", size=1)
    it = Watched(server)

    async def story() -> None:
        server.down = True
        server.cut()
        await settled()
        server.remove(f"{PATH}/a")
        server.put(f"{PATH}/a", size=1)
        server.compact()
        server.down = False
        await it.moments_later()

    it.during(story)
    assert [("a", None, 1), ("a", 1, None), ("a", None, 1)] == it.observed


def test_bookmarks_spare_a_new_list_after_compaction() -> None:
    server = TinyServer()
    server.put(f"{PATH}/a", size=1)
    it = Watched(server)

    async def story() -> None:
        server.bookmark()
        await settled()
        server.compact()
        server.cut()
        server.put(f"{PATH}/a", size=2)
        await it.moments_later()

    it.during(story)
    assert [("a", None, 1), ("a", 1, 2)] == it.observed
    assert 1 == server.lists


def test_a_list_older_than_the_watch_cache_is_listed_again_not_crashed_on() -> None:
    gone = line("ERROR", {"kind": "Status", "code": 410, "reason": "Expired"})
    page = {"metadata": {"resourceVersion": "1"}, "items": [_pod("a", 1)]}
    newer = {"metadata": {"resourceVersion": "5"}, "items": [_pod("a", 1)]}
    it = Watched(Scripted([ok(page), ok(newer)], [[gone], [Wait()]]))
    it.during(it.moments_later)
    assert [("a", None, 1)] == it.observed
    assert ["", "1", "", "5"] == [_since(each) for each in it.server.requests]


def test_a_server_that_stays_down_is_asked_ever_more_seldom() -> None:
    server = TinyServer()
    it = Watched(server)
    asked: list[int] = []

    async def story() -> None:
        server.down = True
        server.cut()
        for seconds in (1, 2, 60, 60):
            before = len(server.requests)
            await it.clock.sleep(seconds)
            asked.append(len(server.requests) - before)

    it.during(story)
    assert [3, 1, 8, 6] == asked


def test_a_server_that_ends_every_watch_at_once_is_not_hammered() -> None:
    page = {"metadata": {"resourceVersion": "1"}, "items": []}
    it = Watched(Scripted([ok(page)], [[]] * 200))

    async def story() -> None:
        await it.clock.sleep(60)

    it.during(story)
    assert len(it.server.requests) < 20


def test_a_refused_watch_waits_as_long_as_the_server_says() -> None:
    page = {"metadata": {"resourceVersion": "1"}, "items": []}
    slow = line(
        "ERROR",
        {"kind": "Status", "code": 429, "reason": "TooManyRequests"}
        | {"details": {"retryAfterSeconds": 20}},
    )
    script = Scripted([ok(page)], [[slow], [Wait()]])
    it = Watched(script)

    async def story() -> None:
        await it.clock.sleep(19)
        assert 2 == len(script.requests)
        await it.clock.sleep(2)
        assert 3 == len(script.requests)

    it.during(story)


def test_a_late_observer_receives_the_existing_objects() -> None:
    server = TinyServer()
    server.put(f"{PATH}/a", size=1)
    it = Watched(server)
    late: list[Any] = []

    async def story() -> None:
        it.informer.observe(lambda old, new: late.append((size_of(old), size_of(new))))

    it.during(story)
    assert [(None, 1)] == late


def test_a_failing_observer_ends_the_informer(caplog: pytest.LogCaptureFixture) -> None:
    server = TinyServer()
    it = Watched(server)
    before = COUNTS["observer"]

    def fail(old: Json | None, new: Json | None) -> None:
        raise RuntimeError("a bug")

    it.informer.observe(fail)
    server.put(f"{PATH}/a", size=1)
    with pytest.raises(Fatal):
        run(it.clock, it.informer.run())
    assert COUNTS["observer"] == before + 1
    assert "a bug" in caplog.text


def test_an_object_that_cannot_be_read_is_as_good_as_absent() -> None:
    server = TinyServer()
    server.put(f"{PATH}/a", size=1)
    server.put(f"{PATH}/b", size="much")
    sizes = {"decode": lambda obj: {**obj, "size": int(obj["size"])}}
    it = Watched(server, **sizes)

    async def story() -> None:
        server.put(f"{PATH}/a", size="more")
        await settled()

    it.during(story)
    assert [("a", None, 1), ("a", 1, None)] == it.observed


def test_indexes_follow_the_objects() -> None:
    server = TinyServer()
    server.put(f"{PATH}/a", size=1)
    server.put(f"{PATH}/b", size=1)
    it = Watched(server, indexers={"size": lambda obj: [str(obj["size"])]})

    def names(size: str) -> list[str]:
        return [each["metadata"]["name"] for each in it.informer.indexed("size", size)]

    async def story() -> None:
        assert ["a", "b"] == names("1")
        server.put(f"{PATH}/a", size=2)
        server.remove(f"{PATH}/b")
        await settled()
        assert ([], ["a"]) == (names("1"), names("2"))

    it.during(story)


def test_managed_fields_are_not_kept() -> None:
    server = TinyServer()
    server.put(f"{PATH}/a")
    it = Watched(server)
    it.during(settled)
    kept = it.informer.get(A)
    assert kept is not None
    assert "managedFields" not in kept["metadata"]
    assert (None, None) == (it.informer.get(B), it.informer.get(C))


def _pod(name: str, size: int) -> Json:
    metadata = {"namespace": "team", "name": name, "uid": name, "resourceVersion": "1"}
    return {"metadata": metadata, "size": size}


def _since(request: Any) -> str:
    return str(request.query.get("resourceVersion", ""))
