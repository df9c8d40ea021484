# SPDX-License-Identifier: Apache-2.0
"""Label and field selectors of list and watch requests."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kuota.api.match import SelectorError
from kuota.server.selectors import field_requirements, selection

POD: dict[str, Any] = {
    "kind": "Pod",
    "metadata": {"name": "p", "namespace": "n", "labels": {"app": "web", "tier": "a"}},
    "spec": {"nodeName": "node-1", "hostNetwork": True, "priority": 3},
    "status": {"phase": "Running"},
}
EVENT = {
    "kind": "Event",
    "metadata": {"name": "e", "namespace": "n"},
    "involvedObject": {"kind": "Pod", "name": "p", "uid": "u-1"},
    "source": {"component": "kubelet"},
}


@pytest.mark.parametrize(
    ("labels", "fields", "matches"),
    [
        ("", "", True),
        ("app=web", "", True),
        ("app==web,tier!=b", "", True),
        ("app in (web, db),!legacy", "", True),
        ("tier notin (a)", "", False),
        ("app", "metadata.name=p", True),
        ("app=db", "metadata.name=p", False),
        ("", "metadata.name=p,metadata.namespace=n", True),
        ("", "metadata.name==q", False),
        ("", "metadata.name!=q", True),
        ("", "spec.nodeName=node-1,status.phase!=Pending", True),
        ("", "spec.nodeName=", False),
        ("", "spec.serviceAccountName=", True),
        ("", "spec.serviceAccountName!=x", True),
        ("", "spec.hostNetwork=true,spec.priority=3", True),
        ("", "spec.nodeName.deeper=", True),
        ("", ",status.phase=Running,", True),
    ],
)
def test_pods_are_selected_by_labels_and_fields(labels: str, fields: str, matches: bool) -> None:
    assert matches == selection(labels, fields).matches(POD)


@pytest.mark.parametrize(
    ("fields", "matches"),
    [
        ("involvedObject.name=p,involvedObject.uid=u-1,involvedObject.kind=Pod", True),
        ("involvedObject.namespace=n", False),
        ("source=kubelet", True),
        ("source!=kubelet", False),
    ],
)
def test_events_are_found_by_their_object(fields: str, matches: bool) -> None:
    assert matches == selection("", fields).matches(EVENT)


def test_a_job_is_found_by_its_successes() -> None:
    job = {"kind": "Job", "metadata": {"name": "j"}, "status": {"succeeded": 2}}

    assert selection("", "status.successful=2").matches(job)


def test_a_selection_knows_the_one_object_it_asks_for() -> None:
    asked = selection("", "metadata.name=p,metadata.namespace!=x")

    assert "p" == asked.name
    assert not asked.everything
    assert selection().everything


@pytest.mark.parametrize(
    ("labels", "fields", "words"),
    [
        ("a in b", "", "parenthesis"),
        ("a=b c", "", "comma"),
        ("=b", "", "label key"),
        ("", "metadata.name", "can't understand 'metadata.name'"),
        ("", "metadata.name>3", "can't understand"),
        ("", "=x", "not a field path"),
        ("", "metadata..name=x", "not a field path"),
        ("", "a=b=c", "unescaped"),
        ("", "a=b\\x", "invalid escape"),
        ("", "a=b\\", "can't understand"),
    ],
)
def test_the_offending_part_is_named(labels: str, fields: str, words: str) -> None:
    with pytest.raises(SelectorError, match=words):
        selection(labels, fields)


def test_fields_can_be_limited_to_those_supported() -> None:
    assert field_requirements("spec.x=1", {"spec.x"})
    with pytest.raises(SelectorError, match=r"field label not supported: spec\.y"):
        field_requirements("spec.x=1,spec.y=2", {"spec.x"})


@given(st.text(max_size=8), st.booleans())
@settings(max_examples=100, deadline=None)
def test_any_value_can_be_asked_for_once_escaped(value: str, equal: bool) -> None:
    written = value.replace("\\", "\\\\").replace(",", "\\,").replace("=", "\\=")
    asked = selection("", f"a.b{'=' if equal else '!='}{written}")

    assert equal == asked.matches({"a": {"b": value}})
