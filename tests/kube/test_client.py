# SPDX-License-Identifier: Apache-2.0
"""Paging, retries, errors and watches of the client, over a scripted transport."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from kube.scripted import Answer, Scripted, line, ok, refused
from kube.virtual_time import VirtualClock, run
from kuota.api.base import Json, Key
from kuota.kube import errors
from kuota.kube.client import Client, Listing
from kuota.kube.decoding import Decoding, WatchEvent
from kuota.kube.errors import ApiError, Unreachable, WritesSuspended, response_error
from kuota.kube.requests import HttpResponse, PatchType
from kuota.kube.resources import CONFIG_MAPS, JOBS, PODS, WORKLOADS
from kuota.kube.retry import AT_ONCE, ATTEMPTS, Rates

KEY = Key("team", "it")
POD: Json = {"apiVersion": "v1", "kind": "Pod", "metadata": {"namespace": "team", "name": "it"}}


class Setting:
    """A client over a script, in virtual time."""

    def __init__(self, *answers: Answer, streams: Any = (), **options: Any) -> None:
        self.clock = VirtualClock()
        self.transport = Scripted(answers, streams)
        self.client = Client(self.transport, clock=self.clock, **options)

    def get(self) -> Json:
        return run(self.clock, self.client.get(PODS, KEY))

    def create(self) -> Json:
        return run(self.clock, self.client.create(PODS, POD))

    def watched(self) -> list[WatchEvent]:
        async def main() -> list[WatchEvent]:
            return [each async for each in self.client.watch(PODS, since="5")]

        return run(self.clock, main())


@pytest.mark.parametrize(
    ("kind", "status", "reason"),
    [
        (errors.BadRequest, 400, "BadRequest"),
        (errors.Unauthorized, 401, "Unauthorized"),
        (errors.Forbidden, 403, "Forbidden"),
        (errors.NotFound, 404, "NotFound"),
        (errors.MethodNotAllowed, 405, "MethodNotAllowed"),
        (errors.Conflict, 409, "Conflict"),
        (errors.AlreadyExists, 409, "AlreadyExists"),
        (errors.Gone, 410, "Expired"),
        (errors.Gone, 410, "Gone"),
        (errors.TooLarge, 413, "RequestEntityTooLarge"),
        (errors.UnsupportedMediaType, 415, "UnsupportedMediaType"),
        (errors.Invalid, 422, "Invalid"),
        (errors.Conflict, 409, "SomethingNew"),
        (errors.ApiError, 418, ""),
    ],
)
def test_a_status_becomes_its_error(kind: type[ApiError], status: int, reason: str) -> None:
    with pytest.raises(ApiError) as caught:
        Setting(refused(status, reason)).get()
    assert kind is type(caught.value)
    assert (status, reason) == (caught.value.status, caught.value.reason)


def test_an_answer_that_is_no_status_still_becomes_an_error() -> None:
    with pytest.raises(errors.Forbidden, match="go away"):
        Setting(HttpResponse(403, {}, b"go away\n")).get()


def test_no_answer_is_too_strange_to_become_an_error() -> None:
    nested = b"[" * 100_000
    assert 500 == response_error(500, {}, nested).status
    assert 86_400 == response_error(503, {"retry-after": "9" * 400}, b"").retry_after_s
    wait = b'{"kind": "Status", "reason": "Timeout", "details": {"retryAfterSeconds": 1e999}}'
    assert response_error(504, {}, wait).retry_after_s is None
    long = b'{"kind": "Status", "reason": "%b", "message": "%b"}' % (b"r" * 9**6, b"m" * 9**6)
    error = response_error(500, {}, long)
    assert (128, 32 << 10) == (len(error.reason), len(error.message))
    with pytest.raises(Unreachable):
        Decoding(WORKLOADS, managed_fields=False).object(b'{"spec": ' + nested)


def test_the_causes_of_a_refusal_are_at_hand() -> None:
    causes = [{"field": "spec.x", "reason": "FieldValueInvalid", "message": "no"}]
    body = {"kind": "Status", "code": 422, "reason": "Invalid", "details": {"causes": causes}}
    with pytest.raises(errors.Invalid) as caught:
        Setting(ok(body, 422)).get()
    assert causes == caught.value.causes


def test_a_list_is_read_page_by_page_and_says_what_its_items_are() -> None:
    pages = [
        ok({"metadata": {"resourceVersion": "9", "continue": "c"}, "items": [{"metadata": {}}]}),
        ok({"metadata": {"resourceVersion": "9"}, "items": None}),
    ]
    setting = Setting(*pages)
    found = run(setting.clock, setting.client.list(JOBS))
    assert Listing([{"metadata": {}, "apiVersion": "batch/v1", "kind": "Job"}], "9") == found
    assert ["", "c"] == [each.query.get("continue", "") for each in setting.transport.requests]


def test_a_list_overtaken_by_compaction_is_read_again_in_one_piece() -> None:
    setting = Setting(
        ok({"metadata": {"resourceVersion": "1", "continue": "c"}, "items": [{}]}),
        refused(410, "Expired"),
        ok({"metadata": {"resourceVersion": "9"}, "items": [{}, {}]}),
    )
    found = run(setting.clock, setting.client.list(JOBS))
    assert (2, "9") == (len(found.items), found.revision)
    assert "limit" not in setting.transport.requests[-1].query


def test_a_server_that_asks_for_patience_gets_it_for_every_verb() -> None:
    setting = Setting(refused(429, "TooManyRequests", {"retry-after": "7"}), ok(POD))
    assert POD == setting.create()
    assert 7 == setting.clock.monotonic()


def test_a_server_that_asks_for_too_much_patience_has_failed() -> None:
    with pytest.raises(errors.TooManyRequests) as caught:
        Setting(refused(429, "TooManyRequests", {"retry-after": "3600"})).create()
    assert 3600 == caught.value.retry_after_s


def test_what_may_be_done_twice_is_repeated_after_a_server_error() -> None:
    setting = Setting(refused(500, "InternalError"), refused(503, ""), ok(POD))
    assert POD == setting.get()
    assert 0.3 == pytest.approx(setting.clock.monotonic())


def test_what_may_not_be_done_twice_is_not_repeated_after_a_server_error() -> None:
    setting = Setting(refused(500, "InternalError"))
    with pytest.raises(errors.ServerError):
        setting.create()


def test_a_json_patch_is_not_repeated_but_a_merge_patch_is() -> None:
    setting = Setting(refused(503, ""), ok(POD), refused(503, ""))
    assert POD == run(setting.clock, setting.client.patch(PODS, KEY, {"spec": {}}))
    with pytest.raises(errors.ServerError):
        run(setting.clock, setting.client.patch(PODS, KEY, [], kind=PatchType.JSON))


def test_a_creation_is_repeated_only_when_the_server_cannot_have_seen_it() -> None:
    assert POD == Setting(Unreachable("refused", sent=False), ok(POD)).create()
    with pytest.raises(Unreachable):
        Setting(Unreachable("reset")).create()


def test_there_is_an_end_to_trying() -> None:
    setting = Setting(*[Unreachable("reset")] * ATTEMPTS)
    with pytest.raises(Unreachable):
        setting.get()
    assert ATTEMPTS == len(setting.transport.requests)


def test_an_answer_that_is_no_object_is_no_answer() -> None:
    with pytest.raises(Unreachable, match="cannot be read"):
        Setting(HttpResponse(200, {}, b"<html>")).get()
    with pytest.raises(Unreachable, match="Expected `object`"):
        Setting(ok([1])).get()


def test_writes_stop_when_this_process_may_not_write_and_reads_go_on() -> None:
    setting = Setting(ok(POD), may_write=lambda: False)
    with pytest.raises(WritesSuspended):
        setting.create()
    assert POD == setting.get()


def test_a_retry_of_a_write_asks_again_whether_it_may() -> None:
    leading = [True, False]
    setting = Setting(refused(429, "TooManyRequests"), may_write=lambda: leading.pop(0))
    with pytest.raises(WritesSuspended):
        setting.create()


def test_writes_name_their_manager() -> None:
    setting = Setting(ok(POD), ok(POD), manager="me")
    setting.create()
    run(setting.clock, setting.client.patch(PODS, KEY, {}, manager="you"))
    managers = [each.query["fieldManager"] for each in setting.transport.requests]
    assert ["me", "you"] == managers


def test_a_rate_lets_a_burst_pass_and_then_one_at_a_time() -> None:
    clock = VirtualClock()
    transport = Scripted([ok(POD)] * 5)
    client = Client(transport, clock=clock, rates=Rates(clock, qps=2, burst=3))

    async def main() -> list[float]:
        times = []
        for _ in range(5):
            await client.get(PODS, KEY)
            times.append(clock.monotonic())
        return times

    assert [0, 0, 0, 0.5, 1.0] == run(clock, main())


def test_each_resource_has_its_own_rate() -> None:
    clock = VirtualClock()
    count = AT_ONCE + 1
    client = Client(
        Scripted([ok(POD)] * (count + 1)), clock=clock, rates=Rates(clock, qps=0.1, burst=1)
    )

    async def main() -> float:
        async with asyncio.TaskGroup() as group:
            waiting = [group.create_task(client.get(PODS, KEY)) for _ in range(count)]
            await asyncio.sleep(0)
            await client.get(JOBS, KEY)
            done_at = clock.monotonic()
            for each in waiting:
                each.cancel()
        return done_at

    assert 0 == run(clock, main())


def test_events_are_whole_however_the_stream_is_cut_into_chunks() -> None:
    name = "größe-𝄞"
    raw = line("ADDED", {"metadata": {"name": name}}) + b"\n" + line("DELETED", {"metadata": {}})
    for size in (1, 2, 3, 7, len(raw)):
        chunks = [raw[i : i + size] for i in range(0, len(raw), size)]
        first, second = Setting(streams=[chunks]).watched()
        assert ("ADDED", name) == (first.type, first.object["metadata"]["name"])
        assert ("DELETED", "Pod") == (second.type, second.object["kind"])


def test_half_an_event_at_the_end_of_a_stream_is_dropped() -> None:
    whole = line("ADDED", {"metadata": {}})
    assert 1 == len(Setting(streams=[[whole + whole[:-9]]]).watched())


def test_an_error_event_is_raised() -> None:
    failed = line("ERROR", {"kind": "Status", "code": 410, "reason": "Expired", "message": "old"})
    with pytest.raises(errors.Gone, match="old"):
        Setting(streams=[[failed]]).watched()


def _managed(kind: str) -> Json:
    metadata = {field: f"some {field}" for field in OBJECT_META}
    managed = [{"manager": "somebody", "fieldsV1": {"f:spec": {}}}]
    return {
        "apiVersion": "v1",
        "kind": kind,
        "metadata": metadata | {"managedFields": managed},
        "spec": {"managedFields": "of somebody else"},
        "status": {},
    }


OBJECT_META = (
    *("name", "generateName", "namespace", "selfLink", "uid", "resourceVersion", "generation"),
    *("creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds", "labels"),
    *("annotations", "ownerReferences", "finalizers"),
)


def test_managed_fields_and_nothing_else_can_be_left_out() -> None:
    stored = _managed("Pod")
    listed = {"metadata": {"resourceVersion": "7"}, "items": [stored]}
    setting = Setting(
        ok(stored), ok(listed), streams=[[line("ADDED", stored)]], managed_fields=False
    )
    wanted = stored | {"metadata": {field: stored["metadata"][field] for field in OBJECT_META}}
    assert wanted == setting.get()
    assert Listing([wanted], "7") == run(setting.clock, setting.client.list(PODS))
    assert [wanted] == [each.object for each in setting.watched()]


def test_managed_fields_are_kept_by_default() -> None:
    assert _managed("Pod") == Setting(ok(_managed("Pod"))).get()


def test_kinds_with_other_fields_keep_them() -> None:
    stored: Json = {"metadata": {"name": "c"}, "data": {"a": "b"}}
    setting = Setting(ok(stored), managed_fields=False)
    assert stored == run(setting.clock, setting.client.get(CONFIG_MAPS, KEY))


def test_a_failed_watch_says_why_even_without_managed_fields() -> None:
    status = {"kind": "Status", "code": 410, "reason": "Expired", "message": "too old"}
    with pytest.raises(errors.Gone, match="too old"):
        Setting(streams=[[line("ERROR", status)]], managed_fields=False).watched()


def test_a_line_that_is_no_event_ends_the_watch() -> None:
    with pytest.raises(Unreachable, match="cannot be read"):
        Setting(streams=[[b"<html>\n"]]).watched()


def test_who_leaves_a_watch_hangs_up() -> None:
    setting = Setting(streams=[[line("ADDED", {"metadata": {}})] * 2])

    async def main() -> None:
        watch = setting.client.watch(PODS, since="1")
        await anext(watch)
        await watch.aclose()

    run(setting.clock, main())
    assert 1 == setting.transport.closed


def test_any_path_can_be_fetched_and_a_log_is_text() -> None:
    setting = Setting(ok({"gitVersion": "v1"}), streams=[[b"he", b"llo"]])

    async def main() -> tuple[Any, bytes]:
        version = await setting.client.fetch("/version")
        return version, b"".join([chunk async for chunk in setting.client.log(KEY)])

    assert ({"gitVersion": "v1"}, b"hello") == run(setting.clock, main())
