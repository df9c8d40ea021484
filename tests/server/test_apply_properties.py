# SPDX-License-Identifier: Apache-2.0
"""Invariants of server-side apply for any history."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from kuota.api import fieldsets
from kuota.server.apply import ApplyConflict
from kuota.server.fieldwalk import compared, fields_of
from server.applying import CONFIG_MAP, LATER, Json, apply, config_map, owned, track

_data = st.dictionaries(st.sampled_from("abcd"), st.sampled_from("12"), max_size=4)
_lists = st.lists(st.sampled_from(["f/a", "f/b", "f/c"]), unique=True, max_size=3)
_configs = st.builds(
    lambda data, labels, finalizers: config_map(data, labels=labels, finalizers=finalizers),
    _data,
    _data,
    _lists,
)
_steps = st.lists(
    st.tuples(st.sampled_from(["apply", "update"]), st.sampled_from("xyz"), _configs),
    min_size=1,
    max_size=5,
)


def _played(steps: list[tuple[str, str, Json]]) -> Json:
    live: Json | None = None
    for operation, manager, config in steps:
        if operation == "apply":
            live = apply(live, config, manager, force=True)
        else:
            live = track(live, config, manager)
    assert live is not None
    return live


@given(_steps)
@settings(max_examples=60, deadline=None)
def test_what_is_owned_is_there(steps: list[tuple[str, str, Json]]) -> None:
    live = _played(steps)
    there = compared({"metadata": {}}, live, CONFIG_MAP).added
    for fields in owned(live).values():
        assert {} == fieldsets.difference(fieldsets.from_wire(fields), there)


@given(_steps, _configs)
@settings(max_examples=60, deadline=None)
def test_applying_twice_is_applying_once(steps: list[tuple[str, str, Json]], config: Json) -> None:
    once = apply(_played(steps), config, "x", force=True)

    assert once == apply(once, config, "x", now=LATER)


@given(_steps, _configs)
@settings(max_examples=60, deadline=None)
def test_after_an_apply_the_object_says_what_was_applied(
    steps: list[tuple[str, str, Json]], config: Json
) -> None:
    after = apply(_played(steps), config, "x", force=True)

    assert config["data"].items() <= after.get("data", {}).items()
    assert set(config["metadata"]["finalizers"]) <= set(after["metadata"].get("finalizers", ()))


@given(_steps, _configs)
@settings(max_examples=60, deadline=None)
def test_without_force_nothing_of_others_changes(
    steps: list[tuple[str, str, Json]], config: Json
) -> None:
    live = _played(steps)
    try:
        after = owned(apply(live, config, "w"))
    except ApplyConflict:
        return
    assert owned(live) == {who: after.get(who) for who in owned(live)}


@given(_configs, _configs)
@settings(max_examples=60, deadline=None)
def test_field_sets_obey_the_laws_of_sets(one: Json, other: Json) -> None:
    a, b = fields_of(one, CONFIG_MAP), fields_of(other, CONFIG_MAP)
    common, rest = fieldsets.intersection(a, b), fieldsets.difference(a, b)

    assert a == fieldsets.union(common, rest) or not a
    assert {} == fieldsets.intersection(rest, b)
    assert {} == fieldsets.difference(a, fieldsets.union(a, b))
    assert a == fieldsets.from_wire(fieldsets.to_wire(a))
    assert sorted(set(fieldsets.paths(a)) & set(fieldsets.paths(b))) == sorted(
        fieldsets.paths(common)
    )
