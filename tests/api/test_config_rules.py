# SPDX-License-Identifier: Apache-2.0
"""What Kueue would not start with. The recorded cases hold the rest; these are what they leave."""

from __future__ import annotations

from typing import Any

import pytest

from kuota.api.config import default_configuration, faults, from_json
from kuota.api.config.syntax import cel_complaints
from kuota.api.gates import Gates

Found = list[tuple[str, str]]
COUNTER = {
    "name": "memory",
    "driver": "gpu.example.com",
    "deviceSelector": {"cel": {"expression": "true"}},
}


def found(gates: dict[str, bool] | None = None, **sections: Any) -> Found:
    cfg = from_json({"integrations": {"frameworks": ["batch/job"]}, **sections})
    return [
        (fault.path, fault.type.removeprefix("FieldValue")) for fault in faults(cfg, set_(gates))
    ]


def set_(gates: dict[str, bool] | None) -> Gates:
    return Gates.of(gates or {})


def mapped(*mappings: dict[str, Any]) -> Any:
    return {"deviceClassMappings": list(mappings)}


def mapping(name: str, *sources: dict[str, Any]) -> dict[str, Any]:
    return {"name": name, "deviceClassNames": ["gpu"], "sources": list(sources)}


def test_the_default_configuration_has_no_fault() -> None:
    assert faults(default_configuration(), Gates()) == []


@pytest.mark.parametrize(
    ("strategies", "fault"),
    [
        (["LessThanInitialShare"], None),
        (["LessThanOrEqualToFinalShare", "LessThanInitialShare"], None),
        ([], "Required"),
        (["LessThanInitialShare", "LessThanOrEqualToFinalShare"], "NotSupported"),
        (["Other"], "NotSupported"),
    ],
)
def test_fair_sharing_takes_three_lists_of_strategies(
    strategies: list[str], fault: str | None
) -> None:
    path = "fairSharing.preemptionStrategies"
    want = [(path, fault)] if fault else []
    assert found(fairSharing={"preemptionStrategies": strategies}) == want


@pytest.mark.parametrize(
    ("selector", "count"),
    [
        ({}, 2),
        ({"matchLabels": {"kubernetes.io/metadata.name": "kube-system"}}, 1),
        ({"matchLabels": {"managed": "yes"}}, 0),
    ],
)
def test_managed_namespaces_may_not_include_the_systems_nor_kueues_own(
    selector: Any, count: int
) -> None:
    want = [("managedJobsNamespaceSelector", "Invalid")] * count
    assert found(managedJobsNamespaceSelector=selector) == want


def test_an_external_framework_may_not_repeat_a_built_in_one() -> None:
    integrations = {"frameworks": ["batch/job"], "externalFrameworks": ["Job.v1.batch"]}
    assert found(integrations=integrations) == [("integrations.externalFrameworks[0]", "Duplicate")]


def test_multi_kueue_dispatches_external_kinds_it_has_no_adapter_for() -> None:
    names = ["Foo.v1.example.com", "Job.v1.batch", "Foo.v1.example.com", "Foo", ""]
    frameworks = [{"name": name} for name in names]
    at = "multiKueue.externalFrameworks"
    assert found(multiKueue={"externalFrameworks": frameworks}) == [
        (f"{at}[1].name", "Invalid"),
        (f"{at}[2].name", "Duplicate"),
        (f"{at}[3].name", "Invalid"),
        (f"{at}[4].name", "Required"),
    ]


def test_only_known_quota_check_strategies_are_taken() -> None:
    assert found(resources={"quotaCheckStrategy": "BlockUndeclared"}) == []
    bad = {"quotaCheckStrategy": "Other"}
    assert found(resources=bad) == [("resources.quotaCheckStrategy", "NotSupported")]
    assert found({"QuotaCheckStrategy": False}, resources=bad) == []


def test_the_output_of_a_transformation_is_a_quantity() -> None:
    rules = [{"input": "cpu", "outputs": {"credits": "ten"}}]
    at = "resources.transformations[0].outputs[credits]"
    assert found(resources={"transformations": rules}) == [(at, "Invalid")]


def test_one_device_class_may_bear_several_counters_but_none_twice() -> None:
    cores = {**COUNTER, "name": "cores"}
    memory = mapping("mem", {"counter": COUNTER})
    assert found(resources=mapped(memory, mapping("cores", {"counter": cores}))) == []
    again = mapping("again", {"counter": COUNTER})
    assert found(resources=mapped(memory, again)) == [
        ("resources.deviceClassMappings[1].deviceClassNames[0]", "Invalid")
    ]


def test_a_source_is_a_counter_or_a_capacity() -> None:
    gates = {"KueueDRAIntegrationConsumableCapacity": True}
    at = "resources.deviceClassMappings[0].sources"
    both = mapping("a", {"counter": COUNTER, "capacity": COUNTER})
    assert found(gates, resources=mapped(both)) == [(f"{at}[0]", "Invalid")]
    assert found(gates, resources=mapped(mapping("a", {}))) == [(f"{at}[0]", "Invalid")]
    mixed = mapping("a", {"counter": COUNTER}, {"capacity": COUNTER})
    assert found(gates, resources=mapped(mixed)) == [(at, "Invalid")]


def test_capacities_need_their_gate() -> None:
    at = "resources.deviceClassMappings[0].sources[0].capacity"
    assert found(resources=mapped(mapping("a", {"capacity": COUNTER}))) == [(at, "Invalid")]


def test_more_than_sixteen_mappings_are_too_many() -> None:
    mappings = [{"name": f"r{i}", "deviceClassNames": [f"c{i}"]} for i in range(17)]
    assert found(resources=mapped(*mappings)) == [("resources.deviceClassMappings", "TooMany")]


def test_a_custom_label_has_a_name_of_its_own() -> None:
    labels = [{"name": "team"}, {"name": "team"}]
    assert found(metrics={"customLabels": labels}) == [
        ("metrics.customLabels[1].name", "Duplicate")
    ]


def test_an_unknown_cipher_suite_is_refused() -> None:
    assert found(tls={"cipherSuites": ["TLS_NOPE"]}) == [("tls", "Invalid")]


def test_every_fault_is_told_at_once() -> None:
    assert found(
        waitForPodsReady={"timeout": "-1s", "recoveryTimeout": "-1s"},
        visibilityServer={"bindPort": 70000},
        objectRetentionPolicies={"workloads": {"afterFinished": "-1s"}},
    ) == [
        ("waitForPodsReady.timeout", "Invalid"),
        ("waitForPodsReady.recoveryTimeout", "Invalid"),
        ("objectRetentionPolicies.workloads.afterFinished", "Invalid"),
        ("visibilityServer.bindPort", "Invalid"),
    ]


@pytest.mark.parametrize(
    "text",
    [
        "device.driver == 'gpu'",
        "device.attributes[\"a\"].b in ['x', \"it's\", r'\\', '\\'']",
        "true // not ( closed",
        'cel.bind(a, {"k": [1, 2]}, a.k == [1, 2])',
        "'''\n(\n''' == \"\"",
    ],
)
def test_cel_that_may_compile_is_left_alone(text: str) -> None:
    assert cel_complaints(text) == []


@pytest.mark.parametrize("text", ["device.driver == 'gpu", "(true", "true)", "[1, 2)", "'a\n'"])
def test_cel_that_cannot_be_parsed_is_refused(text: str) -> None:
    assert len(cel_complaints(text)) == 1


@pytest.mark.parametrize(("port", "expected"), [(9443, []), (65536, [("webhook.port", "Invalid")])])
def test_a_port_is_one_that_exists(port: int, expected: Found) -> None:
    assert expected == found(webhook={"port": port})
