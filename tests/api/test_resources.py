# SPDX-License-Identifier: Apache-2.0
"""Requests of pods: init containers, pod-level requests, defaults, transformations."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from msgspec import convert

from kuota.api.adjust import adjusted, adjusted_spec, limit_range_faults, summarize
from kuota.api.base import Quantity
from kuota.api.core import LimitRange, PodSpec, RuntimeClass
from kuota.api.quantity import MINIMUM, NANO, UNLIMITED, canonical, sub
from kuota.api.resources import (
    Transformation,
    by_input,
    multiplied,
    nanos,
    pod_amounts,
    pod_requests,
    request_faults,
    rescaled,
    transformed,
)
from kuota.api.workload import Workload


def _container(always: bool = False, **requests: str) -> dict[str, Any]:
    named = {name.replace("_", "/"): value for name, value in requests.items()}
    sidecar = {"restartPolicy": "Always"} if always else {}
    return {"resources": {"requests": named}, **sidecar}


def _spec(*containers: dict[str, Any], **fields: Any) -> PodSpec:
    return convert({"containers": list(containers), **fields}, PodSpec)


def _workload(*specs: dict[str, Any]) -> Workload:
    pod_sets = [{"name": str(i), "count": 1, "template": {"spec": s}} for i, s in enumerate(specs)]
    return convert({"spec": {"podSets": pod_sets}}, Workload)


def _limits(**item: Any) -> LimitRange:
    return convert({"spec": {"limits": [{"type": "Container", **item}]}}, LimitRange)


def _text(requests: dict[str, int]) -> dict[str, str]:
    return {name: canonical(nano) for name, nano in requests.items()}


def _rule(
    input: str, strategy: str = "", multiply_by: str = "", **outputs: Quantity
) -> Transformation:
    return Transformation(input=input, strategy=strategy, multiply_by=multiply_by, outputs=outputs)


def test_fractions_round_up_once_per_pod() -> None:
    amounts = pod_amounts(_spec(_container(cpu="100.5m", memory="1.5")))
    assert amounts == {"cpu": 101, "memory": 2}
    assert multiplied(amounts, 3) == {"cpu": 303, "memory": 6}


def test_containers_add_up_before_rounding() -> None:
    assert pod_amounts(_spec(_container(cpu="100.5m"), _container(cpu="100.5m"))) == {"cpu": 201}


def test_one_big_init_container_counts_by_its_peak() -> None:
    spec = _spec(_container(cpu="1"), initContainers=[_container(cpu="4"), _container(cpu="2")])
    assert _text(pod_requests(spec)) == {"cpu": "4"}


def test_a_sidecar_burdens_only_the_init_containers_after_it() -> None:
    sidecar, plain = _container(always=True, cpu="1"), _container(cpu="4")
    after = _spec(_container(cpu="1"), initContainers=[sidecar, plain])
    before = _spec(_container(cpu="1"), initContainers=[plain, sidecar])
    assert (_text(pod_requests(after)), _text(pod_requests(before))) == ({"cpu": "5"}, {"cpu": "4"})


def test_sidecars_run_beside_the_containers() -> None:
    init = [_container(True, cpu="500m"), _container(cpu="4"), _container(True, cpu="1")]
    spec = _spec(_container(cpu="2"), _container(cpu="1"), initContainers=init)
    assert _text(pod_requests(spec)) == {"cpu": "4500m"}


def test_pod_level_requests_replace_the_sum_and_overhead_comes_on_top() -> None:
    spec = _spec(
        _container(cpu="4", x_gpu="2"),
        resources={"requests": {"cpu": "3", "memory": "1k", "x/gpu": "9"}},
        overhead={"cpu": "1", "x/gpu": "1"},
    )
    assert _text(pod_requests(spec)) == {"cpu": "4", "memory": "1k", "x/gpu": "3"}


def test_a_request_of_zero_is_kept() -> None:
    assert pod_requests(_spec(_container(cpu="0"))) == {"cpu": 0}


def test_negative_requests_count_as_nothing() -> None:
    assert pod_amounts(_spec(_container(cpu="-1"))) == {"cpu": 0}


def test_pod_sets_too_large_to_count_saturate_and_fit_only_into_unlimited() -> None:
    total = multiplied(pod_amounts(_spec(_container(memory="8E"))), 2)
    assert total == {"memory": UNLIMITED}
    assert sub(10**18, total["memory"]) == MINIMUM
    assert sub(UNLIMITED, total["memory"]) == 0


def test_a_count_below_zero_costs_nothing() -> None:
    assert multiplied({"cpu": 5}, -2) == {"cpu": 0}


def test_rescaling_divides_then_multiplies_and_never_divides_by_zero() -> None:
    assert rescaled({"cpu": 3000}, 3, 2) == {"cpu": 2000}
    assert rescaled({"cpu": 0}, 0, 2) == {"cpu": 0}


RUNTIME = {"kata": convert({"overhead": {"podFixed": {"cpu": "1"}}}, RuntimeClass)}


def test_a_runtime_class_adds_its_overhead_unless_the_template_has_one() -> None:
    bare = adjusted_spec(_spec(runtimeClassName="kata"), {}, RUNTIME)
    own = adjusted_spec(_spec(runtimeClassName="kata", overhead={"cpu": "2"}), {}, RUNTIME)
    assert (bare.overhead, own.overhead) == ({"cpu": "1"}, {"cpu": "2"})


def test_a_missing_runtime_class_changes_nothing() -> None:
    workload = _workload({"runtimeClassName": "none", "containers": [_container(cpu="1")]})
    assert adjusted(workload, [], RUNTIME) is workload


def test_a_default_limit_without_default_request_becomes_the_request() -> None:
    workload = adjusted(_workload({"containers": [{}]}), [_limits(default={"cpu": "2"})])
    assert workload.spec.pod_sets is not None
    assert pod_amounts(workload.spec.pod_sets[0].template.spec) == {"cpu": 2000}


def test_values_that_are_set_are_never_replaced() -> None:
    workload = _workload({"containers": [{"resources": {"limits": {"cpu": "6"}}}]})
    limits = _limits(default={"cpu": "2"}, defaultRequest={"cpu": "1"})
    spec = (adjusted(workload, [limits]).spec.pod_sets or [])[0].template.spec
    assert spec.containers is not None
    assert spec.containers[0].resources.limits == {"cpu": "6"}
    assert spec.containers[0].resources.requests == {"cpu": "1"}


def test_of_two_limit_ranges_the_first_default_smaller_max_and_larger_min_win() -> None:
    first = _limits(default={"cpu": "3"}, max={"cpu": "9"}, min={"cpu": "1"})
    second = _limits(default={"cpu": "1", "memory": "1"}, max={"cpu": "8"}, min={"cpu": "500m"})
    merged = summarize([first, second])["Container"]
    assert merged.default == {"cpu": "3", "memory": "1"}
    assert (merged.max, merged.min) == ({"cpu": "8"}, {"cpu": "1"})


def test_every_request_above_its_limit_is_reported_with_its_path() -> None:
    bad = {"resources": {"requests": {"cpu": "2", "memory": "1"}, "limits": {"cpu": "1"}}}
    workload = _workload({"containers": [{}, bad], **bad})
    assert [(fault.path, fault.value) for fault in request_faults(workload)] == [
        ("spec.podSets[0].template.spec.containers[1]", ["cpu"]),
        ("spec.podSets[0].template.spec.resources", ["cpu"]),
    ]


def test_requests_are_compared_with_limits_as_they_are_counted() -> None:
    block = {"requests": {"cpu": "100.9m"}, "limits": {"cpu": "100.1m"}}
    assert request_faults(_workload({"containers": [{"resources": block}]})) == []


def test_the_larger_of_request_and_limit_meets_the_maximum_the_smaller_the_minimum() -> None:
    block = {"requests": {"cpu": "1"}, "limits": {"cpu": "5", "memory": "1"}}
    workload = _workload({"containers": [{"resources": block}]})
    tight = summarize([_limits(max={"cpu": "4"}, min={"cpu": "2", "memory": "2", "pods": "1"})])
    faults = limit_range_faults(workload, tight)
    assert [fault.value for fault in faults] == [["cpu"], ["cpu", "memory"]]


def test_an_excluded_prefix_is_a_plain_prefix() -> None:
    requests = nanos({"network.example.com/x": "1", "nettle": "1", "cpu": "1"})
    assert transformed(requests, {}, ("net",)) == nanos({"cpu": "1"})


def test_an_excluded_resource_is_neither_input_nor_multiplier() -> None:
    rules = by_input([_rule("a", "Replace", out="1"), _rule("b", "Replace", "a", c="2")])
    requests = nanos({"a": "3", "b": "5"})
    assert transformed(requests, rules, ("a",)) == nanos({"c": "10"})


def test_outputs_are_exempt_from_exclusion() -> None:
    rules = by_input([_rule("b", "Replace", a="2")])
    assert transformed(nanos({"b": "5"}), rules, ("a",)) == nanos({"a": "10"})


def test_a_multiplier_that_is_not_requested_does_not_multiply() -> None:
    rules = by_input([_rule("a", "Replace", "absent", out="2")])
    assert transformed(nanos({"a": "3"}), rules) == nanos({"out": "6"})


def test_negative_factors_cancel_generated_amounts_but_never_requests() -> None:
    rules = by_input(
        [
            _rule("mig", "Replace", credits="10", **{"accel-mem": "5Gi"}),
            _rule("coupon", "Replace", credits="-4"),
        ]
    )
    some = transformed(nanos({"mig": "2", "coupon": "3", "credits": "1"}), rules)
    many = transformed(nanos({"mig": "2", "coupon": "10", "credits": "1"}), rules)
    assert some == nanos({"credits": "9", "accel-mem": "10Gi"})
    assert many == nanos({"credits": "1", "accel-mem": "10Gi"})


def test_a_retained_input_keeps_its_own_quantity() -> None:
    rules = by_input([_rule("a", "Retain", "b", out="2")])
    found = transformed(nanos({"a": "3", "b": "5"}), rules)
    assert found == nanos({"a": "3", "b": "5", "out": "30"})


def test_replacing_by_nothing_removes_the_resource() -> None:
    assert transformed(nanos({"a": "3"}), by_input([_rule("a", "Replace")])) == {}


def test_products_of_decimals_are_exact_until_the_end() -> None:
    rules = by_input([_rule("a", "Replace", "b", out="1n"), _rule("c", "Replace", out="-1n")])
    requests = {"a": 1, "b": 3 * NANO, "c": NANO}
    assert transformed(requests, rules) == {"b": 3 * NANO, "out": 0}
    assert transformed({"a": 1, "b": 3 * NANO}, rules) == {"b": 3 * NANO, "out": 1}


@given(st.dictionaries(st.sampled_from("abc"), st.integers(0, 10**12), min_size=1))
def test_without_a_rule_for_them_requests_are_unchanged(requests: dict[str, int]) -> None:
    assert transformed(requests, by_input([_rule("z", "Replace", a="5")])) == requests


@given(
    st.dictionaries(st.sampled_from("abc"), st.integers(0, 10**12)),
    st.dictionaries(st.sampled_from("abc"), st.integers(-5, 5).map(str)),
    st.sampled_from(["Retain", "Replace"]),
)
def test_a_transformation_never_reduces_what_is_kept(
    requests: dict[str, int], outputs: dict[str, str], strategy: str
) -> None:
    found = transformed(requests, by_input([_rule("a", strategy, **outputs)]))
    for name, nano in requests.items():
        if name != "a" or strategy == "Retain":
            assert found[name] >= nano
    assert all(nano >= 0 for nano in found.values())
