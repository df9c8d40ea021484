# SPDX-License-Identifier: Apache-2.0
"""Defaults and faults by kind: which rules hold for Kubernetes' kinds, Kueue's and custom ones."""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterable, Iterator

from kuota.api import crds, rules
from kuota.api.base import Json
from kuota.api.defaults import defaulted, schema_defaulted
from kuota.api.faults import FieldError
from kuota.api.gates import Gates
from kuota.api.structure import filled, value_faults

from .columns import dig, mapped
from .crd import crd_faults, fill_crd
from .job_faults import cron_job_faults, job_faults, job_update_faults
from .kinds import Kind, Version
from .metadata import metadata_faults, metadata_update_faults
from .native_defaults import (
    fill_cron_job,
    fill_job,
    fill_job_spec,
    fill_pod,
    fill_spec,
    generate_job,
    generate_pod,
)
from .pod_faults import pod_update_faults, spec_faults, wrong


def is_custom(kind: Kind) -> bool:
    """Whether a CustomResourceDefinition installed it."""
    return not kind.strategic and kind.group != crds.GROUP


def filled_new(kind: Kind, version: Version, obj: Json, gates: Gates) -> Json:
    """A new object, as written in `version`, with what the server fills in."""
    if kind.group == crds.GROUP:
        return defaulted(obj, gates)
    if is_custom(kind):
        return mapped(filled(obj, version.structure))
    fill = _FILL.get(kind.resource)
    if fill is not None:
        fill(obj)
    return obj


def generate(kind: Kind, obj: Json) -> None:
    """Add to a new object what the server makes up, and nobody is said to have written."""
    if kind.resource in _WITH_STATUS:
        obj["status"] = {}
    make = _GENERATE.get(kind.resource)
    if make is not None:
        make(obj)


def filled_changed(kind: Kind, version: Version, obj: Json, subresource: str) -> Json:
    """An updated object with what the server fills in at every write.

    Of a write to a subresource, only that part of the object is at hand.
    """
    if kind.group == crds.GROUP:
        return schema_defaulted(obj)
    if is_custom(kind):
        return mapped(filled(obj, version.structure))
    fill = None if subresource else _REFILL.get(kind.resource)
    if fill is not None:
        fill(obj)
    return obj


def faults(
    kind: Kind, version: Version, obj: Json, old: Json | None, gates: Gates
) -> list[FieldError]:
    """Everything that keeps the object, as written in `version`, from being stored.

    Parts that are the very same as in `old` were checked when that was stored.
    """
    found = [] if old is None else [*metadata_update_faults(obj, old)]
    if kind.group == crds.GROUP:
        return [*found, *rules.faults(obj, old, gates)]
    found += metadata_faults(obj, kind, old)
    found += value_faults(obj, version.structure, old)
    # What the rules below read must be as the schema says, or they would trip over it.
    if found or is_custom(kind):
        return found
    if old is not None and "spec" in obj and obj["spec"] is old.get("spec"):
        return found
    if kind.resource in _FAULTS:
        found += _FAULTS[kind.resource](obj)
    if old is not None and kind.resource in _UPDATE_FAULTS:
        found += _UPDATE_FAULTS[kind.resource](obj, old)
    return found


def _fill_namespace(namespace: Json) -> None:
    metadata = namespace["metadata"]
    metadata["labels"] = mapped(metadata.get("labels")) | {
        "kubernetes.io/metadata.name": metadata.get("name", "")
    }


def _generate_namespace(namespace: Json) -> None:
    namespace["spec"] = {"finalizers": ["kubernetes"]}
    namespace["status"] = {"phase": "Active"}


def _fill_secret(secret: Json) -> None:
    secret.setdefault("type", "Opaque")
    plain = secret.pop("stringData", None)
    for name, value in mapped(plain).items():
        coded = base64.b64encode(str(value).encode(errors="surrogatepass")).decode()
        secret.setdefault("data", {})[name] = coded


def _fill_priority_class(priority_class: Json) -> None:
    priority_class.setdefault("preemptionPolicy", "PreemptLowerPriority")
    priority_class.setdefault("value", 0)


def _fill_limit_range(limit_range: Json) -> None:
    """A container's limit is by default its maximum, and its request its limit or its minimum."""
    for item in mapped(limit_range.get("spec")).get("limits") or ():
        if item.get("type") != "Container":
            continue
        limits = mapped(item.get("max")) | mapped(item.get("default"))
        requests = mapped(item.get("min")) | limits | mapped(item.get("defaultRequest"))
        for field, amounts in (("default", limits), ("defaultRequest", requests)):
            if amounts:
                item[field] = amounts


def _fill_service(service: Json) -> None:
    spec = service.setdefault("spec", {})
    spec.setdefault("type", "ClusterIP")
    spec.setdefault("sessionAffinity", "None")
    for port in spec.get("ports") or ():
        port.setdefault("protocol", "TCP")
        port.setdefault("targetPort", port.get("port"))


def _refill_pod(pod: Json) -> None:
    fill_spec(pod.setdefault("spec", {}))


def _refill_job(job: Json) -> None:
    fill_job_spec(job.setdefault("spec", {}))


def _pod_faults(pod: Json) -> Iterator[FieldError]:
    yield from spec_faults(mapped(pod.get("spec")))


def _priority_class_update_faults(new: Json, old: Json) -> Iterator[FieldError]:
    for field in ("value", "preemptionPolicy"):
        if new.get(field) != old.get(field):
            yield wrong(field, new.get(field), "field is immutable")


def _immutable_faults(new: Json, old: Json) -> Iterator[FieldError]:
    if dig(old, "immutable") is True:
        for field in ("data", "binaryData"):
            if new.get(field) != old.get(field):
                yield wrong(field, None, "field is immutable when `immutable` is set")


_FILL: dict[str, Callable[[Json], None]] = {
    "customresourcedefinitions.apiextensions.k8s.io": fill_crd,
    "cronjobs.batch": fill_cron_job,
    "jobs.batch": fill_job,
    "limitranges": _fill_limit_range,
    "namespaces": _fill_namespace,
    "pods": fill_pod,
    "priorityclasses.scheduling.k8s.io": _fill_priority_class,
    "secrets": _fill_secret,
    "services": _fill_service,
}
# Clients read it before any controller has written it, as they may of a real server's objects.
_WITH_STATUS = frozenset({"jobs.batch", "cronjobs.batch", "nodes", "resourcequotas"})
_GENERATE: dict[str, Callable[[Json], None]] = {
    "jobs.batch": generate_job,
    "namespaces": _generate_namespace,
    "pods": generate_pod,
}
_REFILL: dict[str, Callable[[Json], None]] = {
    "customresourcedefinitions.apiextensions.k8s.io": fill_crd,
    "cronjobs.batch": fill_cron_job,
    "jobs.batch": _refill_job,
    "limitranges": _fill_limit_range,
    "namespaces": _fill_namespace,
    "pods": _refill_pod,
    "priorityclasses.scheduling.k8s.io": _fill_priority_class,
    "secrets": _fill_secret,
    "services": _fill_service,
}
_FAULTS: dict[str, Callable[[Json], Iterable[FieldError]]] = {
    "customresourcedefinitions.apiextensions.k8s.io": crd_faults,
    "cronjobs.batch": cron_job_faults,
    "jobs.batch": job_faults,
    "pods": _pod_faults,
}
_UPDATE_FAULTS: dict[str, Callable[[Json, Json], Iterable[FieldError]]] = {
    "configmaps": _immutable_faults,
    "jobs.batch": job_update_faults,
    "pods": pod_update_faults,
    "priorityclasses.scheduling.k8s.io": _priority_class_update_faults,
    "secrets": _immutable_faults,
}
