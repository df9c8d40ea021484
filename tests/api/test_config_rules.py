# SPDX-License-Identifier: Apache-2.0
"""Configurations that Kueue rejects, beyond the recorded cases."""

from __future__ import annotations

from typing import Any

import pytest

from kuota.api.config import default_configuration, faults, from_json
from kuota.api.config.cel_syntax import cel_complaints
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
        (None, 0),
        ({"matchLabels": {"kubernetes.io/metadata.name": "kube-system"}}, 1),
        ({"matchLabels": {"managed": "yes"}}, 0),
    ],
)
def test_managed_namespaces_may_not_include_the_systems_nor_kueues_own(
    selector: Any, count: int
) -> None:
    want = [("managedJobsNamespaceSelector", "Invalid")] * count
    assert found(managedJobsNamespaceSelector=selector, namespace="kueue-system") == want
    assert found(managedJobsNamespaceSelector=selector) == want[:1]


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
        (f"{at}[4].name", "Invalid"),
    ]
    # Only the adapters of enabled frameworks are in the way.
    ray = [{"name": "RayJob.v1.ray.io"}]
    assert found(multiKueue={"externalFrameworks": ray}) == []
    jobs = {"externalFrameworks": [{"name": "Job.v1.batch"}] * 2}
    assert found(multiKueue=jobs) == [
        (f"{at}[0].name", "Invalid"),
        (f"{at}[1].name", "Duplicate"),
        (f"{at}[1].name", "Invalid"),
    ]


def test_an_empty_list_of_frameworks_is_fine_and_none_is_not() -> None:
    assert found(integrations={"frameworks": []}) == []
    lacking = {"externalFrameworks": ["invalid"]}
    assert found(integrations=lacking) == [("integrations.frameworks", "Required")]
    selector = {"matchLabels": {"kubernetes.io/metadata.name": "kube-system"}}
    assert found(integrations=None, managedJobsNamespaceSelector=selector) == [
        ("integrations", "Required"),
        ("managedJobsNamespaceSelector", "Invalid"),
    ]


def test_only_the_first_list_of_providers_counts() -> None:
    lacking = {"name": "", "execConfig": {"apiVersion": "v1", "command": "a"}}
    profile = {"accessProviders": [lacking], "credentialsProviders": [lacking]}
    at = "multiKueue.clusterProfile"
    assert found(multiKueue={"clusterProfile": profile}) == [
        (f"{at}.credentialsProviders", "Forbidden"),
        (f"{at}.accessProviders.name", "Required"),
        (f"{at}.accessProviders.execConfig.interactiveMode", "Required"),
    ]


def test_steps_are_judged_under_every_dispatcher() -> None:
    at = "multiKueue.incrementalDispatcherConfig"
    assert found(multiKueue={"incrementalDispatcherConfig": {"stepSize": 0}}) == [
        (at, "Invalid"),
        (f"{at}.stepSize", "Invalid"),
    ]


def test_waiting_for_pods_needs_a_timeout_where_it_is_enabled() -> None:
    waiting = {"timeout": "0s", "requeuingStrategy": {"backoffLimitCount": -1}}
    assert found(waitForPodsReady=waiting) == [
        ("waitForPodsReady.timeout", "Required"),
        ("waitForPodsReady.requeuingStrategy.backoffLimitCount", "Invalid"),
    ]
    assert found({"DisableWaitForPodsReady": True}, waitForPodsReady=waiting) == []


def test_the_visibility_server_binds_to_an_address() -> None:
    at = "visibilityServer.bindAddress"
    for address, want in (("", 1), ("localhost", 1), ("::1", 0), ("10.0.0.1", 0)):
        assert found(visibilityServer={"bindAddress": address}) == [(at, "Invalid")] * want


@pytest.mark.parametrize(
    "curves", [[0], [-1], [65536], [23, 23], [23, 26], [1], [65535], [29, 4588, 29]]
)
def test_curves_are_known_to_go_and_listed_once(curves: list[int]) -> None:
    assert found(tls={"curvePreferences": curves}) == [("tls", "Invalid")]


def test_every_curve_of_go_is_taken() -> None:
    assert found(tls={"curvePreferences": [23, 24, 25, 29, 4587, 4588, 4589]}) == []
    assert found(tls={"curvePreferences": []}) == []


def test_all_that_cannot_be_parsed_under_tls_is_one_fault() -> None:
    wrong = {"minVersion": "VersionTLS11", "cipherSuites": ["TLS_NOPE"], "curvePreferences": [0]}
    assert found(tls=wrong) == [("tls", "Invalid")]
    # A combination is judged only once its parts can be parsed.
    modern = {"minVersion": "VersionTLS13", "cipherSuites": ["TLS_AES_128_GCM_SHA256"]}
    assert found(tls=modern) == [("tls.cipherSuites", "Invalid")]
    assert found(tls=modern | {"curvePreferences": [0]}) == [("tls", "Invalid")]


def test_the_message_about_tls_names_every_value_that_is_wrong() -> None:
    wrong = {"minVersion": "VersionTLS11", "cipherSuites": ["TLS_NOPE"], "curvePreferences": [0]}
    (fault,) = faults(from_json({"integrations": {"frameworks": []}, "tls": wrong}), Gates())
    for word in ("VersionTLS11", "TLS_NOPE", "curve preference 0"):
        assert word in str(fault)


def test_only_known_quota_check_strategies_are_taken() -> None:
    assert found(resources={"quotaCheckStrategy": "BlockUndeclared"}) == []
    bad = {"quotaCheckStrategy": "Other"}
    assert found(resources=bad) == [("resources.quotaCheckStrategy", "NotSupported")]
    assert found({"QuotaCheckStrategy": False}, resources=bad) == []


def test_the_output_of_a_transformation_is_a_quantity() -> None:
    rules = [{"input": "cpu", "strategy": "Retain", "outputs": {"credits": "ten"}}]
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
    assert found(gates, resources=mapped(mapping("a", {}))) == [(f"{at}[0]", "Required")]
    mixed = mapping("a", {"counter": COUNTER}, {"capacity": COUNTER})
    assert found(gates, resources=mapped(mixed)) == [(at, "Invalid")]
    # Faults of single sources do not hide that the others are mixed.
    mixed["sources"].append({})
    assert found(gates, resources=mapped(mixed)) == [(f"{at}[2]", "Required"), (at, "Invalid")]


def test_capacities_do_not_tell_mappings_of_one_class_apart() -> None:
    gates = {"KueueDRAIntegrationConsumableCapacity": True}
    cores = {**COUNTER, "name": "cores"}
    two = mapped(mapping("mem", {"capacity": COUNTER}), mapping("cores", {"capacity": cores}))
    at = "resources.deviceClassMappings[1].deviceClassNames[0]"
    assert found(gates, resources=two) == [(at, "Invalid")]


def test_a_mapping_repeated_under_its_name_is_one_fault() -> None:
    whole = {"name": "gpus", "deviceClassNames": ["gpu"]}
    assert found(resources=mapped(whole, whole)) == [
        ("resources.deviceClassMappings[1].name", "Duplicate")
    ]


@pytest.mark.parametrize(
    ("name", "want"),
    [
        ("GPU.Example.com/memory", []),
        ("gpu.example.com/memory", []),
        ("a/b/c", []),
        ("", ["Invalid"]),
        ("/memory", ["Invalid"]),
        ("gpu.example.com/", ["Invalid"]),
        ("-gpu/9", ["Invalid", "Invalid"]),
        ("x" * 33, ["TooLong"]),
        ("9" * 33, ["TooLong", "Invalid"]),
        ("x" * 63 + "/memory", []),
        ("-" * 64 + "/memory", ["TooLong", "Invalid"]),
    ],
)
def test_a_capacity_has_a_qualified_name(name: str, want: list[str]) -> None:
    gates = {"KueueDRAIntegrationConsumableCapacity": True}
    at = "resources.deviceClassMappings[0].sources[0].capacity.name"
    named = mapping("a", {"capacity": {**COUNTER, "name": name}})
    assert found(gates, resources=mapped(named)) == [(at, each) for each in want]


def test_a_name_that_is_no_key_and_too_long_has_two_faults() -> None:
    long = "x" * 254
    whole = {"name": long, "deviceClassNames": [long]}
    at = "resources.deviceClassMappings[0]"
    assert found(resources=mapped(whole)) == [
        (f"{at}.name", "Invalid"),
        (f"{at}.name", "Invalid"),
        (f"{at}.deviceClassNames[0]", "Invalid"),
        (f"{at}.deviceClassNames[0]", "Invalid"),
    ]


def test_a_transformation_says_what_becomes_of_its_input() -> None:
    at = "resources.transformations[0].strategy"
    rules = {"transformations": [{"input": "cpu"}]}
    assert found(resources=rules) == [(at, "NotSupported")]


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


def test_the_key_of_an_annotation_is_a_label_key() -> None:
    at = "metrics.customLabels[0]"
    for key, want in (("example.com/team", 0), ("Example.com/team", 1)):
        label = {"name": "team", "sourceAnnotationKey": key}
        expected = [(f"{at}.sourceAnnotationKey", "Invalid")] * want
        assert found(metrics={"customLabels": [label]}) == expected
    both = {"name": "team", "sourceLabelKey": "team", "sourceAnnotationKey": "not a key"}
    assert found(metrics={"customLabels": [both]}) == [(at, "Invalid")]


@pytest.mark.parametrize(
    ("kind", "count", "want"),
    [
        ("Workload", 0, "Invalid"),
        ("Workload", 12, ""),
        ("Workload", 13, "Invalid"),
        ("Workload", 17, "Invalid"),
        ("Cohort", 16, ""),
        ("Cohort", 17, "TooMany"),
        ("", 17, "TooMany"),
    ],
)
def test_the_number_of_tracked_values_is_bounded(kind: str, count: int, want: str) -> None:
    values = [f"v{number}" for number in range(count)]
    label = {"name": "team", "sourceKind": kind or None, "trackedValues": values}
    expected = [("metrics.customLabels[0].trackedValues", want)] if want else []
    assert found(metrics={"customLabels": [label]}) == expected


@pytest.mark.parametrize("kind", ["", "Job"])
def test_an_unknown_source_of_a_label_is_refused(kind: str) -> None:
    label = {"name": "team", "sourceKind": kind}
    assert found(metrics={"customLabels": [label]}) == [("metrics.customLabels", "Invalid")]


def test_an_unknown_cipher_suite_is_refused() -> None:
    assert found(tls={"cipherSuites": ["TLS_NOPE"]}) == [("tls", "Invalid")]


def test_every_fault_is_reported_at_once() -> None:
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
        "b'a' == bytes('a') && R'b' != B\"c\"",
        "device.attributes['a'].all(name, name in ['b'] || 1e5 < 0x1F)",
        "device . attributes['a'].?b.orValue(true) && has(device.capacity.a.b)",
        "cel.bind(a, device.attributes['a'], a.b == dyn(math.greatest(1, 2)))",
        "[1].exists(i, v, i == v) ? type(true) == bool : optional.none() == null",
        "device.attributes.a.`b-c` == google.protobuf.Duration{seconds: 1}",
    ],
)
def test_cel_that_may_compile_is_left_alone(text: str) -> None:
    assert cel_complaints(text) == []


@pytest.mark.parametrize("text", ["device.driver == 'gpu", "(true", "true)", "[1, 2)", "'a\n'"])
def test_cel_that_cannot_be_parsed_is_refused(text: str) -> None:
    assert len(cel_complaints(text)) == 1


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("gpu.driver == 'gpu'", "gpu"),
        ("device.driver == gpu", "gpu"),
        ("device.model == 'a'", "device.model"),
        ("device.allowMultipleAllocations", "device.allowMultipleAllocations"),
        ("[1].all(x, x > y)", "y"),
        ("{device.driver: a}['b'] == 1", "a"),
    ],
)
def test_a_selector_that_refers_to_an_undeclared_name_is_refused(text: str, name: str) -> None:
    (complaint,) = cel_complaints(text)
    assert f'refers to "{name}"' in complaint
    selector = {"cel": {"expression": text}}
    sections = mapped(mapping("memory", {"counter": COUNTER | {"deviceSelector": selector}}))
    gates = {"KueueDRAIntegrationPartitionableDevices": True, "KueueDRAIntegration": True}
    at = "resources.deviceClassMappings[0].sources[0].counter.deviceSelector.cel.expression"
    assert [(at, "Invalid")] == found(gates, resources=sections)


@pytest.mark.parametrize(("port", "expected"), [(9443, []), (65536, [("webhook.port", "Invalid")])])
def test_a_port_is_one_that_exists(port: int, expected: Found) -> None:
    assert expected == found(webhook={"port": port})


def test_the_alpha_integration_of_spark_needs_its_gate() -> None:
    cfg = from_json({"integrations": {"frameworks": ["sparkoperator.k8s.io/sparkapplication"]}})
    (fault,) = faults(cfg, Gates())
    assert "integrations.frameworks[0]" == fault.path
    assert [] == faults(cfg, Gates.of({"SparkApplicationIntegration": True}))
