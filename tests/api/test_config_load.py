# SPDX-License-Identifier: Apache-2.0
"""Reading a Configuration: strict decoding, the defaults of both versions, conversion."""

from __future__ import annotations

import pytest

from encoded import encoded
from kuota.api.config import (
    Configuration,
    Duration,
    checked,
    default_configuration,
    from_json,
    load,
    local_queue_metrics_enabled,
    wait_for_pods_ready_enabled,
)
from kuota.api.config.shapes import FairSharing, WaitForPodsReady
from kuota.api.faults import ErrorType, Invalid
from kuota.api.gates import Gate, Gates

V1BETA2 = "apiVersion: config.kueue.x-k8s.io/v1beta2\nkind: Configuration\n"
V1BETA1 = "apiVersion: config.kueue.x-k8s.io/v1beta1\nkind: Configuration\n"


def wait(cfg: Configuration) -> WaitForPodsReady:
    assert cfg.wait_for_pods_ready is not None
    return cfg.wait_for_pods_ready


def refusals(text: str) -> list[tuple[str, ErrorType]]:
    with pytest.raises(Invalid) as caught:
        load(text)
    return [(error.path, error.type) for error in caught.value.errors]


def test_a_config_map_leads_to_the_configuration_inside() -> None:
    head = "apiVersion: v1\nkind: ConfigMap\n"
    with pytest.raises(Invalid) as caught:
        load(head + "data: {controller_manager_config.yaml: ''}")
    (fault,) = caught.value.errors
    assert fault.message.endswith('its data."controller_manager_config.yaml"')
    assert "-o jsonpath='{.data.controller_manager_config\\.yaml}' > config.yaml" in fault.fix
    assert ["apiVersion", "kind"] == [path for path, _ in refusals(head + "data: null")]


def test_no_file_and_an_empty_v1beta2_file_mean_the_same() -> None:
    assert load(V1BETA2) == default_configuration()


def test_v1beta2_waits_for_ready_pods_for_half_an_hour_without_blocking() -> None:
    found = wait(load(V1BETA2))
    assert str(found.timeout) == "30m0s"
    assert str(found.recovery_timeout) == "30m0s"
    assert found.block_admission is False


def test_an_empty_list_of_frameworks_means_the_default() -> None:
    cfg = load(V1BETA2 + "integrations: {frameworks: []}")
    assert cfg.integrations is not None
    assert ["batch/job"] == cfg.integrations.frameworks


def test_the_off_switch_of_waiting_is_a_gate() -> None:
    cfg = load(V1BETA2)
    assert wait_for_pods_ready_enabled(cfg, Gates())
    assert not wait_for_pods_ready_enabled(cfg, Gates.of({"DisableWaitForPodsReady": True}))


def test_a_zero_timeout_becomes_the_default_but_zero_recovery_stays() -> None:
    found = wait(load(V1BETA2 + "waitForPodsReady: {timeout: 0s, recoveryTimeout: 0s}"))
    assert str(found.timeout) == "30m0s"
    assert found.recovery_timeout == 0


def test_recovery_takes_as_long_as_readiness_unless_said() -> None:
    found = wait(load(V1BETA2 + "waitForPodsReady: {timeout: 7m}"))
    assert str(found.recovery_timeout) == "7m0s"


def test_v1beta1_leaves_waiting_off() -> None:
    assert load(V1BETA1).wait_for_pods_ready is None
    assert load(V1BETA1 + "waitForPodsReady: {timeout: 1m}").wait_for_pods_ready is None


def test_v1beta1_waits_five_minutes_and_blocks_when_enabled() -> None:
    found = wait(load(V1BETA1 + "waitForPodsReady: {enable: true}"))
    assert str(found.timeout) == "5m0s"
    assert found.block_admission is True


def test_v1beta1_fair_sharing_must_be_enabled_and_defaults_to_both_strategies() -> None:
    assert load(V1BETA1 + "fairSharing: {}").fair_sharing is None
    assert load(V1BETA1 + "fairSharing: {enable: true}").fair_sharing == FairSharing(
        preemption_strategies=["LessThanOrEqualToFinalShare", "LessThanInitialShare"]
    )


def test_v1beta2_fair_sharing_is_on_by_being_there_and_gets_no_strategies() -> None:
    assert load(V1BETA2).fair_sharing is None
    assert load(V1BETA2 + "fairSharing: {}").fair_sharing == FairSharing()


def test_v1beta1_has_no_visibility_server_even_after_conversion() -> None:
    assert load(V1BETA1).visibility_server is None
    assert encoded(load(V1BETA2))["visibilityServer"] == {"bindPort": 8082}


def test_what_v1beta1_has_and_v1beta2_has_not_is_accepted_and_dropped() -> None:
    text = V1BETA1 + "queueVisibility: {updateIntervalSeconds: 7}\nintegrations: {podOptions: {}}\n"
    assert load(text) == load(V1BETA1)
    assert [path for path, _ in refusals(text.replace("v1beta1", "v1beta2"))] == [
        "queueVisibility",
        "integrations.podOptions",
    ]


def test_v1beta1_becomes_v1beta2_with_everything_else_alike() -> None:
    old, new = encoded(load(V1BETA1)), encoded(load(V1BETA2))
    assert old == {
        k: v for k, v in new.items() if k not in ("waitForPodsReady", "visibilityServer")
    }


def test_local_queue_metrics_are_on_when_absent_and_off_when_merely_present() -> None:
    assert local_queue_metrics_enabled(load(V1BETA2), Gates())
    present = load(V1BETA2 + "metrics: {localQueueMetrics: {}}")
    assert not local_queue_metrics_enabled(present, Gates())
    enabled = load(V1BETA2 + "metrics: {localQueueMetrics: {enable: true}}")
    assert local_queue_metrics_enabled(enabled, Gates())
    assert not local_queue_metrics_enabled(enabled, Gates.of({"LocalQueueMetrics": False}))


def test_jobs_are_managed_everywhere_but_in_the_system_and_in_kueues_own_namespace() -> None:
    selector = encoded(load(V1BETA2, namespace="queues"))["managedJobsNamespaceSelector"]
    assert selector["matchExpressions"][0]["values"] == ["kube-system", "queues"]
    named = encoded(load(V1BETA2 + "namespace: mine", namespace="queues"))
    assert named["managedJobsNamespaceSelector"]["matchExpressions"][0]["values"][1] == "mine"


def test_an_empty_namespace_is_not_replaced() -> None:
    found = encoded(load(V1BETA2 + 'namespace: ""', namespace="queues"))
    assert "" == found["namespace"]
    names = found["managedJobsNamespaceSelector"]["matchExpressions"][0]["values"]
    assert ["kube-system", ""] == names


def test_names_of_certificates_are_filled_in_only_when_kueue_makes_them() -> None:
    cfg = load(V1BETA2 + "internalCertManagement: {enable: no}")
    assert encoded(cfg)["internalCertManagement"] == {"enable": False}


def test_the_step_of_the_incremental_dispatcher_is_three() -> None:
    name = "kueue.x-k8s.io/multikueue-dispatcher-incremental"
    cfg = load(V1BETA2 + f"multiKueue: {{dispatcherName: {name}}}")
    assert encoded(cfg)["multiKueue"]["incrementalDispatcherConfig"] == {"stepSize": 3}
    assert "incrementalDispatcherConfig" not in encoded(load(V1BETA2))["multiKueue"]


def test_admission_fair_sharing_samples_every_five_minutes() -> None:
    fair = load(V1BETA2 + "admissionFairSharing: {usageHalfLifeTime: 168h}").admission_fair_sharing
    assert fair is not None
    assert (fair.usage_half_life_time, fair.usage_sampling_interval) == (
        Duration.parse("168h"),
        Duration.parse("5m"),
    )


def test_quantities_of_transformations_are_written_canonically() -> None:
    rule = "{input: a, outputs: {b: 10, c: 1024Mi}}"
    cfg = load(V1BETA2 + f"resources: {{transformations: [{rule}]}}")
    assert encoded(cfg)["resources"]["transformations"] == [
        {"input": "a", "strategy": "Retain", "outputs": {"b": "10", "c": "1Gi"}}
    ]


def test_every_fault_of_the_file_is_reported_at_once() -> None:
    text = V1BETA2 + (
        "namespaces: x\n"
        "waitForPodsReady: {timeout: 5, blockAdmision: true, recoveryTimeout: 5 minutes}\n"
        "integrations: {frameworks: [batch/job, 7]}\n"
        "clientConnection: {burst: 3000000000, qps: 1.5}\n"
        "metrics: []\n"
    )
    assert set(refusals(text)) == {
        ("namespaces", ErrorType.INVALID),
        ("waitForPodsReady.timeout", ErrorType.TYPE_INVALID),
        ("waitForPodsReady.blockAdmision", ErrorType.INVALID),
        ("waitForPodsReady.recoveryTimeout", ErrorType.INVALID),
        ("integrations.frameworks[1]", ErrorType.TYPE_INVALID),
        ("clientConnection.burst", ErrorType.INVALID),
        ("metrics", ErrorType.TYPE_INVALID),
    }


def test_an_unknown_field_is_met_with_the_nearest_name() -> None:
    with pytest.raises(Invalid, match="did you mean waitForPodsReady"):
        load(V1BETA2 + "waitForPodReady: {}")


def test_a_field_set_twice_is_refused_on_its_line() -> None:
    with pytest.raises(Invalid, match='line 4: key "namespace" is set twice'):
        load(V1BETA2 + "namespace: a\nnamespace: b")


def test_null_means_absent() -> None:
    assert load(V1BETA2 + "namespace: null\nmetrics:\nmultiKueue: {gcInterval: }") == load(V1BETA2)


@pytest.mark.parametrize(
    ("text", "paths"),
    [
        (V1BETA2.replace("v1beta2", "v1"), ["apiVersion"]),
        ("kind: Config", ["apiVersion", "kind"]),
        ("", [""]),
        (f"{V1BETA2}---\n{V1BETA2}", [""]),
        ("[1]", [""]),
        ("a: [", [""]),
    ],
)
def test_a_file_that_is_not_one_configuration_is_refused(text: str, paths: list[str]) -> None:
    assert [path for path, _ in refusals(text)] == paths


def test_what_is_encoded_can_be_read_again() -> None:
    cfg = load(V1BETA2 + "waitForPodsReady: {timeout: 1m30s}\nfairSharing: {}")
    assert from_json(encoded(cfg)) == cfg


def test_checked_gives_the_gates_of_the_file_or_of_the_flag() -> None:
    text = V1BETA2 + "featureGates: {PriorityBoost: true}"
    assert checked(text)[1].on(Gate.PriorityBoost)
    assert checked(V1BETA2, "PriorityBoost=true")[1].on(Gate.PriorityBoost)


def test_checked_refuses_gates_and_sections_together() -> None:
    with pytest.raises(Invalid) as caught:
        checked(V1BETA2 + "featureGates: {Nope: true}\nfairSharing: {}")
    assert [error.path for error in caught.value.errors] == [
        "featureGates",
        "fairSharing.preemptionStrategies",
    ]
