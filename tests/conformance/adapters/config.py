# SPDX-License-Identifier: Apache-2.0
"""Feeds the suites of Kueue's Configuration: loading, defaults, validation and feature gates."""

from __future__ import annotations

from typing import Any

import msgspec

from encoded import encoded
from kuota.api import config
from kuota.api.base import Json, ObjectMeta
from kuota.api.faults import FieldError, Invalid
from kuota.api.gates import Gates, resolved

from ..case import Run, check, same
from ..registry import suite

# The recorded Configuration leaves these sections empty; what they hold is among wantOptions.
_IN_OPTIONS = ("webhook", "leaderElection", "metrics", "health", "pprofBindAddress", "controller")


@suite("config/config-TestLoad")
def load(run: Run) -> None:
    try:
        cfg = _loaded(run)
    except Invalid as invalid:
        check(bool(run.expected.get("wantError")), f"unexpected: {invalid}")
        return
    check(not run.expected.get("wantError"), "loaded, though an error was expected")
    want = _without_options(run.expected["wantConfiguration"])
    got = _without_options(encoded(cfg))
    if "apiVersion" not in want:
        got.pop("apiVersion")
    same(want, got)
    _same_options(run.expected["wantOptions"], cfg)


@suite("config/config-TestTLSOptions")
def tls_options(run: Run) -> None:
    """Only the sections that are recorded: this test leaves others out of its expectation."""
    got = encoded(_loaded(run))
    want = _without_options(run.expected["wantConfiguration"])
    same(want, {key: got.get(key) for key in want})


@suite("config/config-TestValidate")
def validate(run: Run) -> None:
    _same_faults(run, _faults(run))


@suite("config/config-TestValidateCustomLabels", "config/config-TestValidateDeviceClassMappings")
def validate_section(run: Run) -> None:
    """These tests call the rules of one section; what other sections lack does not count."""
    sections = ("metrics.", "resources.")
    _same_faults(run, [fault for fault in _faults(run) if fault.path.startswith(sections)])


@suite("config/config-TestLoadAndValidateFeatureGates")
def feature_gates(run: Run) -> None:
    found: list[FieldError] = []
    try:
        resolved(run.inputs["featureGatesCLI"], run.inputs.get("featureGateMap"))
    except Invalid as invalid:
        found = list(invalid.errors)
    _same_faults(run, found)


@suite("config/config-TestWaitForPodsReadyIsEnabled")
def wait_for_pods_ready(run: Run) -> None:
    cfg = config.from_json(run.inputs["cfg"])
    got = config.wait_for_pods_ready_enabled(cfg, _gates(run))
    same(run.expected["want"], got)


@suite("config/config-TestDefaultTransformStripsManagedFields")
def strip_managed_fields(run: Run) -> None:
    """Decoding is what strips: metadata as Kuota holds it has no place for managedFields."""
    held = msgspec.convert(run.inputs["pod"]["metadata"], ObjectMeta)
    same(run.expected["wantPod"]["metadata"], msgspec.to_builtins(held))


def _loaded(run: Run) -> config.Configuration:
    file = run.inputs["configFile"]
    if not file:
        return config.default_configuration()
    return config.load(file["content"])


def _gates(run: Run) -> Gates:
    return Gates.of(run.gates, check=False)


def _faults(run: Run) -> list[FieldError]:
    return config.faults(config.from_json(run.inputs["cfg"]), _gates(run))


def _same_faults(run: Run, found: list[FieldError]) -> None:
    want = [(each["type"], each["field"]) for each in run.expected["wantErr"] or ()]
    same(sorted(map(list, want)), sorted([fault.type.value, fault.path] for fault in found))


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
        "controller.groupKindConcurrency": cfg.controller and cfg.controller.group_kind_concurrency,
    }
