# SPDX-License-Identifier: Apache-2.0
"""Feeds the suites on admission checks: configurations and whose check it is."""

from __future__ import annotations

from msgspec import convert, to_builtins

from conformance.case import Difference, Run, check, same
from conformance.registry import suite
from kuota.api.check_config import MULTIKUEUE, ConfigMissing, config_of, states_of
from kuota.api.kueue import (
    GROUP,
    AdmissionCheck,
    AdmissionCheckParameters,
    AdmissionCheckSpec,
    MultiKueueConfig,
    ProvisioningRequestConfig,
)
from kuota.api.workload import AdmissionCheckState


@suite("util/admissioncheck-TestConfigHelper")
def config_helper(run: Run) -> None:
    admission_check = convert(run.inputs["admissioncheck"], AdmissionCheck)
    record = run.inputs.get("config")
    config = convert(record, ProvisioningRequestConfig) if record else None
    configs = {config.metadata.name: config} if config else {}
    try:
        found = config_of(admission_check, "ProvisioningRequestConfig", configs)
    except ConfigMissing as error:
        check(bool(run.expected["wantError"]), f"unexpected {error}")
        return
    check(not run.expected["wantError"], "want an error, got a config")
    same(run.expected["wantConfig"], to_builtins(found))


@suite("util/admissioncheck-TestGetMultiKueueAdmissionCheck")
def multikueue_state(run: Run) -> None:
    checks = [convert(each, AdmissionCheck) for each in run.inputs.get("admissionChecks") or ()]
    states = convert(run.inputs.get("workloadACS") or [], list[AdmissionCheckState])
    found = states_of(states, {each.metadata.name: each for each in checks}, MULTIKUEUE)
    same(run.expected["wantResult"], to_builtins(found[0]) if found else None)


@suite("util/admissioncheck-TestGetRemoteClusters")
def remote_clusters(run: Run) -> None:
    name = run.inputs["shared"]["acTest"]
    record = run.inputs.get("multiKueueConfig")
    parameters = AdmissionCheckParameters(api_group=GROUP, kind="MultiKueueConfig", name=name)
    admission_check = AdmissionCheck(spec=AdmissionCheckSpec(parameters=parameters))
    config = convert(record, MultiKueueConfig) if record else None
    configs = {config.metadata.name: config} if config else {}
    try:
        clusters = config_of(admission_check, "MultiKueueConfig", configs).spec.clusters
    except ConfigMissing as error:
        if not run.expected["wantErr"]:
            raise Difference(f"unexpected {error}") from error
        clusters = None
    same(run.expected["wantResult"], clusters)
