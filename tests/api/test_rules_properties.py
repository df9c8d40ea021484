# SPDX-License-Identifier: Apache-2.0
"""Validation and defaulting accept any JSON: they never raise and never modify it."""

from __future__ import annotations

import copy
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from api.rule_examples import SOUND, job
from kuota.api.base import Json
from kuota.api.defaults import defaulted
from kuota.api.rules import (
    faults,
    job_faults,
    schema_faults,
    unknown_faults,
    webhook_faults,
    webhook_warnings,
)
from kuota.api.rules.references import reference_findings

SCALARS = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False)
    | st.text(max_size=8)
    | st.sampled_from(["1", "-1", "1e999999", "Never", "true", "kubernetes.io/hostname", "\ud800"])
)
JSON = st.recursive(
    SCALARS,
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=6), inner, max_size=3)
    ),
    max_leaves=6,
)


def _places(node: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    inner = (
        node.items()
        if isinstance(node, dict)
        else enumerate(node)
        if isinstance(node, list)
        else ()
    )
    return [path, *(place for key, each in inner for place in _places(each, (*path, key)))]


@st.composite
def spoilt_objects(draw: st.DrawFn) -> Any:
    """A sound object with up to three nodes replaced by arbitrary JSON."""
    obj: Any = copy.deepcopy(draw(st.sampled_from((*SOUND, job()))))
    for _ in range(draw(st.integers(0, 3))):
        places = [
            place for place in _places(obj) if place and place[-1] not in ("kind", "apiVersion")
        ]
        if not places:
            break
        *parents, last = draw(st.sampled_from(places))
        node = obj
        for step in parents:
            node = node[step]
        node[last] = draw(JSON)
    return obj


@settings(max_examples=300, deadline=None)
@given(spoilt_objects(), spoilt_objects())
def test_no_json_makes_validation_raise(new: Json, old: Json) -> None:
    before = copy.deepcopy((new, old))
    for stored in (None, old):
        faults(new, stored)
        schema_faults(new, stored)
        webhook_faults(new, stored)
        job_faults(new, stored)
    unknown_faults(new)
    webhook_warnings(new)
    reference_findings([new, old])
    assert before == (new, old)


@settings(max_examples=100, deadline=None)
@given(JSON)
def test_what_is_no_object_at_all_is_answered_too(value: Any) -> None:
    faults(value)
    faults({"apiVersion": value, "kind": value, "metadata": value, "spec": value})
    job_faults(value)
    webhook_faults(value, value)
    unknown_faults(value)


@settings(max_examples=100, deadline=None)
@given(spoilt_objects())
def test_defaulting_twice_changes_nothing_more(obj: Json) -> None:
    before = copy.deepcopy(obj)
    once = defaulted(obj)
    assert before == obj
    assert once == defaulted(once)
