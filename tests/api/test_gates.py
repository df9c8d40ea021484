# SPDX-License-Identifier: Apache-2.0
"""Feature gates: defaults, and combinations that Kueue rejects at startup."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kuota.api.faults import ErrorType, Invalid
from kuota.api.gates import GATES, Gate, Gates, Stage, dependency_errors, parse_flag, resolved


def refusal(overrides: dict[str, bool]) -> str:
    with pytest.raises(Invalid) as caught:
        Gates.of(overrides)
    assert {(e.path, e.type) for e in caught.value.errors} == {("featureGates", ErrorType.INVALID)}
    return str(caught.value)


def test_there_are_as_many_gates_of_each_stage_as_in_kueue_0_20() -> None:
    stages = [(spec.stage, spec.default, spec.locked) for spec in GATES.values()]
    assert len(Gate) == 80
    assert stages.count((Stage.BETA, True, False)) == 57
    assert stages.count((Stage.BETA, False, False)) == 1
    assert stages.count((Stage.ALPHA, False, False)) == 19
    assert stages.count((Stage.GA, True, True)) == 2
    assert stages.count((Stage.DEPRECATED, False, False)) == 1


def test_defaults_keep_every_dependency() -> None:
    assert dependency_errors(Gates()) == []


def test_an_override_changes_one_gate_only() -> None:
    gates = Gates.of({"PartialAdmission": False})
    assert not gates.on(Gate.PartialAdmission)
    assert all(gates.on(each) == Gates().on(each) for each in Gate if each != "PartialAdmission")


def test_equal_choices_are_equal_values() -> None:
    assert Gates.of({"PriorityBoost": False}) == Gates()


def test_an_unknown_gate_is_refused_with_the_nearest_name() -> None:
    assert "did you mean TopologyAwareScheduling?" in refusal({"TopologyAwareSchedulin": True})


def test_a_gate_of_an_older_kueue_is_refused_as_gone() -> None:
    assert refusal({"LendingLimit": True}) == (
        "featureGates: feature gate LendingLimit no longer exists (remove LendingLimit)"
    )


def test_every_unknown_gate_is_named_at_once() -> None:
    assert refusal({"Foo": True, "Bar": True}).count("unknown feature gate") == 2


def test_a_locked_gate_cannot_be_turned() -> None:
    assert "TLSOptions is locked to true" in refusal({"TLSOptions": False})
    assert Gates.of({"TLSOptions": True}) == Gates()


def test_a_broken_dependency_names_both_gates_and_the_way_out() -> None:
    assert refusal({"ElasticJobsViaWorkloadSlices": False} | WITH_TAS) == (
        "featureGates: ElasticJobsViaWorkloadSlices is off, but "
        "ElasticJobsViaWorkloadSlicesWithTAS cannot be on without it "
        "(set ElasticJobsViaWorkloadSlicesWithTAS=false, or else ElasticJobsViaWorkloadSlices=true)"
    )


WITH_TAS = {"ElasticJobsViaWorkloadSlicesWithTAS": True}


def test_turning_off_topology_alone_strands_its_dependents() -> None:
    refused = refusal({"TopologyAwareScheduling": False})
    assert "TASProfileMixed" in refused
    way_out = refused.split("(set ")[1].split(", or else")[0]
    gates = Gates.of({"TopologyAwareScheduling": False} | parse_flag(way_out))
    assert not gates.on(Gate.TopologyAwareScheduling)


def test_unchecked_gates_may_break_any_rule_but_must_exist() -> None:
    gates = Gates.of({"TopologyAwareScheduling": False, "TLSOptions": False}, check=False)
    assert gates.on(Gate.TASProfileMixed)
    assert not gates.on(Gate.TLSOptions)
    with pytest.raises(Invalid):
        Gates.of({"Nonsense": True}, check=False)


def test_a_stage_key_spares_the_gates_named_themselves() -> None:
    gates = Gates.of({"AllAlpha": True, "PriorityBoost": False})
    assert gates.on(Gate.ConcurrentAdmission)
    assert not gates.on(Gate.PriorityBoost)
    assert not gates.on(Gate.TASReplaceNodeDueToNotReadyOverFixedTime)
    assert Gates.of({"AllBeta": False}).enabled == {
        Gate.TLSOptions,
        Gate.ManagedJobsNamespaceSelectorAlwaysRespected,
    }


def test_the_flag_is_a_comma_list_of_booleans() -> None:
    assert parse_flag("") == {}
    assert parse_flag(" A=true, B=0,A=F,") == {"A": False, "B": False}


@pytest.mark.parametrize("flag", ["A", "A=", "A=yes", "A=true=false"])
def test_an_entry_of_the_flag_without_a_boolean_is_refused(flag: str) -> None:
    with pytest.raises(Invalid, match="write A=true or A=false"):
        parse_flag(flag)


def test_flag_and_file_exclude_each_other() -> None:
    assert resolved("PriorityBoost=true", None) == resolved("", {"PriorityBoost": True})
    assert resolved("", {}) == Gates()
    with pytest.raises(Invalid, match="keep one of the two"):
        resolved("PriorityBoost=true", {"PriorityBoost": True})
    with pytest.raises(Invalid, match="keep one of the two"):
        resolved("PriorityBoost=true", {})


@pytest.mark.parametrize("flag", ["Nonsense=true,Nothing=true", "Nonsense=1,Other=x,Third=y"])
def test_all_that_is_wrong_with_the_gates_is_one_fault(flag: str) -> None:
    with pytest.raises(Invalid) as refused:
        resolved(flag, None)
    (fault,) = refused.value.errors
    wrong = [each.partition("=")[0] for each in flag.split(",") if "=1" not in each]
    assert all(name in str(fault) for name in wrong)


@settings(max_examples=50)
@given(st.dictionaries(st.sampled_from(list(Gate)), st.booleans(), max_size=8))
def test_what_is_accepted_keeps_every_dependency(overrides: dict[Gate, bool]) -> None:
    try:
        gates = Gates.of({str(gate): on for gate, on in overrides.items()})
    except Invalid:
        return
    assert all(gates.on(need) for gate in gates.enabled for need in GATES[gate].needs)
    assert all(gates.on(gate) == on for gate, on in overrides.items())
