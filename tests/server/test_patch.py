# SPDX-License-Identifier: Apache-2.0
"""JSON Patch: the examples of the RFC, and the patches of kubectl."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kuota.api.merge_patch import equal
from kuota.server.patch import json_patch
from kuota.server.strategic import PatchError

# RFC 6902, appendix A.
PATCHES: list[tuple[Any, list[Any], Any]] = [
    (
        {"foo": "bar"},
        [{"op": "add", "path": "/baz", "value": "qux"}],
        {"baz": "qux", "foo": "bar"},
    ),
    (
        {"foo": ["bar", "baz"]},
        [{"op": "add", "path": "/foo/1", "value": "qux"}],
        {"foo": ["bar", "qux", "baz"]},
    ),
    ({"baz": "qux", "foo": "bar"}, [{"op": "remove", "path": "/baz"}], {"foo": "bar"}),
    (
        {"foo": ["bar", "qux", "baz"]},
        [{"op": "remove", "path": "/foo/1"}],
        {"foo": ["bar", "baz"]},
    ),
    ({"baz": "qux"}, [{"op": "replace", "path": "/baz", "value": "boo"}], {"baz": "boo"}),
    (
        {"foo": {"bar": "baz", "waldo": "fred"}, "qux": {"corge": "grault"}},
        [{"op": "move", "from": "/foo/waldo", "path": "/qux/thud"}],
        {"foo": {"bar": "baz"}, "qux": {"corge": "grault", "thud": "fred"}},
    ),
    (
        {"foo": ["all", "grass", "cows", "eat"]},
        [{"op": "move", "from": "/foo/1", "path": "/foo/3"}],
        {"foo": ["all", "cows", "eat", "grass"]},
    ),
    (
        {"baz": "qux", "foo": ["a", 2, "c"]},
        [
            {"op": "test", "path": "/baz", "value": "qux"},
            {"op": "test", "path": "/foo/1", "value": 2},
        ],
        {"baz": "qux", "foo": ["a", 2, "c"]},
    ),
    (
        {"foo": "bar"},
        [{"op": "add", "path": "/child", "value": {"grandchild": {}}}],
        {"foo": "bar", "child": {"grandchild": {}}},
    ),
    (
        {"foo": "bar"},
        [{"op": "add", "path": "/baz", "value": "qux", "xyz": 123}],
        {"foo": "bar", "baz": "qux"},
    ),
    ({"/": 9, "~1": 10}, [{"op": "test", "path": "/~01", "value": 10}], {"/": 9, "~1": 10}),
    (
        {"foo": ["bar"]},
        [{"op": "add", "path": "/foo/-", "value": ["abc", "def"]}],
        {"foo": ["bar", ["abc", "def"]]},
    ),
    (
        {"metadata": {"annotations": {"a/b": "1"}}},
        [{"op": "copy", "from": "/metadata/annotations/a~1b", "path": "/metadata/x"}],
        {"metadata": {"annotations": {"a/b": "1"}, "x": "1"}},
    ),
    ({"foo": None}, [{"op": "replace", "path": "/foo", "value": 1}], {"foo": 1}),
    ({"foo": 1}, [{"op": "replace", "path": "", "value": {"bar": 2}}], {"bar": 2}),
]

FAILURES: list[tuple[Any, Any, str, str]] = [
    ({"baz": "qux"}, [{"op": "test", "path": "/baz", "value": "bar"}], "/baz", "differs"),
    ({"a": True}, [{"op": "test", "path": "/a", "value": 1}], "/a", "differs"),
    ({"foo": "bar"}, [{"op": "add", "path": "/baz/bat", "value": "qux"}], "/baz/bat", "no 'baz'"),
    ({"foo": "bar"}, [{"op": "remove", "path": "/baz"}], "/baz", "no 'baz'"),
    ({"foo": "bar"}, [{"op": "replace", "path": "/baz", "value": 1}], "/baz", "no 'baz'"),
    ({"foo": [1]}, [{"op": "add", "path": "/foo/2", "value": 1}], "/foo/2", "beyond the end"),
    ({"foo": [1]}, [{"op": "remove", "path": "/foo/1"}], "/foo/1", "beyond the end"),
    ({"foo": [1]}, [{"op": "remove", "path": "/foo/01"}], "/foo/01", "is not a list index"),
    (
        {"foo": [1]},
        [{"op": "replace", "path": "/foo/-", "value": 2}],
        "/foo/-",
        "is not a list index",
    ),
    ({"foo": 1}, [{"op": "add", "path": "/foo/x", "value": 2}], "/foo/x", "to a scalar value"),
    ({"foo": 1}, [{"op": "add", "path": "foo", "value": 2}], "foo", "begins with /"),
    ({"foo": 1}, [{"op": "add", "path": "/foo"}], "/foo", "needs a value"),
    ({"foo": 1}, [{"op": "move", "path": "/foo"}], "/foo", "needs from"),
    ({"foo": {}}, [{"op": "move", "from": "/foo", "path": "/foo/a"}], "/foo/a", "into itself"),
    ({"foo": 1}, [{"op": "merge", "path": "/foo"}], "/foo", "is not a JSON patch operation"),
    ({"foo": 1}, [{"op": "remove", "path": ""}], "", "whole document"),
    ({"foo": 1}, {"op": "remove"}, "", "list of operations"),
    ({"foo": 1}, ["remove"], "", "needs op and path"),
]


@pytest.mark.parametrize(("doc", "ops", "expected"), PATCHES)
def test_json_patch_follows_the_examples_of_the_rfc(doc: Any, ops: Any, expected: Any) -> None:
    before = copy.deepcopy(doc)

    assert expected == json_patch(doc, ops)
    assert before == doc


@pytest.mark.parametrize(("doc", "ops", "path", "words"), FAILURES)
def test_json_patch_names_the_place_where_it_fails(
    doc: Any, ops: Any, path: str, words: str
) -> None:
    with pytest.raises(PatchError, match=words) as caught:
        json_patch(doc, ops)

    assert path == caught.value.path


def test_json_patch_that_copies_itself_over_and_over_is_refused() -> None:
    ops = [{"op": "copy", "from": "", "path": f"/c{at}"} for at in range(60)]

    with pytest.raises(PatchError, match="copies more"):
        json_patch({"a": 1}, ops)


def test_kubectl_moves_managed_fields_with_a_guarded_json_patch() -> None:
    doc = {"metadata": {"managedFields": [{"manager": "old"}], "resourceVersion": "7"}}
    ops = [
        {"op": "replace", "path": "/metadata/managedFields", "value": [{"manager": "new"}]},
        {"op": "replace", "path": "/metadata/resourceVersion", "value": "7"},
    ]
    expected = {"metadata": {"managedFields": [{"manager": "new"}], "resourceVersion": "7"}}

    assert expected == json_patch(doc, ops)


_scalars = st.none() | st.booleans() | st.integers(-3, 3) | st.sampled_from(["", "a", "b"])
_names = st.sampled_from(["a", "b", "c/d", "e~f"])
_documents = st.recursive(
    _scalars,
    lambda below: st.lists(below, max_size=3) | st.dictionaries(_names, below, max_size=3),
    max_leaves=10,
)


@given(_documents, _documents)
@settings(max_examples=100, deadline=None)
def test_adding_then_removing_leaves_the_document_as_it_was(doc: Any, value: Any) -> None:
    whole = {"doc": doc}
    ops = [{"op": "add", "path": "/new", "value": value}, {"op": "remove", "path": "/new"}]

    assert equal(whole, json_patch(whole, ops))


@given(st.lists(_documents, max_size=3), st.data())
@settings(max_examples=50, deadline=None)
def test_moving_an_item_there_and_back_changes_nothing(items: list[Any], pick: Any) -> None:
    items = [*items, 0]
    here = pick.draw(st.integers(0, len(items) - 1))
    there = pick.draw(st.integers(0, len(items) - 1))
    ops = [
        {"op": "move", "from": f"/{here}", "path": f"/{there}"},
        {"op": "move", "from": f"/{there}", "path": f"/{here}"},
    ]

    assert equal(items, json_patch(items, ops))
