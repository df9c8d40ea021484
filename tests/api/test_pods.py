# SPDX-License-Identifier: Apache-2.0
"""Pods, what an admission adds to them, priorities and waits."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import convert

from kuota.api.backoff import Backoff, Pace
from kuota.api.base import ObjectMeta
from kuota.api.core import Pod, PodSpec, PodTemplateSpec, PriorityClass
from kuota.api.equivalence import equivalent
from kuota.api.kueue import ResourceFlavor
from kuota.api.pods import (
    LabelError,
    gated,
    group_name,
    is_terminated,
    label_number,
    role_hash,
    ungated,
)
from kuota.api.podset import (
    FlavorMissing,
    Injection,
    MergeConflict,
    injection,
    joined,
    labelled,
    merged,
    restored,
)
from kuota.api.priority import ClassMissing, effective_priority, pod_priority, workload_priority
from kuota.api.workload import PodSet, PodSetAssignment, PodSetUpdate, TopologyRequest, Workload


def _spec(**fields: Any) -> PodSpec:
    return convert(fields, PodSpec)


def _template(**fields: Any) -> PodTemplateSpec:
    return convert(fields, PodTemplateSpec)


def test_a_gate_is_added_once_and_taken_away_once() -> None:
    spec = gated(PodSpec(), "g")
    assert spec.scheduling_gates == [{"name": "g"}]
    assert gated(spec, "g") is spec
    assert ungated(spec, "g") == PodSpec()
    assert ungated(spec, "other") is spec


def test_a_pod_is_over_when_it_succeeded_or_failed() -> None:
    phases = {phase: is_terminated(convert({"status": {"phase": phase}}, Pod)) for phase in PHASES}
    assert phases == {"Pending": False, "Running": False, "Succeeded": True, "Failed": True}


PHASES = ("Pending", "Running", "Succeeded", "Failed")


def test_a_pod_without_label_or_annotation_is_in_no_group() -> None:
    assert group_name(ObjectMeta()) == ""


@pytest.mark.parametrize("text", ["", "+1", "-1", "1.0", "x", "9" * 40, "²"])
def test_a_label_that_is_no_number_is_an_error(text: str) -> None:
    with pytest.raises(LabelError):
        label_number(ObjectMeta(labels={"l": text}), "l")


def test_a_number_in_a_label_is_below_its_bound() -> None:
    meta = ObjectMeta(labels={"l": "7"})
    assert label_number(meta, "l", 8) == 7
    with pytest.raises(LabelError, match="below 7"):
        label_number(meta, "l", 7)


@pytest.mark.parametrize(
    ("containers", "expected"),
    [
        ([{"name": "c"}], "7aa6c7b8"),
        ([{"name": "c", "resources": {"requests": {"cpu": "1"}}}], "dc85db45"),
        ([{"name": "c", "resources": {"requests": {"memory": "1Gi", "cpu": "1000m"}}}], "4ebdd4a6"),
    ],
)
def test_a_role_has_the_same_hash_as_in_kueue(
    containers: list[dict[str, Any]], expected: str
) -> None:
    assert expected == role_hash(_spec(containers=containers, restartPolicy="Never"))


def test_limits_and_gates_are_no_part_of_a_role() -> None:
    bare = _spec(containers=[{"name": "c"}])
    dressed = _spec(
        containers=[{"name": "d", "resources": {"limits": {"cpu": "1"}}}],
        schedulingGates=[{"name": "g"}],
    )
    assert role_hash(bare) == role_hash(dressed)


def test_the_order_in_which_ports_are_written_does_not_matter_to_a_role() -> None:
    port = {"containerPort": 80, "name": "web", "protocol": "TCP"}
    turned = dict(reversed(port.items()))
    one, other = (_spec(containers=[{"ports": [each]}]) for each in (port, turned))
    assert role_hash(one) == role_hash(other)


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


def test_restoring_undoes_merging() -> None:
    template = _template(
        metadata={"labels": {"a": "b"}},
        spec={"tolerations": [{"key": "x"}], "schedulingGates": [{"name": "own"}]},
    )
    injected = Injection(
        labels={"c": "d"},
        node_selector={"type": "spot"},
        tolerations=FLAVORS["spot"].spec.tolerations,
        scheduling_gates=[{"name": "topology"}],
    )
    started = merged(template, injected)
    assert started != template
    assert restored(started, template) == template
    assert restored(template, template) is template


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


def test_success_ends_the_pause() -> None:
    slow = Pace(backoff=Backoff(base=1, cap=100)).after(False).after(False)
    assert (slow.wait, slow.after(True).wait) == (2, 0)
