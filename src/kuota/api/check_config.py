# SPDX-License-Identifier: Apache-2.0
"""Which configuration an AdmissionCheck points to, and whose check it is."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TypeVar

from .kueue import GROUP, AdmissionCheck
from .workload import AdmissionCheckState

MULTIKUEUE = "kueue.x-k8s.io/multikueue"
PROVISIONING = "kueue.x-k8s.io/provisioning-request"

T = TypeVar("T")


class ConfigMissing(LookupError):
    """The check names no usable configuration. The message says what is wrong with its name."""


def config_name(check: AdmissionCheck, kind: str) -> str:
    """The name of the check's configuration, which must be of that kind. Raises ConfigMissing."""
    parameters = check.spec.parameters
    if parameters is None:
        raise ConfigMissing(f"admission check {check.metadata.name}: spec.parameters is missing")
    if parameters.api_group != GROUP or parameters.kind != kind or not parameters.name:
        raise ConfigMissing(
            f"admission check {check.metadata.name}: spec.parameters must name a {kind} of {GROUP}"
        )
    return parameters.name


def config_of(check: AdmissionCheck, kind: str, configs: Mapping[str, T]) -> T:
    """The check's configuration among those of its kind. Raises ConfigMissing."""
    name = config_name(check, kind)
    if name not in configs:
        raise ConfigMissing(f"admission check {check.metadata.name}: {kind} {name} does not exist")
    return configs[name]


def states_of(
    states: Iterable[AdmissionCheckState] | None,
    checks: Mapping[str, AdmissionCheck],
    controller: str,
) -> list[AdmissionCheckState]:
    """The states whose checks that controller answers. A check that does not exist is nobody's."""
    return [
        state
        for state in states or ()
        if state.name in checks and checks[state.name].spec.controller_name == controller
    ]
