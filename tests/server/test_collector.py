# SPDX-License-Identifier: Apache-2.0
"""Garbage collection of objects whose owners are deleted."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from datetime import UTC, datetime
from functools import cache

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kuota.api.base import Json, Key
from kuota.server.builtin_kinds import builtin_kinds
from kuota.server.changes import QUEUE
from kuota.server.collector import Collector, StoreWriter
from kuota.server.kinds import Kinds
from kuota.server.store import Store

NOW = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
MAPS = "configmaps"
SLOW = "example.com/slow"


@cache
def kinds() -> Kinds:
    return builtin_kinds()


class World:
    """A store of ConfigMaps that own each other, and its collector. Uids are names in brackets."""

    def __init__(self) -> None:
        self.store = Store.open(":memory:")
        self.kinds = kinds()
        self.writer = StoreWriter(self.store, self.kinds, lambda: NOW)
        self.collector = Collector(self.store, self.kinds, self.writer)

    def put(
        self, name: str, *owners: str | Json, finalizers: tuple[str, ...] = (), namespace: str = "x"
    ) -> None:
        """Owners by name, which hold back nobody, or with a "!" behind, which block."""
        refs = [reference(each) if isinstance(each, str) else each for each in owners]
        metadata: Json = {"name": name, "namespace": namespace, "uid": f"<{name}>"}
        metadata |= {"ownerReferences": refs} if refs else {}
        metadata |= {"finalizers": list(finalizers)} if finalizers else {}
        self.store.create(MAPS, {"kind": "ConfigMap", "metadata": metadata})

    def delete(self, name: str, policy: str = "Background") -> None:
        """As the API server does it; then all that follows."""
        obj = self.store.get(MAPS, Key("x", name))
        assert obj is not None
        self.writer.delete(MAPS, obj, policy)
        self.settle()

    def finish(self, name: str) -> None:
        """Whoever set the finalizer takes it away."""
        obj = self.store.get(MAPS, Key("x", name))
        assert obj is not None
        obj["metadata"]["finalizers"].remove(SLOW)
        self.writer.replace(MAPS, obj)
        self.settle()

    def settle(self) -> None:
        assert self.collector.settle(1000), "the collector comes to rest"

    def metadata(self, name: str) -> Json:
        obj = self.store.get(MAPS, Key("x", name))
        assert obj is not None
        metadata: Json = obj["metadata"]
        return metadata

    @property
    def names(self) -> list[str]:
        """All that there is, with a "-" behind what is on its way out."""
        return [
            obj["metadata"]["name"] + ("-" if "deletionTimestamp" in obj["metadata"] else "")
            for obj in self.store.list(MAPS).items
        ]

    def owners(self, name: str) -> list[str]:
        return [each["name"] for each in self.metadata(name).get("ownerReferences", [])]


def reference(owner: str, kind: str = "ConfigMap", api_version: str = "v1") -> Json:
    name = owner.removesuffix("!")
    ref = {"apiVersion": api_version, "kind": kind, "name": name, "uid": f"<{name}>"}
    return ref | ({"blockOwnerDeletion": True} if owner.endswith("!") else {})


@pytest.fixture
def world() -> Iterator[World]:
    world = World()
    yield world
    world.store.close()


def test_with_its_owner_everything_below_goes(world: World) -> None:
    for name, *owners in (["a"], ["b", "a"], ["c", "b!"], ["other"]):
        world.put(name, *owners)
    world.delete("a")
    assert ["other"] == world.names


def test_what_has_another_owner_stays_and_forgets_the_one_that_went(world: World) -> None:
    for name, *owners in (["a"], ["b"], ["c", "a", "b"]):
        world.put(name, *owners)
    world.delete("a")
    assert ["b", "c"] == world.names
    assert ["b"] == world.owners("c")
    world.delete("b")
    assert [] == world.names


def test_an_owner_in_the_foreground_waits_for_those_that_block_it(world: World) -> None:
    world.put("a")
    world.put("blocks", "a!", finalizers=(SLOW,))
    world.put("loose", "a")
    world.delete("a", "Foreground")
    assert ["a-", "blocks-"] == world.names
    assert ["foregroundDeletion"] == world.metadata("a")["finalizers"]
    world.finish("blocks")
    assert [] == world.names


def test_an_owner_in_the_foreground_does_not_wait_for_the_others(world: World) -> None:
    world.put("a")
    world.put("loose", "a", finalizers=(SLOW,))
    world.delete("a", "Foreground")
    assert ["loose-"] == world.names


def test_the_foreground_reaches_all_the_way_down(world: World) -> None:
    world.put("a")
    world.put("b", "a!")
    world.put("c", "b!", finalizers=(SLOW,))
    world.delete("a", "Foreground")
    assert ["a-", "b-", "c-"] == world.names
    world.finish("c")
    assert [] == world.names


def test_what_an_owner_waits_for_may_have_another_that_stays(world: World) -> None:
    for name, *owners in (["a"], ["b"], ["c", "a!", "b!"]):
        world.put(name, *owners)
    world.delete("a", "Foreground")
    assert ["b", "c"] == world.names
    assert ["b"] == world.owners("c")


def test_an_owner_no_longer_waits_for_what_no_longer_blocks(world: World) -> None:
    world.put("a")
    world.put("b", "a!", finalizers=(SLOW,))
    world.delete("a", "Foreground")
    obj = world.store.get(MAPS, Key("x", "b"))
    assert obj is not None
    obj["metadata"]["ownerReferences"][0]["blockOwnerDeletion"] = False
    world.store.update(MAPS, obj, None)
    world.settle()
    assert ["b-"] == world.names


def test_orphans_stay_and_forget_their_owner(world: World) -> None:
    world.put("a", finalizers=(SLOW,))
    world.put("b", "a!")
    world.put("c", "b")
    world.delete("a", "Orphan")
    assert ["a-", "b", "c"] == world.names
    assert ([SLOW], []) == (world.metadata("a")["finalizers"], world.owners("b"))
    assert ["b"] == world.owners("c")
    world.finish("a")
    assert ["b", "c"] == world.names


def test_owners_in_a_ring_do_not_wait_for_each_other_for_ever(world: World) -> None:
    for name, *owners in (["a", "c!"], ["b", "a!"], ["c", "b!"]):
        world.put(name, *owners)
    world.settle()
    assert ["a", "b", "c"] == world.names
    world.delete("a", "Foreground")
    assert [] == world.names


def test_what_comes_after_its_owner_went_goes_too(world: World) -> None:
    world.put("late", "a")
    world.settle()
    assert [] == world.names


def test_another_of_the_same_name_is_not_the_owner(world: World) -> None:
    world.put("a")
    stranger = reference("a") | {"uid": "<another>"}
    world.put("b", stranger)
    world.settle()
    assert ["a"] == world.names


@pytest.mark.parametrize(
    "owner",
    [reference("a", kind="Widget", api_version="example.com/v1"), reference("a", kind="Widget")],
)
def test_what_an_unknown_kind_owns_is_left_alone(world: World, owner: Json) -> None:
    world.put("b", owner, "gone")
    world.settle()
    assert ["b"] == world.names


def test_what_an_object_owned_goes_even_if_the_kind_went_with_it(world: World) -> None:
    owner = {"metadata": {"name": "w", "namespace": "x", "uid": "<w>"}}
    world.store.create("widgets.example.com", owner)
    world.put("b", reference("w", kind="Widget", api_version="example.com/v1"))
    world.settle()
    assert ["b"] == world.names
    world.store.delete("widgets.example.com", Key("x", "w"))
    world.settle()
    assert [] == world.names


def test_owners_are_of_the_same_namespace_or_of_none(world: World) -> None:
    world.store.create("namespaces", {"metadata": {"name": "x", "uid": "<x>"}})
    world.put("a")
    world.put("far", "a", namespace="y")
    world.put("near", "a")
    world.put("everywhere", reference("x", kind="Namespace"), namespace="y")
    world.settle()
    assert ["a", "near", "everywhere"] == world.names


def test_what_has_no_namespace_is_not_owned_from_within_one(world: World) -> None:
    world.put("a")
    node = {"metadata": {"name": "n", "uid": "<n>", "ownerReferences": [reference("zz")]}}
    world.store.create("nodes", node)
    world.settle()
    assert world.store.get("nodes", Key("", "n")) is not None


def test_what_said_so_before_makes_orphans_when_its_owner_goes(world: World) -> None:
    world.put("a")
    world.put("b", "a", finalizers=("orphan",))
    world.put("c", "b")
    world.delete("a")
    assert ["c"] == world.names
    assert [] == world.owners("c")


def test_a_pod_on_a_node_gets_its_time_of_grace(world: World) -> None:
    world.put("a")
    metadata = {"name": "p", "namespace": "x", "uid": "<p>", "ownerReferences": [reference("a!")]}
    pod = {"metadata": metadata, "spec": {"nodeName": "n", "terminationGracePeriodSeconds": 7}}
    world.store.create("pods", pod)
    world.delete("a", "Foreground")
    found = world.store.get("pods", Key("x", "p"))
    assert found is not None
    assert 7 == found["metadata"]["deletionGracePeriodSeconds"]
    assert ["a-"] == world.names
    world.store.delete("pods", Key("x", "p"))
    world.settle()
    assert [] == world.names


def test_a_collector_takes_up_what_another_left(world: World) -> None:
    world.put("a")
    world.put("b", "a!")
    world.put("c", "gone")
    obj = world.store.get(MAPS, Key("x", "a"))
    assert obj is not None
    world.writer.delete(MAPS, obj, "Foreground")
    world.collector = Collector(world.store, world.kinds, world.writer)
    world.settle()
    assert [] == world.names


def test_the_loop_collects_until_the_store_closes(world: World) -> None:
    async def story() -> list[str]:
        loop = asyncio.create_task(world.collector.run())
        changes = world.store.watch(MAPS)
        world.put("a")
        for number in range(300):
            world.put(f"b{number}", "a")
        world.store.delete(MAPS, Key("x", "a"))
        while world.names:
            await changes.batch()
        world.store.close()
        await loop
        return []

    assert [] == asyncio.run(story())


def test_a_loop_that_fell_behind_looks_at_everything_anew(world: World) -> None:
    async def story() -> None:
        world.put("a")
        world.put("b", "a")
        world.store.delete(MAPS, Key("x", "a"))
        for number in range(QUEUE):
            world.put(f"c{number}")
        world.store.compact(keep=0)
        changes = world.store.watch(MAPS)
        loop = asyncio.create_task(world.collector.run())
        assert ["b"] == [change.key.name for change in await changes.batch()]
        loop.cancel()
        await asyncio.gather(loop, return_exceptions=True)

    asyncio.run(story())


policies = st.sampled_from(["Background", "Foreground", "Orphan"])
nodes = st.integers(0, 7)


@given(
    edges=st.lists(st.tuples(nodes, nodes, st.booleans()), max_size=14),
    deletions=st.lists(st.tuples(nodes, policies, st.booleans()), min_size=1, max_size=4),
)
@settings(max_examples=200, deadline=None, derandomize=True)
def test_in_any_owner_graph_only_objects_with_a_live_owner_or_a_finalizer_remain(
    edges: list[tuple[int, int, bool]], deletions: list[tuple[int, str, bool]]
) -> None:
    """Rings included, it comes to rest; nothing hangs, no reference leads nowhere, and what was not
    deleted and has an owner that stayed, or had none, stays."""
    world = World()
    for node in range(8):
        found = {up: blocks for down, up, blocks in edges if down == node}
        world.put(str(node), *(f"{up}{'!' if blocks else ''}" for up, blocks in found.items()))
    world.settle()
    deleted = set()
    for node, policy, at_once in deletions:
        obj = world.store.get(MAPS, Key("x", str(node)))
        if obj is not None:
            world.writer.delete(MAPS, obj, policy)
            deleted.add(str(node))
        if not at_once:
            world.settle()
    world.settle()
    left = set(world.names)
    assert not any(name.endswith("-") for name in left)
    assert not deleted & left
    for name in left:
        assert set(world.owners(name)) <= left
    for name in set(map(str, range(8))) - deleted:
        owners = {str(up) for down, up, _ in edges if str(down) == name}
        if not owners or owners & left:
            assert name in left
    world.store.close()
