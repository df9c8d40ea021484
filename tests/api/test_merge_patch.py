# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import copy
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kuota.api.base import Json
from kuota.api.merge_patch import combined, difference, equal, merged

# RFC 7386, appendix A. Documents and patches that are no objects are tested as fields of one.
EXAMPLES: list[tuple[Any, Any, Any]] = [
    ({"a": "b"}, {"a": "c"}, {"a": "c"}),
    ({"a": "b"}, {"b": "c"}, {"a": "b", "b": "c"}),
    ({"a": "b"}, {"a": None}, {}),
    ({"a": "b", "b": "c"}, {"a": None}, {"b": "c"}),
    ({"a": ["b"]}, {"a": "c"}, {"a": "c"}),
    ({"a": "c"}, {"a": ["b"]}, {"a": ["b"]}),
    ({"a": {"b": "c"}}, {"a": {"b": "d", "c": None}}, {"a": {"b": "d"}}),
    ({"a": [{"b": "c"}]}, {"a": [1]}, {"a": [1]}),
    (["a", "b"], ["c", "d"], ["c", "d"]),
    ({"a": "b"}, ["c"], ["c"]),
    ({"a": "foo"}, "bar", "bar"),
    ({"e": None}, {"a": 1}, {"e": None, "a": 1}),
    ([1, 2], {"a": "b", "c": None}, {"a": "b"}),
    ({}, {"a": {"bb": {"ccc": None}}}, {"a": {"bb": {}}}),
]

_NAMES = st.sampled_from("abc")
_SCALARS = st.booleans() | st.integers(-1, 2) | st.sampled_from(["", "a"])


def _values(scalars: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.recursive(
        scalars,
        lambda inner: st.lists(inner, max_size=2) | st.dictionaries(_NAMES, inner, max_size=3),
        max_leaves=10,
    )


_OBJECTS = st.dictionaries(_NAMES, _values(_SCALARS), max_size=3)
_PATCHES = st.dictionaries(_NAMES, _values(_SCALARS | st.none()), max_size=3)
_FIELDS = st.dictionaries(_NAMES, st.none() | _SCALARS)
_LAYERED = st.builds(lambda plain, nested: plain | {"z": nested}, _FIELDS, _FIELDS)


@pytest.mark.parametrize(("document", "patch", "expected"), EXAMPLES)
def test_a_merge_patch_follows_the_examples_of_the_rfc(
    document: Any, patch: Any, expected: Any
) -> None:
    before = copy.deepcopy(document)

    assert merged({"f": document}, {"f": patch}) == {"f": expected}
    assert document == before


@settings(max_examples=300, deadline=None)
@given(_OBJECTS, _OBJECTS)
def test_merging_the_difference_gives_the_other_object(before: Json, after: Json) -> None:
    assert equal(merged(before, difference(before, after)), after)


@settings(max_examples=200, deadline=None)
@given(_OBJECTS, _PATCHES)
def test_the_difference_that_a_patch_made_repeats_its_effect(before: Json, patch: Json) -> None:
    after = merged(before, patch)

    assert equal(merged(before, difference(before, after)), after)


@settings(max_examples=100, deadline=None)
@given(_OBJECTS)
def test_equal_objects_have_no_difference(obj: Json) -> None:
    assert difference(obj, copy.deepcopy(obj)) == {}


@settings(max_examples=200, deadline=None)
@given(_OBJECTS, _LAYERED, _LAYERED)
def test_a_combined_patch_has_the_effect_of_one_after_the_other(
    target: Json, first: Json, second: Json
) -> None:
    one_by_one = merged(merged(target, first), second)

    assert equal(merged(target, combined(first, second)), one_by_one)


def test_a_number_that_becomes_a_boolean_is_a_difference() -> None:
    assert difference({"a": 1}, {"a": True}) == {"a": True}
