# SPDX-License-Identifier: Apache-2.0
"""Patches produce the intended object and are minimal."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from kuota.server.patch import json_patch
from kuota.webhook.review import difference

scalars = st.none() | st.booleans() | st.integers(-3, 3) | st.text("a/~0é", max_size=3)
documents = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text("ab/~", max_size=2), inner),
    max_leaves=12,
)


@given(documents, documents)
def test_applied_to_the_one_a_patch_gives_the_other(before: Any, after: Any) -> None:
    assert after == json_patch(before, difference(before, after))


@given(documents)
def test_equal_documents_need_no_operations(document: Any) -> None:
    assert [] == difference(document, json_patch(document, []))


def test_an_item_at_the_end_of_a_list_is_added_and_the_list_is_not_replaced() -> None:
    before = {"metadata": {"finalizers": ["a"]}}
    after = {"metadata": {"finalizers": ["a", "b"]}}
    assert [{"op": "add", "path": "/metadata/finalizers/-", "value": "b"}] == difference(
        before, after
    )


def test_names_with_slashes_are_escaped() -> None:
    patch = difference({"l": {"x/y~z": "1"}}, {"l": {"x/y~z": "2"}})
    assert [{"op": "replace", "path": "/l/x~1y~0z", "value": "2"}] == patch


def test_true_and_one_are_not_the_same() -> None:
    assert [{"op": "replace", "path": "/a", "value": True}] == difference({"a": 1}, {"a": True})
