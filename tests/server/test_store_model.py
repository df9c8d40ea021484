# SPDX-License-Identifier: Apache-2.0
"""The store behaves like a dict with a history, after any operations."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, invariant, multiple, rule

from kuota.api.base import Json, Key
from kuota.server import changes
from kuota.server.store import AlreadyExists, Conflict, Gone, NotFound, Store, Watch, key_of
from server.objects import JOBS, PODS, at, thing

resources = st.sampled_from([PODS, JOBS])
namespaces = st.sampled_from(["", "x"])
names = st.sampled_from("ab")
values = st.integers(0, 3)
keys = st.builds(Key, namespaces, names)
Event = tuple[int, str, str, Json, Json | None]


class Follower:
    """A watch, and what of the history it is to see next."""

    def __init__(self, watch: Watch, resource: str | None, namespace: str | None, at: int) -> None:
        self.watch = watch
        self.resource = resource
        self.namespace = namespace
        self.position = at

    def concerns(self, event: Event) -> bool:
        return self.resource in (None, event[2]) and self.namespace in (
            None,
            key_of(event[3]).namespace,
        )


class StoreMachine(RuleBasedStateMachine):
    """The model: objects in a dict, and the whole history in a list."""

    followers = Bundle[Follower]("followers")

    def __init__(self) -> None:
        super().__init__()
        self.store = Store.open(":memory:")
        self.objects: dict[tuple[str, Key], Json] = {}
        self.states: list[dict[tuple[str, Key], Json]] = [{}]
        self.history: list[Event] = []
        self.compacted = 0

    def teardown(self) -> None:
        self.store.close()

    def note(self, type_: str, resource: str, obj: Json) -> None:
        place = (resource, key_of(obj))
        self.history.append((len(self.history) + 1, type_, resource, obj, self.objects.get(place)))
        self.objects.pop(place, None)
        if type_ != "DELETED":
            self.objects[place] = obj
        self.states.append(dict(self.objects))

    def expectation(self, place: tuple[str, Key], kind: str) -> str | None:
        current: Any = self.objects.get(place, {"metadata": {"resourceVersion": "1"}})
        right: str = current["metadata"]["resourceVersion"]
        return {"any": None, "right": right, "wrong": f"{right}0"}[kind]

    @rule(resource=resources, key=keys, value=values)
    def create(self, resource: str, key: Key, value: int) -> None:
        obj = thing(key.name, key.namespace, value)
        if (resource, key) in self.objects:
            with pytest.raises(AlreadyExists):
                self.store.create(resource, obj)
            return
        stored = at(obj, len(self.history) + 1)
        assert stored == self.store.create(resource, obj)
        self.note("ADDED", resource, stored)

    @rule(
        resource=resources, key=keys, value=values, kind=st.sampled_from(["any", "right", "wrong"])
    )
    def update(self, resource: str, key: Key, value: int, kind: str) -> None:
        obj, place = thing(key.name, key.namespace, value), (resource, key)
        expected = self.expectation(place, kind)
        if place not in self.objects:
            with pytest.raises(NotFound):
                self.store.update(resource, obj, expected)
        elif kind == "wrong":
            with pytest.raises(Conflict):
                self.store.update(resource, obj, expected)
        elif self.objects[place]["spec"] == obj["spec"]:
            assert self.objects[place] == self.store.update(resource, obj, expected)
        else:
            stored = at(obj, len(self.history) + 1)
            assert stored == self.store.update(resource, obj, expected)
            self.note("MODIFIED", resource, stored)

    @rule(resource=resources, key=keys, kind=st.sampled_from(["any", "right", "wrong"]))
    def delete(self, resource: str, key: Key, kind: str) -> None:
        place = (resource, key)
        expected = self.expectation(place, kind)
        if place not in self.objects:
            with pytest.raises(NotFound):
                self.store.delete(resource, key, expected)
        elif kind == "wrong":
            with pytest.raises(Conflict):
                self.store.delete(resource, key, expected)
        else:
            last = at(self.objects[place], len(self.history) + 1)
            assert last == self.store.delete(resource, key, expected)
            self.note("DELETED", resource, last)

    @rule(burst=st.lists(st.tuples(resources, keys, st.none() | values), min_size=1, max_size=9))
    def write(self, burst: list[tuple[str, Key, int | None]]) -> None:
        """Puts and deletions (None) that mostly do something."""
        for resource, key, value in burst:
            if (resource, key) not in self.objects:
                self.create(resource, key, value or 0)
            elif value is None:
                self.delete(resource, key, "right")
            else:
                self.update(resource, key, value, "right")

    @rule(resource=resources, namespace=st.none() | namespaces, back=st.integers(0, 8))
    def list_then_and_now(self, resource: str, namespace: str | None, back: int) -> None:
        revision = max(0, len(self.history) - back)
        if revision < self.compacted:
            with pytest.raises(Gone):
                self.store.list(resource, namespace, at=revision)
            return
        state = self.states[revision]
        places = sorted(
            key for of, key in state if of == resource and namespace in (None, key.namespace)
        )
        expected = [state[resource, key] for key in places]
        assert expected == self.store.list(resource, namespace, at=revision).items
        first = self.store.list(resource, namespace, at=revision, limit=2).items
        after = key_of(first[-1]) if first else None
        rest = self.store.list(resource, namespace, at=revision, after=after).items
        assert expected == first + rest

    @rule(keep=st.integers(0, 12))
    def compact(self, keep: int) -> None:
        self.compacted = max(self.compacted, len(self.history) - keep)
        assert self.compacted == self.store.compact(keep)

    @rule(
        target=followers,
        resource=st.none() | resources,
        namespace=st.none() | namespaces,
        back=st.none() | st.integers(0, 12),
    )
    def follow(self, resource: str | None, namespace: str | None, back: int | None) -> Any:
        position = max(0, len(self.history) - (back or 0))
        since = None if back is None else position
        if position < self.compacted:
            with pytest.raises(Gone):
                self.store.watch(resource, namespace, since)
            return multiple()
        watch = self.store.watch(resource, namespace, since)
        return Follower(watch, resource, namespace, position)

    @rule(follower=followers, most=st.integers(1, 6))
    def read(self, follower: Follower, most: int) -> None:
        """A reader takes what there is, or some of it; it may have been too slow."""
        todo = [e for e in self.history[follower.position :] if follower.concerns(e)][:most]
        try:
            for event in todo:
                change = asyncio.run(asyncio.wait_for(anext(follower.watch), 5))
                acknowledged = (change.revision, change.type, change.resource, change.object)
                assert event == (*acknowledged, change.previous)
                follower.position = change.revision
        except Gone:
            assert follower.position < self.compacted
            self.restart(follower)
        assert follower.watch.revision >= follower.position

    def restart(self, follower: Follower) -> None:
        follower.watch = self.store.watch(follower.resource, follower.namespace)
        follower.position = len(self.history)

    @rule(follower=followers)
    def drain(self, follower: Follower) -> None:
        got: list[int] = []
        try:
            while found := follower.watch.pending():
                got += [change.revision for change in found]
        except Gone:
            assert follower.position < self.compacted
            self.restart(follower)
            return
        todo = [e[0] for e in self.history[follower.position :] if follower.concerns(e)]
        assert todo == got
        follower.position = len(self.history)
        assert len(self.history) == follower.watch.revision

    @invariant()
    def every_object_is_as_in_the_model(self) -> None:
        assert len(self.history) == self.store.revision
        for resource in (PODS, JOBS):
            expected = {key: obj for (of, key), obj in self.objects.items() if of == resource}
            assert expected == {key_of(obj): obj for obj in self.store.list(resource).items}
            assert all(obj == self.store.get(resource, key) for key, obj in expected.items())


@pytest.fixture(autouse=True)
def short_queues(monkeypatch: pytest.MonkeyPatch) -> None:
    """So that watches fall behind within a short story."""
    monkeypatch.setattr(changes, "QUEUE", 3)
    monkeypatch.setattr(changes, "STRIDE", 2)


StoreMachine.TestCase.settings = settings(
    max_examples=100, stateful_step_count=30, deadline=None, derandomize=True
)
test_store_and_model_tell_the_same_history = StoreMachine.TestCase
