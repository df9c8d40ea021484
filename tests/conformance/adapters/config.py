# SPDX-License-Identifier: Apache-2.0
"""Suites of Kueue's Configuration: loading, defaults, validation and feature gates."""

from __future__ import annotations

from typing import Any

import msgspec

from encoded import encoded
from kuota.api import config
from kuota.api.base import Json, ObjectMeta
from kuota.api.config.duration import Duration
from kuota.api.faults import FieldError, Invalid
from kuota.api.gates import Gates, resolved

from ..case import Run, check, refused, same
from ..recorder import convert, whole
from ..registry import suite

# The recorded Configuration leaves these sections empty; what they hold is among wantOptions.
_EMPTY = "the record leaves this section empty; what it holds is among wantOptions"
_GO_OPTION = "an option of Go's controller-runtime that no field of the Configuration sets"
_GO_OPTIONS = (
    "cache",
    "client",
    "logger",
    "metrics.certDir",
    "metrics.certName",
    "metrics.keyName",
    "metrics.listenConfig",
    "metrics.secureServing",
    "controller.logger",
    "controller.maxConcurrentReconciles",
    "controller.reconciliationTimeout",
)
_IN_OPTIONS = ("webhook", "leaderElection", "metrics", "health", "pprofBindAddress", "controller")


@suite(
    "config/config-TestLoad",
    ignores={
        "inputs.shared": "the scheme of the Go decoder",
        "inputs.configFile.fileName": "the test writes the content to a file of this name",
        **{f"expected.wantOptions.{name}": _GO_OPTION for name in _GO_OPTIONS},
        **{f"expected.wantConfiguration.{name}": _EMPTY for name in _IN_OPTIONS},
    },
)
def load(run: Run) -> None:
    cluster_profile = run.inputs["withClusterProfile"] or run.inputs["enableClusterProfile"]
    check(not cluster_profile, "MultiKueue's cluster profiles follow in their own issue")
    try:
        cfg = _loaded(run)
    except Invalid as invalid:
        refused(run.expected["wantError"], invalid)
        # What is recorded beside the error are the zero values of Go, which nothing reads.
        whole(run.expected["wantConfiguration"]), whole(run.expected["wantOptions"])
        return
    refused(run.expected["wantError"], None)
    want = _without_options(run.expected["wantConfiguration"])
    got = _without_options(encoded(cfg))
    if "apiVersion" not in want:
        got.pop("apiVersion")
    same(want, got)
    _same_options(run.expected["wantOptions"], cfg)


@suite(
    "config/config-TestTLSOptions",
    ignores={
        "inputs.shared": "the scheme of the Go decoder",
        "inputs.configFile.fileName": "the test writes the content to a file of this name",
        **{f"expected.wantConfiguration.{name}": _EMPTY for name in _IN_OPTIONS},
    },
)
def tls_options(run: Run) -> None:
    """Only the sections that are recorded: this test leaves others out of its expectation."""
    try:
        cfg, _ = config.checked(run.inputs["configFile"]["content"])
    except Invalid as invalid:
        refused(run.expected["wantError"], invalid)
        # What is recorded beside the error are the zero values of Go, which nothing reads.
        whole(run.expected["wantConfiguration"])
        return
    refused(run.expected["wantError"], None)
    want = _without_options(run.expected["wantConfiguration"])
    got = encoded(cfg)
    same(want, {key: got.get(key) for key in want})


@suite(
    "config/config-TestValidate",
    ignores={"inputs.shared": "parts from which the test builds its configurations"},
)
def validate(run: Run) -> None:
    _same_faults(run, _faults(run))


@suite("config/config-TestValidateCustomLabels", "config/config-TestValidateDeviceClassMappings")
def validate_section(run: Run) -> None:
    """These tests call the rules of one section; what other sections lack does not count."""
    sections = ("metrics.", "resources.")
    _same_faults(run, [fault for fault in _faults(run) if fault.path.startswith(sections)])


@suite(
    "config/config-TestLoadAndValidateFeatureGates",
    ignores={"inputs.ignoreDetail": "whether the test compares texts, which are Kuota's own"},
)
def feature_gates(run: Run) -> None:
    found: list[FieldError] = []
    try:
        resolved(run.inputs["featureGatesCLI"], whole(run.inputs.get("featureGateMap")))
    except Invalid as invalid:
        found = list(invalid.errors)
    _same_faults(run, found)


@suite("config/config-TestWaitForPodsReadyIsEnabled")
def wait_for_pods_ready(run: Run) -> None:
    cfg = config.from_json(whole(run.inputs["cfg"]))
    got = config.wait_for_pods_ready_enabled(cfg, _gates(run))
    same(run.expected["want"], got)


@suite("config/config-TestDefaultTransformStripsManagedFields")
def strip_managed_fields(run: Run) -> None:
    """Decoding is what strips: metadata as Kuota holds it has no place for managedFields."""
    pod = whole(run.inputs["pod"])
    held = convert(pod["metadata"], ObjectMeta)
    same(run.expected["wantPod"], pod | {"metadata": msgspec.to_builtins(held)})


def _loaded(run: Run) -> config.Configuration:
    file = run.inputs["configFile"]
    if not file:
        return config.default_configuration()
    return config.load(file["content"])


def _gates(run: Run) -> Gates:
    return Gates.of(whole(run.gates), check=False)


def _faults(run: Run) -> list[FieldError]:
    return config.faults(config.from_json(whole(run.inputs["cfg"])), _gates(run))


def _same_faults(run: Run, found: list[FieldError]) -> None:
    want = [(each["type"], each["field"]) for each in run.expected["wantErr"] or ()]
    same(_listed(want), _listed([(fault.type.value, fault.path) for fault in found]))


def _listed(faults: list[tuple[str, str]]) -> list[tuple[str, str]]:
    """Sort faults. Kueue validates the selector of namespaces once more if pods are managed."""
    twice = {each for each in faults if each[1].startswith("managedJobsNamespaceSelector")}
    return sorted([*twice, *(each for each in faults if each not in twice)])


def _without_options(cfg: Json) -> Json:
    return {key: value for key, value in cfg.items() if key not in _IN_OPTIONS}


def _same_options(want: Json, cfg: config.Configuration) -> None:
    """The options that are plain copies of a field of the configuration."""
    got = _options(cfg)
    same({key: _picked(want, key) for key in got}, got)


def _picked(options: Json, key: str) -> Any:
    for part in key.split("."):
        options = options.get(part) or {}
    return options


def _options(cfg: config.Configuration) -> Json:
    election = cfg.leader_election
    assert election is not None
    sync_timeout = (cfg.controller and cfg.controller.cache_sync_timeout) or 0
    return {
        "healthProbeBindAddress": cfg.health.health_probe_bind_address,
        "readinessEndpointName": cfg.health.readiness_endpoint_name,
        "livenessEndpointName": cfg.health.liveness_endpoint_name,
        "pprofBindAddress": cfg.pprof_bind_address,
        "metrics.bindAddress": cfg.metrics.bind_address,
        "leaderElection": election.leader_elect,
        "leaderElectionID": election.resource_name,
        "leaderElectionNamespace": election.resource_namespace,
        "leaderElectionResourceLock": election.resource_lock,
        "leaseDuration": str(election.lease_duration),
        "renewDeadline": str(election.renew_deadline),
        "retryPeriod": str(election.retry_period),
        "leaderElectionReleaseOnCancel": bool(election.leader_elect),
        "controller.cacheSyncTimeout": str(Duration(sync_timeout)),
        "controller.groupKindConcurrency": cfg.controller and cfg.controller.group_kind_concurrency,
    }
