# SPDX-License-Identifier: Apache-2.0
"""Defaults and validation by kind: Kubernetes' kinds, Kueue's and custom ones."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from kuota.api import crds, rules
from kuota.api.base import Json
from kuota.api.defaults import defaulted, schema_defaulted
from kuota.api.faults import FieldError, introduced, invalid
from kuota.api.gates import Gates
from kuota.api.rules.config_data import config_map_faults, secret_faults
from kuota.api.structure import filled, value_faults

from .columns import dig, mapped
from .crd import crd_faults
from .event_faults import (
    core_event_faults,
    event_faults,
    event_update_faults,
    new_event_faults,
)
from .job_faults import cron_job_faults, job_faults, job_update_faults
from .job_kind_faults import job_kind_faults
from .kinds import Kind, Version
from .metadata import metadata_faults, metadata_update_faults
from .native_defaults import FILL, GENERATE, REFILL
from .pod_faults import pod_update_faults, spec_faults
from .policy_faults import policy_binding_faults, policy_faults
from .rbac import BINDINGS, binding_faults, binding_update_faults
from .replica_faults import (
    deployment_faults,
    deployment_update_faults,
    stateful_set_faults,
    stateful_set_update_faults,
)


def is_custom(kind: Kind) -> bool:
    """Whether a CustomResourceDefinition installed it."""
    return not kind.strategic and kind.group != crds.GROUP


def filled_new(kind: Kind, version: Version, obj: Json, gates: Gates) -> Json:
    """A new object, as written in `version`, with defaults."""
    if kind.group == crds.GROUP:
        return defaulted(obj, gates)
    if is_custom(kind):
        return mapped(filled(obj, version.structure))
    fill = FILL.get(kind.resource)
    if fill is not None:
        fill(obj)
    return obj


def generate(kind: Kind, obj: Json) -> None:
    """Add generated fields to a new object, which have no field manager."""
    if kind.resource in _WITH_STATUS:
        obj["status"] = {}
    make = GENERATE.get(kind.resource)
    if make is not None:
        make(obj)


def filled_changed(kind: Kind, version: Version, obj: Json, subresource: str) -> Json:
    """An updated object with defaults.

    A write to a subresource contains only that part of the object.
    """
    if kind.group == crds.GROUP:
        return schema_defaulted(obj)
    if is_custom(kind):
        return mapped(filled(obj, version.structure))
    fill = None if subresource else REFILL.get(kind.resource)
    if fill is not None:
        fill(obj)
    return obj


def faults(
    kind: Kind, version: Version, obj: Json, old: Json | None, gates: Gates
) -> list[FieldError]:
    """All faults of the object as written in `version`.

    Parts that are identical in `old` were validated when it was stored.
    """
    found = [] if old is None else [*metadata_update_faults(obj, old)]
    if kind.group == crds.GROUP:
        return [*found, *rules.faults(obj, old, gates)]
    found += metadata_faults(obj, kind, old)
    violations = list(value_faults(obj, version.structure, old))
    found += violations
    # The following rules rely on the schema.
    if not violations and kind.provisional:
        found += job_kind_faults(kind, obj, old)
    if violations or is_custom(kind):
        return found
    if old is not None and "spec" in obj and obj["spec"] is old.get("spec"):
        return found
    if kind.resource in _FAULTS:
        found += introduced(_FAULTS[kind.resource], obj, old)
    if old is None and kind.resource in _NEW_FAULTS:
        found += _NEW_FAULTS[kind.resource](obj)
    if old is not None and kind.resource in _UPDATE_FAULTS:
        found += _UPDATE_FAULTS[kind.resource](obj, old)
    return found


def _pod_faults(pod: Json) -> Iterator[FieldError]:
    yield from spec_faults(mapped(pod.get("spec")))


def _priority_class_update_faults(new: Json, old: Json) -> Iterator[FieldError]:
    for field in ("value", "preemptionPolicy"):
        if new.get(field) != old.get(field):
            yield invalid(field, new.get(field), "field is immutable")


def _immutable_faults(new: Json, old: Json) -> Iterator[FieldError]:
    if dig(old, "immutable") is True:
        for field in ("data", "binaryData"):
            if new.get(field) != old.get(field):
                yield invalid(field, None, "field is immutable when `immutable` is set")


# Clients may read it before a controller has written it.
_WITH_STATUS = frozenset(
    {"jobs.batch", "cronjobs.batch", "deployments.apps", "nodes", "resourcequotas"}
)
_FAULTS: dict[str, Callable[[Json], Iterable[FieldError]]] = {
    "customresourcedefinitions.apiextensions.k8s.io": crd_faults,
    "configmaps": config_map_faults,
    "cronjobs.batch": cron_job_faults,
    "deployments.apps": deployment_faults,
    "events": core_event_faults,
    "events.events.k8s.io": event_faults,
    "jobs.batch": job_faults,
    "statefulsets.apps": stateful_set_faults,
    "pods": _pod_faults,
    BINDINGS: binding_faults,
    "secrets": secret_faults,
    "validatingadmissionpolicies.admissionregistration.k8s.io": policy_faults,
    "validatingadmissionpolicybindings.admissionregistration.k8s.io": policy_binding_faults,
}
_NEW_FAULTS: dict[str, Callable[[Json], Iterable[FieldError]]] = {
    "events.events.k8s.io": new_event_faults,
}
_UPDATE_FAULTS: dict[str, Callable[[Json, Json], Iterable[FieldError]]] = {
    "configmaps": _immutable_faults,
    "deployments.apps": deployment_update_faults,
    "events.events.k8s.io": event_update_faults,
    "jobs.batch": job_update_faults,
    "statefulsets.apps": stateful_set_update_faults,
    "pods": pod_update_faults,
    "priorityclasses.scheduling.k8s.io": _priority_class_update_faults,
    BINDINGS: binding_update_faults,
    "secrets": _immutable_faults,
}
