# SPDX-License-Identifier: Apache-2.0
"""Results and errors of the store."""

from __future__ import annotations

from contextlib import closing

import pytest

from kuota.api.base import Key
from kuota.server import store_schema
from kuota.server.store import AlreadyExists, Conflict, Gone, NotFound, Store, StoreError
from server.objects import JOBS, PODS, at, key, thing


def test_what_was_created_is_read_back_with_its_revision(store: Store) -> None:
    assert at(thing("a"), 1) == store.create(PODS, thing("a"))
    assert at(thing("a"), 1) == store.get(PODS, key("a"))
    assert 1 == store.revision


def test_what_was_never_created_is_none(store: Store) -> None:
    store.create(PODS, thing("a"))
    assert store.get(PODS, key("b")) is None
    assert store.get(PODS, key("a", "other")) is None
    assert store.get(JOBS, key("a")) is None


def test_nothing_is_created_twice(store: Store) -> None:
    store.create(PODS, thing("a"))
    with pytest.raises(AlreadyExists):
        store.create(PODS, thing("a", value=2))
    assert at(thing("a"), 1) == store.get(PODS, key("a"))
    assert 1 == store.revision


def test_an_update_at_the_expected_revision_replaces(store: Store) -> None:
    store.create(PODS, thing("a"))
    assert at(thing("a", value=2), 2) == store.update(PODS, thing("a", value=2), "1")
    assert at(thing("a", value=2), 2) == store.get(PODS, key("a"))


def test_an_update_without_an_expectation_always_replaces(store: Store) -> None:
    store.create(PODS, thing("a"))
    store.update(PODS, thing("a", value=2), None)
    assert at(thing("a", value=3), 3) == store.update(PODS, thing("a", value=3), None)


def test_an_update_at_another_revision_is_a_conflict(store: Store) -> None:
    store.create(PODS, thing("a"))
    store.update(PODS, thing("a", value=2), None)
    with pytest.raises(Conflict, match="resourceVersion 2, not 1"):
        store.update(PODS, thing("a", value=3), "1")
    assert at(thing("a", value=2), 2) == store.get(PODS, key("a"))


def test_what_is_not_there_is_neither_updated_nor_deleted(store: Store) -> None:
    with pytest.raises(NotFound):
        store.update(PODS, thing("a"), None)
    with pytest.raises(NotFound):
        store.delete(PODS, key("a"))
    assert 0 == store.revision


def test_an_update_that_changes_nothing_writes_nothing(store: Store) -> None:
    store.create(PODS, {"kind": "Thing", "metadata": {"name": "a"}, "spec": {"x": 1, "y": 2}})
    same = {"spec": {"y": 2, "x": 1}, "metadata": {"name": "a"}, "kind": "Thing"}
    assert at(same, 1) == store.update(PODS, at(same, 7), None)
    assert 1 == store.revision


@pytest.mark.parametrize(("old", "new"), [(1, True), (0, False), (1, 1.0), (0, None)])
def test_values_that_only_python_takes_for_equal_are_a_change(
    store: Store, old: object, new: object
) -> None:
    store.create(PODS, thing("a", value=old))
    stored = store.update(PODS, thing("a", value=new), None)
    assert repr(new) == repr(stored["spec"]["value"])
    assert 2 == store.revision


def test_a_deletion_returns_the_last_state_at_its_own_revision(store: Store) -> None:
    store.create(PODS, thing("a", value=5))
    assert at(thing("a", value=5), 2) == store.delete(PODS, key("a"), "1")
    assert store.get(PODS, key("a")) is None
    assert 2 == store.revision


def test_a_deletion_at_another_revision_is_a_conflict(store: Store) -> None:
    store.create(PODS, thing("a"))
    with pytest.raises(Conflict):
        store.delete(PODS, key("a"), "9")
    assert store.get(PODS, key("a")) is not None


def test_a_name_can_be_used_again_after_deletion(store: Store) -> None:
    store.create(PODS, thing("a"))
    store.delete(PODS, key("a"))
    assert at(thing("a"), 3) == store.create(PODS, thing("a"))


def test_a_list_is_ordered_by_namespace_and_name(store: Store) -> None:
    for name, namespace in (("b", "x"), ("a", "y"), ("c", ""), ("a", "x"), ("a-b", "x")):
        store.create(PODS, thing(name, namespace))
    store.create(JOBS, thing("other", "x"))
    listing = store.list(PODS)
    places = [(o["metadata"].get("namespace", ""), o["metadata"]["name"]) for o in listing.items]
    assert [("", "c"), ("x", "a"), ("x", "a-b"), ("x", "b"), ("y", "a")] == places
    assert 6 == listing.revision


def test_a_list_of_one_namespace_has_only_that(store: Store) -> None:
    for name, namespace in (("a", "x"), ("b", "x"), ("a", "y"), ("a", "")):
        store.create(PODS, thing(name, namespace))
    assert [at(thing("a", "x"), 1), at(thing("b", "x"), 2)] == store.list(PODS, "x").items
    assert [at(thing("a", ""), 4)] == store.list(PODS, "").items
    assert [] == store.list(PODS, "z").items


def test_pages_of_one_revision_are_of_one_instant(store: Store) -> None:
    for name in "abcde":
        store.create(PODS, thing(name))
    first = store.list(PODS, limit=2)
    store.update(PODS, thing("a", value=9), None)
    store.update(PODS, thing("c", value=8), None)
    store.update(PODS, thing("c", value=9), None)
    store.delete(PODS, key("d"))
    store.create(PODS, thing("d", value=9))
    store.delete(PODS, key("e"))
    store.create(PODS, thing("f"))
    rest = store.list(PODS, after=key("b"), limit=9, at=first.revision)
    assert [at(thing(name), i) for i, name in enumerate("abcde", 1)] == first.items + rest.items
    assert first.revision == rest.revision == 5


@pytest.mark.parametrize("one_namespace", [True, False])
@pytest.mark.parametrize("further", [True, False])
def test_a_page_is_found_without_sorting_what_follows(one_namespace: bool, further: bool) -> None:
    query = "EXPLAIN QUERY PLAN " + store_schema.page(False, one_namespace, further)
    names = ("resource", "namespace", "after_namespace", "after_name", "at", "limit")
    with closing(store_schema.connected(":memory:", store_schema.Durability.NORMAL)) as database:
        steps = [row[3] for row in database.execute(query, dict.fromkeys(names))]
    assert not [each for each in steps if "TEMP B-TREE" in each]


def test_a_state_before_the_compaction_is_gone(store: Store) -> None:
    for name in "abc":
        store.create(PODS, thing(name))
    store.compact(keep=1)
    assert [at(thing("a"), 1), at(thing("b"), 2)] == store.list(PODS, at=2).items
    with pytest.raises(Gone):
        store.list(PODS, at=1)


def test_callers_share_no_state_with_the_store(store: Store) -> None:
    mine = thing("a", value={"deep": [1]})
    stored = store.create(PODS, mine)
    assert "resourceVersion" not in mine["metadata"]
    for obj in (mine, stored, store.get(PODS, key("a")), store.list(PODS).items[0]):
        assert obj is not None
        obj["spec"]["value"]["deep"].append(2)
        obj["metadata"]["name"] = "b"
    assert at(thing("a", value={"deep": [1]}), 1) == store.get(PODS, key("a"))


def test_the_log_reports_what_happened_and_what_it_replaced(store: Store) -> None:
    store.create(PODS, thing("a"))
    store.update(PODS, thing("a", value=2), None)
    store.create(JOBS, thing("j", ""))
    store.delete(PODS, key("a"))
    added, modified, job, deleted = store.changes(0)
    assert ("ADDED", at(thing("a"), 1), None) == (added.type, added.object, added.previous)
    assert ("MODIFIED", at(thing("a", value=2), 2)) == (modified.type, modified.object)
    assert at(thing("a"), 1) == modified.previous
    assert (JOBS, Key("", "j"), 3) == (job.resource, job.key, job.revision)
    assert ("DELETED", at(thing("a", value=2), 4)) == (deleted.type, deleted.object)
    assert at(thing("a", value=2), 2) == deleted.previous
    assert [added, modified] == store.changes(0, PODS, "team", limit=2)
    assert [deleted] == store.changes(2, PODS)


def test_a_write_that_fails_changes_nothing(store: Store) -> None:
    store.create(PODS, thing("a"))
    watch = store.watch(None)
    store._db.execute("PRAGMA query_only = ON")
    with pytest.raises(StoreError, match="nothing was written"):
        store.update(PODS, thing("a", value=2), None)
    store._db.execute("PRAGMA query_only = OFF")
    assert [] == watch.pending()
    assert at(thing("a", value=3), 2) == store.update(PODS, thing("a", value=3), None)


def test_the_resources_are_those_that_have_objects(store: Store) -> None:
    store.create(PODS, thing("a"))
    store.create(JOBS, thing("a"))
    store.delete(PODS, key("a"))
    assert [JOBS] == store.resources()
