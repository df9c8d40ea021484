# SPDX-License-Identifier: Apache-2.0
"""Validates the integrations section and the namespaces whose jobs are managed."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from ..base import LabelSelector
from ..faults import FieldError, duplicate, invalid, not_supported, required
from ..gates import Gate, Gates
from ..match import matches
from ..rules.metadata import selector_faults
from .defaults import NAMESPACE_NAME_LABEL
from .frameworks import FRAMEWORKS, POD, SPARK, GroupVersionKind
from .shapes import Configuration, Integrations

_SELECTOR = "managedJobsNamespaceSelector"


def integration_faults(cfg: Configuration, gates: Gates) -> Iterator[FieldError]:
    yield from _framework_faults(cfg.integrations, gates)
    yield from _selector_faults(cfg)


def _framework_faults(integrations: Integrations | None, gates: Gates) -> Iterator[FieldError]:
    at = "integrations.frameworks"
    if integrations is None:
        yield required("integrations", "must name the job kinds to manage")
        return
    if integrations.frameworks is None:
        yield required(at, "must be a list of job kinds", 'the usual one is ["batch/job"]')
        return
    seen: set[GroupVersionKind] = set()
    for index, name in enumerate(integrations.frameworks):
        kind = FRAMEWORKS.get(name)
        if kind is None:
            yield not_supported(f"{at}[{index}]", name, FRAMEWORKS, "a known framework")
        elif kind in seen:
            yield duplicate(f"{at}[{index}]", name, f"{name} is listed twice")
        elif name == SPARK and not gates.on(Gate.SparkApplicationIntegration):
            fix = f"enable the feature gate {Gate.SparkApplicationIntegration}"
            yield invalid(f"{at}[{index}]", name, f"{name} is an alpha integration", fix)
        else:
            seen.add(kind)
    yield from _external_faults(integrations, seen)


def _external_faults(
    integrations: Integrations, seen: set[GroupVersionKind]
) -> Iterator[FieldError]:
    for index, name in enumerate(integrations.external_frameworks or ()):
        at = f"integrations.externalFrameworks[{index}]"
        kind = GroupVersionKind.parse(name)
        if kind is None:
            yield invalid(at, name, f"{name!r} is not of the form Kind.version.group")
        elif kind in seen:
            yield duplicate(at, name, f"{name} is listed twice, here or under frameworks")
        else:
            seen.add(kind)


def _selector_faults(cfg: Configuration) -> Iterator[FieldError]:
    selector = cfg.managed_jobs_namespace_selector
    if selector is None:
        if cfg.integrations is not None and POD in (cfg.integrations.frameworks or ()):
            yield required(_SELECTOR, "must be set when the pod framework is enabled")
        return
    faults = list(selector_faults(msgspec.to_builtins(selector), _SELECTOR))
    yield from faults or _reach_faults(selector, cfg.namespace)


def _reach_faults(selector: LabelSelector, own: str | None) -> Iterator[FieldError]:
    """Yield a fault if the selector matches system namespaces or Kueue's own namespace.

    Kueue must never suspend the pods of the system or its own pods.
    """
    for namespace in filter(None, ("kube-system", own)):
        if matches(selector, {NAMESPACE_NAME_LABEL: namespace}):
            yield invalid(
                _SELECTOR,
                msgspec.to_builtins(selector),
                f"selects the namespace {namespace}",
                f"exclude it: {NAMESPACE_NAME_LABEL} NotIn [{namespace}]",
            )
