# SPDX-License-Identifier: Apache-2.0
"""What watches of the store receive, and when they are closed."""

from __future__ import annotations

import asyncio

import pytest

from kuota.server.changes import QUEUE, STRIDE, Change, Watch
from kuota.server.store import Gone, Store
from server.objects import JOBS, PODS, key, thing


def seen(changes: list[Change]) -> list[tuple[str, str, int]]:
    return [(change.type, change.key.name, change.revision) for change in changes]


async def taken(watch: Watch, count: int) -> list[Change]:
    return [await anext(watch) for _ in range(count)]


def test_a_watch_from_a_revision_begins_after_it(store: Store) -> None:
    store.create(PODS, thing("a"))
    store.create(PODS, thing("b"))
    store.delete(PODS, key("a"))
    assert [("ADDED", "b", 2), ("DELETED", "a", 3)] == seen(store.watch(PODS, since=1).pending())


def test_a_watch_from_now_leaves_out_the_past(store: Store) -> None:
    store.create(PODS, thing("a"))
    watch = store.watch(PODS)
    store.update(PODS, thing("a", value=2), None)
    assert [("MODIFIED", "a", 2)] == seen(watch.pending())
    assert [] == watch.pending()


def test_a_watch_sees_its_resource_and_namespace_only(store: Store) -> None:
    everything, pods = store.watch(None), store.watch(PODS)
    mine, late = store.watch(PODS, "x"), store.watch(PODS, "x", since=0)
    store.create(PODS, thing("a", "x"))
    store.create(PODS, thing("b", "y"))
    store.create(JOBS, thing("c", "x"))
    assert [1, 2, 3] == [change.revision for change in everything.pending()]
    assert [1, 2] == [change.revision for change in pods.pending()]
    assert [1] == [change.revision for change in mine.pending()]
    assert [1] == [change.revision for change in late.pending()]


def test_a_waiting_reader_wakes_at_the_write(store: Store) -> None:
    async def story() -> list[tuple[str, str, int]]:
        watch = store.watch(PODS)
        reader = asyncio.create_task(taken(watch, 2))
        await asyncio.sleep(0)
        store.create(JOBS, thing("other"))
        store.create(PODS, thing("a"))
        await asyncio.sleep(0)
        store.delete(PODS, key("a"))
        return seen(await reader)

    assert [("ADDED", "a", 2), ("DELETED", "a", 3)] == asyncio.run(story())


def test_a_batch_is_all_that_there_is(store: Store) -> None:
    async def story() -> list[tuple[str, str, int]]:
        watch = store.watch(PODS)
        reader = asyncio.create_task(watch.batch())
        await asyncio.sleep(0)
        store.create(PODS, thing("a"))
        store.create(PODS, thing("b"))
        return seen(await reader)

    assert [("ADDED", "a", 1), ("ADDED", "b", 2)] == asyncio.run(story())


def test_a_reader_that_was_cancelled_loses_nothing(store: Store) -> None:
    async def story() -> list[tuple[str, str, int]]:
        watch = store.watch(PODS)
        reader = asyncio.create_task(taken(watch, 1))
        await asyncio.sleep(0)
        reader.cancel()
        await asyncio.gather(reader, return_exceptions=True)
        store.create(PODS, thing("a"))
        return seen(await taken(watch, 1))

    assert [("ADDED", "a", 1)] == asyncio.run(story())


def test_a_closed_watch_ends_after_what_it_held(store: Store) -> None:
    async def story() -> list[tuple[str, str, int]]:
        watch = store.watch(PODS)
        store.create(PODS, thing("a"))
        watch.close()
        store.create(PODS, thing("b"))
        return seen([change async for change in watch])

    assert [("ADDED", "a", 1)] == asyncio.run(story())


def test_closing_the_store_ends_its_watches() -> None:
    async def story() -> list[Change]:
        store = Store.open(":memory:")
        reader = asyncio.create_task(store.watch(PODS).batch())
        await asyncio.sleep(0)
        store.close()
        return await reader

    assert [] == asyncio.run(story())


def test_a_slow_watch_reads_on_from_the_log_and_misses_nothing(store: Store) -> None:
    watch, count = store.watch(PODS), QUEUE + STRIDE + 7
    for number in range(count):
        store.create(PODS, thing(f"a{number}"))
    assert 0 == len(watch._queue), "let go of, so that memory stays bounded"
    assert count == store.revision
    got = asyncio.run(taken(watch, count))
    assert list(range(1, count + 1)) == [change.revision for change in got]
    store.create(PODS, thing("b"))
    assert [("ADDED", "b", count + 1)] == seen(watch.pending())


def test_writes_while_a_watch_catches_up_come_once_and_in_order(store: Store) -> None:
    for number in range(STRIDE + 3):
        store.create(PODS, thing(f"a{number}"))
    watch, got = store.watch(PODS, since=0), []
    for number in range(STRIDE + 3, 3 * STRIDE):
        got += asyncio.run(taken(watch, 1))
        store.create(PODS, thing(f"a{number}"))
    while changes := watch.pending():
        got += changes
    assert list(range(1, 3 * STRIDE + 1)) == [change.revision for change in got]


def test_a_watch_that_fell_behind_the_compaction_hears_gone(store: Store) -> None:
    watch = store.watch(PODS)
    for number in range(QUEUE + 1):
        store.create(PODS, thing(f"a{number}"))
    store.compact(keep=10)
    with pytest.raises(Gone):
        asyncio.run(taken(watch, 1))


def test_a_watch_that_keeps_up_does_not_mind_compaction(store: Store) -> None:
    watch = store.watch(PODS)
    for number in range(20):
        store.create(PODS, thing(f"a{number}"))
    store.compact(keep=0)
    assert 20 == len(watch.pending())
    store.create(PODS, thing("b"))
    assert [("ADDED", "b", 21)] == seen(watch.pending())


def test_what_is_compacted_or_yet_to_come_cannot_be_watched_from(store: Store) -> None:
    for number in range(5):
        store.create(PODS, thing(f"a{number}"))
    store.compact(keep=2)
    assert 3 == store.compacted
    assert [4, 5] == [change.revision for change in store.watch(PODS, since=3).pending()]
    for since in (0, 2, 6):
        with pytest.raises(Gone):
            store.watch(PODS, since=since)


def test_a_watch_knows_up_to_where_all_was_handed_out(store: Store) -> None:
    watch = store.watch(PODS)
    store.create(JOBS, thing("j"))
    assert 1 == watch.revision, "nothing of this watch's happened up to here"
    store.create(PODS, thing("a"))
    store.create(PODS, thing("b"))
    store.create(JOBS, thing("k"))
    assert 1 == watch.revision
    asyncio.run(taken(watch, 1))
    assert 2 == watch.revision
    asyncio.run(taken(watch, 1))
    assert 4 == watch.revision


def test_watches_share_changes_but_not_objects(store: Store) -> None:
    one, other = store.watch(PODS), store.watch(PODS)
    store.create(PODS, thing("a"))
    (mine,), (yours,) = one.pending(), other.pending()
    assert mine is yours
    mine.object["spec"]["value"] = "changed"
    assert 0 == yours.object["spec"]["value"]


def test_an_unreferenced_watch_is_removed(store: Store) -> None:
    watch = store.watch(PODS)
    assert 1 == len(store._feed._watches[PODS])
    del watch
    assert 0 == len(store._feed._watches[PODS])
