# SPDX-License-Identifier: Apache-2.0
"""Validates pods and pod templates, and updates of pods."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from kuota.api import names
from kuota.api.base import Json
from kuota.api.faults import (
    ErrorType,
    FieldError,
    duplicate,
    forbidden,
    invalid,
    required,
)
from kuota.api.rules.metadata import annotation_faults, label_faults
from kuota.api.rules.processes import process_faults
from kuota.api.rules.volumes import user_faults, volume_faults

from .amount_faults import container_amount_faults, pod_amount_faults
from .columns import dig, listed, mapped

_RESTART = ("Always", "OnFailure", "Never")
_OPERATORS = ("", "Equal", "Exists", "Gt", "Lt")
_EFFECTS = ("", "NoSchedule", "PreferNoSchedule", "NoExecute")
_STRENGTHS = ("required", "preferred")
_SELECTION = ("In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt")
_FIELD = re.compile(
    r"metadata\.(name|namespace|uid|(labels|annotations)\['[^']+'\])"
    r"|spec\.(nodeName|serviceAccountName)|status\.(hostIP|podIP)s?"
)
_NO_FIELD = (
    "is not supported here; supported fields are metadata.name, .namespace, .uid, "
    ".labels['KEY'] and .annotations['KEY'], spec.nodeName and .serviceAccountName, "
    "status.hostIP and .podIP"
)
_MAX_INT32 = 2**31 - 1
_FREE = ("activeDeadlineSeconds", "terminationGracePeriodSeconds", "tolerations")
_FREE_WHILE_GATED = ("schedulingGates", "nodeSelector", "affinity")


def missing(path: str) -> FieldError:
    return required(path, "must be set")


def unsupported(path: str, value: Any, known: tuple[str, ...]) -> FieldError:
    words = ", ".join(f'"{each}"' for each in known if each)
    message = f"supported values: {words}"
    return FieldError(path=path, type=ErrorType.NOT_SUPPORTED, message=message, value=value)


def template_faults(template: Json, path: str, restart: tuple[str, ...]) -> Iterator[FieldError]:
    metadata = mapped(template.get("metadata"))
    yield from label_faults(metadata.get("labels"), f"{path}.metadata.labels")
    yield from annotation_faults(metadata.get("annotations"), f"{path}.metadata.annotations")
    yield from spec_faults(mapped(template.get("spec")), f"{path}.spec", restart)


def spec_faults(
    spec: Json, path: str = "spec", restart: tuple[str, ...] = _RESTART
) -> Iterator[FieldError]:
    if not listed(spec.get("containers")):
        yield missing(f"{path}.containers")
    if spec.get("restartPolicy") not in restart:
        yield unsupported(f"{path}.restartPolicy", spec.get("restartPolicy"), restart)
    seen: set[str] = set()
    for field in ("initContainers", "containers"):
        for at, container in enumerate(listed(spec.get(field))):
            yield from _container_faults(container, f"{path}.{field}[{at}]", seen)
    yield from pod_amount_faults(spec, path)
    yield from volume_faults(spec, path)
    yield from user_faults(spec, path)
    yield from process_faults(spec, path)
    if listed(spec.get("ephemeralContainers")):
        yield forbidden(f"{path}.ephemeralContainers", "cannot be set on create")
    for at, toleration in enumerate(listed(spec.get("tolerations"))):
        yield from _toleration_faults(toleration, f"{path}.tolerations[{at}]")
    yield from label_faults(spec.get("nodeSelector"), f"{path}.nodeSelector")
    yield from _node_affinity_faults(spec, path)
    if (dig(spec, "terminationGracePeriodSeconds") or 0) < 0:
        value = spec["terminationGracePeriodSeconds"]
        yield invalid(f"{path}.terminationGracePeriodSeconds", value, "must be 0 or more")
    limit_s = spec.get("activeDeadlineSeconds")
    if limit_s is not None and not 1 <= limit_s <= _MAX_INT32:
        message = f"must be between 1 and {_MAX_INT32}, inclusive"
        yield invalid(f"{path}.activeDeadlineSeconds", limit_s, message, "remove it for no limit")


def _container_faults(container: Json, path: str, seen: set[str]) -> Iterator[FieldError]:
    name = container.get("name") or ""
    if not name:
        yield missing(f"{path}.name")
    elif name in seen:
        yield duplicate(f"{path}.name", name, "is taken")
    else:
        yield from (invalid(f"{path}.name", name, each) for each in names.dns_label(name))
    seen.add(name)
    if not container.get("image"):
        yield missing(f"{path}.image")
    for at, variable in enumerate(listed(container.get("env"))):
        field = dig(variable, "valueFrom", "fieldRef", "fieldPath")
        if field is not None and not _FIELD.fullmatch(str(field)):
            yield invalid(f"{path}.env[{at}].valueFrom.fieldRef.fieldPath", field, _NO_FIELD)
    yield from container_amount_faults(container, path)


def _node_affinity_faults(spec: Json, path: str) -> Iterator[FieldError]:
    """Reject unknown operators, which would match no node and leave the pod pending forever."""
    affinity = mapped(dig(spec, "affinity", "nodeAffinity"))
    hard, soft = (f"{each}DuringSchedulingIgnoredDuringExecution" for each in _STRENGTHS)
    under = f"{path}.affinity.nodeAffinity"
    terms = [
        (f"{under}.{hard}.nodeSelectorTerms[{at}]", each)
        for at, each in enumerate(listed(dig(affinity, hard, "nodeSelectorTerms")))
    ]
    terms += [
        (f"{under}.{soft}[{at}].preference", mapped(each.get("preference")))
        for at, each in enumerate(listed(affinity.get(soft)))
    ]
    for where, term in terms:
        for field in ("matchExpressions", "matchFields"):
            for at, each in enumerate(listed(term.get(field))):
                if each.get("operator") not in _SELECTION:
                    place = f"{where}.{field}[{at}].operator"
                    yield unsupported(place, each.get("operator"), _SELECTION)


def _toleration_faults(toleration: Json, path: str) -> Iterator[FieldError]:
    operator, effect = toleration.get("operator") or "", toleration.get("effect") or ""
    if operator not in _OPERATORS:
        yield unsupported(f"{path}.operator", operator, _OPERATORS)
    if effect not in _EFFECTS:
        yield unsupported(f"{path}.effect", effect, _EFFECTS)
    if not toleration.get("key") and operator != "Exists":
        yield invalid(f"{path}.operator", operator, "must be Exists when there is no key")


def pod_update_faults(new: Json, old: Json) -> Iterator[FieldError]:
    """Allow only the updates that Kubernetes allows. A node is set by binding, not by update."""
    before, after = mapped(old.get("spec")), mapped(new.get("spec"))
    free: tuple[str, ...] = _FREE
    if listed(before.get("schedulingGates")):
        free += _FREE_WHILE_GATED
    if _fixed(before, free) != _fixed(after, free):
        yield forbidden(
            "spec",
            "pod updates may not change fields other than images, activeDeadlineSeconds, "
            "terminationGracePeriodSeconds and tolerations",
        )
    gates = [each.get("name") for each in listed(before.get("schedulingGates"))]
    for at, gate in enumerate(listed(after.get("schedulingGates"))):
        if gate.get("name") not in gates:
            yield forbidden(f"spec.schedulingGates[{at}]", "gates can only be taken away")
    kept = listed(after.get("tolerations"))
    if any(each not in kept for each in listed(before.get("tolerations"))):
        yield forbidden("spec.tolerations", "tolerations can only be added")


def _fixed(spec: Json, free: tuple[str, ...]) -> Json:
    kept = {name: value for name, value in spec.items() if name not in free}
    for field in ("initContainers", "containers"):
        if field in kept:
            kept[field] = [mapped(each) | {"image": ""} for each in listed(kept[field])]
    return kept
