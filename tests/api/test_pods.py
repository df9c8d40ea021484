# SPDX-License-Identifier: Apache-2.0
"""Pods, the changes that an admission makes to them, priorities, and waiting times."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import convert

from kuota.api.backoff import Backoff
from kuota.api.core import PodSpec, PodTemplateSpec, PriorityClass, TemplateMeta, is_terminated
from kuota.api.kueue import ResourceFlavor
from kuota.api.podset import (
    SLICE_ANNOTATION,
    FlavorMissing,
    Injection,
    MergeConflict,
    equivalent,
    injection,
    joined,
    labelled,
    merged,
)
from kuota.api.priority import ClassMissing, effective_priority, pod_priority, workload_priority
from kuota.api.workload import PodSet, PodSetAssignment, PodSetUpdate, TopologyRequest, Workload


def _spec(**fields: Any) -> PodSpec:
    return convert(fields, PodSpec)


def _template(**fields: Any) -> PodTemplateSpec:
    return convert(fields, PodTemplateSpec)


def test_a_pod_is_over_when_it_succeeded_or_failed() -> None:
    phases = {phase: is_terminated({"status": {"phase": phase}}) for phase in PHASES}
    assert phases == {"Pending": False, "Running": False, "Succeeded": True, "Failed": True}


PHASES = ("Pending", "Running", "Succeeded", "Failed")


def _flavor(name: str, **spec: Any) -> ResourceFlavor:
    return convert({"metadata": {"name": name}, "spec": spec}, ResourceFlavor)


FLAVORS = {
    "spot": _flavor("spot", nodeLabels={"type": "spot"}, tolerations=[{"key": "spot"}]),
    "big": _flavor("big", nodeLabels={"size": "big"}),
}


def test_an_injection_takes_each_flavor_once() -> None:
    assignment = PodSetAssignment(name="main", flavors={"a": "spot", "b": "big", "c": "spot"})
    found = injection(assignment, PodSet(count=3), FLAVORS)
    assert (found.count, found.node_selector) == (3, {"type": "spot", "size": "big"})
    assert found.tolerations == FLAVORS["spot"].spec.tolerations


def test_an_injection_with_an_unknown_flavor_is_an_error() -> None:
    with pytest.raises(FlavorMissing, match="gone"):
        injection(PodSetAssignment(flavors={"cpu": "gone"}), PodSet(), FLAVORS)


def test_a_pod_set_that_asked_for_topology_is_not_marked_unconstrained() -> None:
    assignment = convert({"topologyAssignment": {"levels": ["rack"]}}, PodSetAssignment)
    asked = PodSet(topology_request=TopologyRequest(required="rack"))
    assert injection(assignment, asked, {}).annotations is None
    assert injection(assignment, PodSet(), {}).annotations is not None


def test_an_admission_check_may_add_but_not_contradict() -> None:
    base = labelled(Injection(node_selector={"type": "spot"}), "l", "v")
    added = joined(base, PodSetUpdate(node_selector={"zone": "a"}, labels={"l": "v"}))
    assert added.node_selector == {"type": "spot", "zone": "a"}
    with pytest.raises(MergeConflict, match="type"):
        joined(base, PodSetUpdate(node_selector={"type": "own"}))


def test_the_annotations_of_an_older_slice_are_replaced_only_while_jobs_may_be_elastic() -> None:
    before = PodTemplateSpec(metadata=TemplateMeta(annotations={SLICE_ANNOTATION: "old"}))
    added = Injection(annotations={SLICE_ANNOTATION: "new"})
    assert {SLICE_ANNOTATION: "new"} == merged(before, added).metadata.annotations
    with pytest.raises(MergeConflict):
        merged(before, added, elastic=False)


def _pod_sets(**container: Any) -> list[dict[str, Any]]:
    return [{"count": 1, "template": {"spec": {"containers": [container]}}}]


def test_pod_sets_are_equivalent_when_quantities_differ_only_in_writing() -> None:
    one = _pod_sets(resources={"requests": {"cpu": "1"}, "limits": {}}, env=[])
    other = _pod_sets(resources={"requests": {"cpu": "1000m"}})
    assert equivalent(one, other)


def test_another_image_makes_another_pod_set() -> None:
    assert not equivalent(_pod_sets(image="a"), _pod_sets(image="b"))


def test_an_unreadable_boost_counts_as_none() -> None:
    record = {"spec": {"priority": 5}, "metadata": {"annotations": {BOOST: "99999999999"}}}
    assert effective_priority(convert(record, Workload), boosting=True) == 5


BOOST = "kueue.x-k8s.io/priority-boost"


def _class(name: str, value: int, default: bool = False) -> PriorityClass:
    return convert(
        {"metadata": {"name": name}, "value": value, "globalDefault": default}, PriorityClass
    )


def test_the_lowest_global_default_gives_the_priority() -> None:
    classes = {each.metadata.name: each for each in (_class("a", 9, True), _class("b", 3, True))}
    reference, value = pod_priority("", classes)
    assert reference is not None
    assert (reference.name, value) == ("b", 3)
    assert pod_priority("", {}) == (None, 0)


def test_a_named_class_must_exist() -> None:
    with pytest.raises(ClassMissing):
        pod_priority("x", {})
    with pytest.raises(ClassMissing):
        workload_priority("x", {})


def test_waits_double_up_to_the_cap() -> None:
    backoff = Backoff(base=60, cap=600)
    assert [backoff.wait(n) for n in range(7)] == [0, 60, 120, 240, 480, 600, 600]


@given(st.integers(0, 10**12), st.integers(1, 10**9), st.sampled_from([1, 1.5, 2, 3]))
def test_a_wait_never_exceeds_its_cap(attempt: int, cap: int, factor: float) -> None:
    assert 0 <= Backoff(base=1, cap=cap, factor=factor).wait(attempt) <= cap
