# SPDX-License-Identifier: Apache-2.0
"""Informers of absent or forbidden kinds, and of slow servers."""

from __future__ import annotations

import asyncio

import pytest

from kube.scripted import Scripted, Wait, ok, refused
from kube.tiny_server import SlowServer, TinyServer
from kube.virtual_time import run
from kube.watched import PATH, Watched
from kuota.api.base import Key
from kuota.kube.errors import Forbidden, NotFound

A = Key("team", "a")


def test_a_kind_that_may_not_be_read_is_tried_again_and_the_reason_kept() -> None:
    script = Scripted([refused(403, "Forbidden")] * 50)
    it = Watched(script)

    async def story() -> None:
        await it.clock.sleep(20)
        assert isinstance(it.informer.error, Forbidden)
        assert not it.informer.settled.is_set()

    it.during(story)
    assert 2 < len([each for each in script.requests if each.path == PATH]) < 15


@pytest.mark.parametrize("status", [404, 403])
def test_a_server_without_the_kind_is_distinguished_from_one_that_does_not_answer(
    status: int, caplog: pytest.LogCaptureFixture
) -> None:
    reason = {404: "NotFound", 403: "Forbidden"}[status]
    kinds = {"kind": "APIResourceList", "resources": [{"name": "pods/log"}, {"name": "nodes"}]}
    script = Scripted(
        [refused(status, reason), ok(kinds), ok({"items": [], "metadata": {}})],
        [[Wait()]],
    )
    it = Watched(script)

    async def story() -> None:
        assert (True, False) == (it.informer.settled.is_set(), it.informer.synced.is_set())
        assert it.informer.lacking
        await it.clock.sleep(40)
        assert (False, True) == (it.informer.lacking, it.informer.synced.is_set())

    it.during(story)
    assert "the server has no pods" in caplog.text


POD = {"metadata": {"name": "a", "namespace": "team", "uid": "1", "resourceVersion": "7"}}
NOBODY = {"kind": "APIResourceList", "resources": [{"name": "nodes"}]}
ONE = {"items": [POD], "metadata": {"resourceVersion": "7"}}


def test_a_kind_that_disappears_takes_its_objects_with_it_and_may_come_back() -> None:
    gone = refused(404, "NotFound")
    again = {**ONE, "items": [{"metadata": POD["metadata"] | {"uid": "2"}}]}
    script = Scripted(
        [ok(ONE), ok(NOBODY), gone, ok(NOBODY), ok(again)],
        [[NotFound(404, "NotFound", "gone")], [Wait()]],
    )
    it = Watched(script)

    async def story() -> None:
        await it.clock.sleep(1)
        assert (True, []) == (it.informer.lacking, list(it.informer.keys()))
        await it.clock.sleep(60)
        assert (False, [A]) == (it.informer.lacking, list(it.informer.keys()))

    it.during(story)
    assert ["a"] * 3 == [name for name, *_ in it.observed]


def test_a_kind_that_may_no_longer_be_read_keeps_its_objects() -> None:
    served = {"kind": "APIResourceList", "resources": [{"name": "pods"}]}
    refusals = [answer for _ in range(50) for answer in (refused(403, "Forbidden"), ok(served))]
    script = Scripted(
        [ok(ONE), ok(served), *refusals], [[Forbidden(403, "Forbidden", "revoked")]] * 50
    )
    it = Watched(script)

    async def story() -> None:
        await it.clock.sleep(20)
        assert [A] == list(it.informer.keys())
        assert not it.informer.lacking

    it.during(story)


def test_a_kind_that_is_announced_is_looked_for_soon_and_until_it_is_served() -> None:
    gone = refused(404, "NotFound")
    script = Scripted([gone, ok(NOBODY), gone, ok(NOBODY), ok(ONE)], [[Wait()]])
    it = Watched(script)

    async def story() -> None:
        assert it.informer.lacking
        it.informer.announce()
        await it.clock.sleep(1)
        assert [A] == list(it.informer.keys())

    it.during(story)


def test_a_kind_whose_definition_will_be_announced_costs_nearly_nothing(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level("INFO")
    gone = refused(404, "NotFound")
    script = Scripted([gone, ok(NOBODY)] * 8 + [ok(ONE)], [[Wait()]])
    it = Watched(script)
    it.informer.announces = lambda: True

    async def story() -> None:
        await it.clock.sleep(3000)
        before = len(script.requests)
        it.informer.announce()
        await it.clock.sleep(60)
        assert before < 15, "two requests in ten minutes"
        assert [A] == list(it.informer.keys())

    it.during(story)
    said = [(each.levelname, each.message) for each in caplog.records]
    words = [(level, text) for level, text in said if "is not defined" in text]
    assert ["INFO"] == [level for level, _ in words]
    assert "WARNING" not in [level for level, _ in said]


def test_a_failure_that_goes_on_is_said_again_once_in_a_while(
    caplog: pytest.LogCaptureFixture,
) -> None:
    server = TinyServer()
    server.down = True
    it = Watched(server)

    async def story() -> None:
        await it.clock.sleep(1000)

    it.during(story)
    warnings = [each for each in caplog.records if each.levelname == "WARNING"]
    assert 1 + 3 == len(warnings)


def test_who_asks_for_it_waits_until_all_that_is_stored_is_known() -> None:
    server = TinyServer()
    server.put(f"{PATH}/a", size=1)
    it = Watched(server)

    async def story() -> None:
        server.mute = True
        server.put(f"{PATH}/a", size=2)
        server.put(f"{PATH}/b", size=3)
        await it.moments_later()
        assert [("a", None, 1)] == it.observed
        await it.informer.caught_up()
        assert [("a", None, 1), ("a", 1, 2), ("b", None, 3)] == it.observed
        server.mute = False
        server.put(f"{PATH}/b", size=4)
        await it.moments_later()
        assert ("b", 3, 4) == it.observed[-1]

    it.during(story)


def test_who_waits_for_all_that_is_stored_outwaits_a_server_that_is_down() -> None:
    server = TinyServer()
    it = Watched(server)

    async def story() -> None:
        server.down = True
        waiting = asyncio.ensure_future(it.informer.caught_up())
        await it.moments_later()
        assert not waiting.done()
        server.down = False
        server.put(f"{PATH}/a", size=1)
        await it.moments_later()
        assert waiting.done()
        assert A in it.informer

    it.during(story)


def test_a_server_that_lags_behind_its_database_sends_older_objects() -> None:
    server = TinyServer()
    server.lags = True
    server.put(f"{PATH}/a", size=1)
    it = Watched(server)

    async def story() -> None:
        await it.moments_later()
        assert it.informer.synced.is_set()
        server.put(f"{PATH}/a", size=2)
        await it.moments_later()

    it.during(story)
    assert [("a", None, 1), ("a", 1, 2)] == it.observed
    assert ["", "0"] == [each.query.get("resourceVersion", "") for each in server.requests]


def test_who_waits_for_all_that_is_stored_outwaits_a_server_that_lags() -> None:
    server = TinyServer()
    it = Watched(server)

    async def story() -> None:
        server.lags = True
        waiting = asyncio.ensure_future(it.informer.caught_up())
        await it.moments_later()
        assert not waiting.done()
        server.lags = False
        await it.moments_later()
        assert waiting.done()

    it.during(story)


def test_who_asks_while_a_list_is_under_way_waits_for_the_next_one() -> None:
    it = Watched(SlowServer())

    async def story() -> None:
        following = asyncio.create_task(it.informer.run())
        await asyncio.sleep(0)
        assert not it.informer.synced.is_set()
        waiting = asyncio.create_task(it.informer.caught_up())
        await it.moments_later()
        assert waiting.done()
        following.cancel()

    run(it.clock, story())
