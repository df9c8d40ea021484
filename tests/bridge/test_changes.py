# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import msgspec
import pytest

from kuota.api.base import Json
from kuota.api.kueue import ClusterQueue
from kuota.bridge.changes import (
    checks_of,
    finalizer_changes,
    flavors_of,
    only_status_changed,
    priority_value_changed,
    unreferenced,
)

GOING = {"metadata": {"deletionTimestamp": "2026-01-02T12:00:00Z"}}


@pytest.mark.parametrize(
    ("old", "new", "same"),
    [
        pytest.param({"spec": {"a": 1}}, {"spec": {"a": 1}, "status": {"b": 2}}, True, id="status"),
        pytest.param({"spec": {"a": 1}}, {"spec": {"a": 2}}, False, id="spec"),
        pytest.param({}, GOING, False, id="on its way out"),
        pytest.param(None, {}, False, id="new"),
        pytest.param({}, None, False, id="gone"),
    ],
)
def test_only_what_is_decided_by_counts_as_a_change(
    old: Json | None, new: Json | None, same: bool
) -> None:
    assert same is only_status_changed(old, new)


@pytest.mark.parametrize(
    ("old", "new", "looked_at"),
    [
        pytest.param(None, {}, True, id="new"),
        pytest.param({}, {}, False, id="as it was"),
        pytest.param({}, GOING, True, id="on its way out"),
        pytest.param({}, None, False, id="gone"),
    ],
)
def test_a_finalizer_comes_with_an_object_and_goes_with_it(
    old: Json | None, new: Json | None, looked_at: bool
) -> None:
    assert looked_at is finalizer_changes(old, new)


@pytest.mark.parametrize(
    ("old", "new", "followed"),
    [
        pytest.param(None, {"value": 1}, True, id="new"),
        pytest.param({"value": 1}, {"value": 2}, True, id="another value"),
        pytest.param({"value": 1}, {"value": 1, "description": "x"}, False, id="same value"),
        pytest.param({"value": 1}, None, False, id="gone"),
    ],
)
def test_workloads_follow_a_class_whose_value_is_news(
    old: Json | None, new: Json | None, followed: bool
) -> None:
    assert followed is priority_value_changed(old, new)


def test_objects_that_no_queue_names_are_unreferenced() -> None:
    assert ["b"] == unreferenced(["a", "b", "c"], ["a"], {"c"})


def test_a_queue_names_flavors_and_checks() -> None:
    spec = {
        "resourceGroups": [{"flavors": [{"name": "x"}, {"name": "y"}]}],
        "admissionChecksStrategy": {"admissionChecks": [{"name": "ok"}]},
    }
    queue = msgspec.convert({"metadata": {"name": "cq"}, "spec": spec}, ClusterQueue)
    assert ({"x", "y"}, {"ok"}) == (flavors_of(queue), checks_of(queue))
    assert (set(), set()) == (flavors_of(None), checks_of(None))
