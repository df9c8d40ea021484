# SPDX-License-Identifier: Apache-2.0
"""Watches and the log are bounded by bytes. A watch that falls too far behind gets status 410."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from kuota.server.changes import MOST_BYTES
from kuota.server.fairness import RequestTurn
from kuota.server.reading import _ListForm
from kuota.server.store import Store
from server.objects import PODS, thing
from server.served import ADMIN, MAPS, Local, config_map

BIG = "x" * 300_000


def test_a_watch_buffers_a_limited_size_and_loses_nothing(store: Store) -> None:
    watch = store.watch(PODS)
    for at in range(30):
        store.create(PODS, thing(f"p{at:02}", value=BIG))
        assert store.buffered_bytes <= MOST_BYTES + 2 * len(BIG)
    names, largest = [], 0
    while batch := watch.pending():
        names += [change.key.name for change in batch]
        largest = max(largest, sum(change.size for change in batch))
    assert [f"p{at:02}" for at in range(30)] == names
    assert largest <= MOST_BYTES + 2 * len(BIG)
    assert 0 == store.buffered_bytes


def test_the_log_is_limited_by_bytes(store: Store) -> None:
    store.sizes.log_limit = 1_000_000
    for at in range(20):
        store.create(PODS, thing(f"p{at}", value=BIG))
        assert store.sizes.log_bytes <= 1_000_000
    assert store.compacted > 10
    assert 20 == len(store.list(PODS).bodies)


def test_a_watch_that_fell_behind_ends_with_status_410(api: Local) -> None:
    api.store.sizes.log_limit = 2_000_000
    response = api.raw("GET", MAPS, watch="true", resourceVersion=str(api.store.revision))
    assert not isinstance(response.body, bytes)
    for at in range(20):
        api.ask("POST", MAPS, config_map(f"m{at}", text=BIG))
    events = api.events(response, 1)
    while events[-1]["type"] != "ERROR":
        events += api.events(response, 1)
    assert (410, "Expired") == (events[-1]["object"]["code"], events[-1]["object"]["reason"])
    assert 1 == api.api.watching.expired


def test_a_large_list_is_streamed_at_one_revision(api: Local) -> None:
    for at in range(40):
        api.ask("POST", MAPS, config_map(f"m{at:02}", text=BIG))
    for accept, field in (
        ("application/json", "items"),
        ("application/json;as=Table;g=meta.k8s.io;v=v1", "rows"),
        ("application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1", "items"),
    ):
        response = api.raw("GET", MAPS, accept=accept, user=ADMIN)
        assert not isinstance(response.body, bytes)
        api.ask("DELETE", f"{MAPS}/m39")

        async def whole(body: object = response.body) -> bytes:
            return b"".join([piece async for piece in body])  # type: ignore[attr-defined]

        found = msgspec.json.decode(api.run(asyncio.wait_for(whole(), 20)))
        assert 40 == len(found[field])
        api.ask("POST", MAPS, config_map("m39", text=BIG))


def test_a_large_list_is_read_and_converted_in_turns_of_the_user(
    api: Local, monkeypatch: pytest.MonkeyPatch
) -> None:
    for at in range(20):
        api.ask("POST", MAPS, config_map(f"m{at:02}", text=BIG))
    turns, worked = Counter[str](), []
    begin, end, read, convert = RequestTurn.begin, RequestTurn.end, Store.list, _ListForm.items

    async def begun(turn: RequestTurn) -> None:
        await begin(turn)
        turns["open"] = 1

    def ended(turn: RequestTurn) -> None:
        end(turn)
        turns["open"] = 0

    def worked_in(what: Callable[..., Any]) -> Callable[..., Any]:
        def called(*given: Any, **named: Any) -> Any:
            worked.append(turns["open"])
            return what(*given, **named)

        return called

    monkeypatch.setattr(RequestTurn, "begin", begun)
    monkeypatch.setattr(RequestTurn, "end", ended)
    monkeypatch.setattr(Store, "list", worked_in(read))
    monkeypatch.setattr(_ListForm, "items", worked_in(convert))
    response = api.raw("GET", MAPS)

    async def drained() -> None:
        async for _ in response.body:  # type: ignore[union-attr]
            pass

    api.run(drained())
    assert len(worked) > 10
    assert all(worked)


def test_a_limited_page_of_large_objects_continues_where_it_ended(api: Local) -> None:
    for at in range(9):
        api.ask("POST", MAPS, config_map(f"m{at}", text=BIG))
    names, more = [], ""
    while True:
        page = api.ask("GET", MAPS, limit="4", **({"continue": more} if more else {}))
        names += [each["metadata"]["name"] for each in page["items"]]
        more = page["metadata"].get("continue", "")
        if not more:
            break
    assert [f"m{at}" for at in range(9)] == names
