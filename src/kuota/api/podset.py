# SPDX-License-Identifier: Apache-2.0
"""Injects admissions into pod templates, removes them again, and compares pod sets."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from .base import Json, Struct
from .core import PodTemplateSpec, TemplateMeta, Toleration
from .kueue import ResourceFlavor
from .match import same_toleration
from .quantity import QuantityError, parse
from .rules.report import child
from .workload import PodSet, PodSetAssignment, PodSetUpdate

WORKLOAD_ANNOTATION = "kueue.x-k8s.io/workload"
SLICE_ANNOTATION = "kueue.x-k8s.io/workload-slice-name"
TOPOLOGY_GATE = "kueue.x-k8s.io/topology"
UNCONSTRAINED = "kueue.x-k8s.io/podset-unconstrained-topology"


class FlavorMissing(LookupError):
    """Raised if an assignment names a flavor that does not exist."""

    kind = "ResourceFlavor"

    def __init__(self, name: str) -> None:
        super().__init__(f'resource flavor "{name}" not found')
        self.name = name


class MergeConflict(ValueError):
    """Raised if the template conflicts with the injection. A retry cannot succeed."""


class Injection(Struct):
    """What is injected into one pod set: the number of pods, and scheduling constraints."""

    name: str = ""
    count: int = 0
    labels: dict[str, str] | None = None
    annotations: dict[str, str] | None = None
    node_selector: dict[str, str] | None = None
    tolerations: list[Toleration] | None = None
    scheduling_gates: list[Json] | None = None


def injection(
    assignment: PodSetAssignment,
    pod_set: PodSet,
    flavors: Mapping[str, ResourceFlavor],
    *,
    topology: bool = True,
) -> Injection:
    """Return the injection of the assigned flavors, each once, in order of resource names.

    With `topology`, a topology assignment adds the scheduling gate that holds pods until their
    nodes are known.
    """
    selector: dict[str, str] = {}
    tolerations: list[Toleration] = []
    assigned = assignment.flavors or {}
    for name in dict.fromkeys(assigned[resource] for resource in sorted(assigned)):
        if name not in flavors:
            raise FlavorMissing(name)
        selector |= flavors[name].spec.node_labels or {}
        tolerations += flavors[name].spec.tolerations or ()
    placed = topology and assignment.topology_assignment is not None
    return Injection(
        name=assignment.name,
        count=pod_set.count if assignment.count is None else assignment.count,
        node_selector=selector,
        tolerations=tolerations,
        annotations={UNCONSTRAINED: "true"} if placed and not _asks_topology(pod_set) else None,
        scheduling_gates=[{"name": TOPOLOGY_GATE}] if placed else None,
    )


def _asks_topology(pod_set: PodSet) -> bool:
    request = pod_set.topology_request
    return request is not None and not (
        request.required is None and request.preferred is None and request.unconstrained is None
    )


def labelled(into: Injection, label: str, value: str) -> Injection:
    """Return the injection with this label, replacing an earlier value."""
    return msgspec.structs.replace(into, labels={**(into.labels or {}), label: value})


def joined(into: Injection, update: PodSetUpdate) -> Injection:
    """Return the injection with an admission check's update. Raises MergeConflict."""
    return msgspec.structs.replace(
        into,
        labels=_union("labels", into.labels, update.labels),
        annotations=_union("annotations", into.annotations, update.annotations),
        node_selector=_union("nodeSelector", into.node_selector, update.node_selector),
        tolerations=_tolerations(into.tolerations, update.tolerations),
    )


def merged(template: PodTemplateSpec, added: Injection, *, elastic: bool = True) -> PodTemplateSpec:
    """Return the template with the injection. Raises MergeConflict if they disagree.

    The next slice of an elastic job takes over pods of the previous one, so its workload and slice
    annotations replace the old ones. `elastic` is the gate ElasticJobsViaWorkloadSlices. Without
    it, different annotations conflict.
    """
    spec, annotations = template.spec, template.metadata.annotations
    if elastic and SLICE_ANNOTATION in (added.annotations or {}):
        stale = (WORKLOAD_ANNOTATION, SLICE_ANNOTATION)
        annotations = {k: v for k, v in (annotations or {}).items() if k not in stale}
    meta = TemplateMeta(
        labels=_union("labels", template.metadata.labels, added.labels),
        annotations=_union("annotations", annotations, added.annotations),
    )
    gates = [
        *(spec.scheduling_gates or ()),
        *(
            each
            for each in added.scheduling_gates or ()
            if each not in (spec.scheduling_gates or ())
        ),
    ]
    spec = msgspec.structs.replace(
        spec,
        node_selector=_union("nodeSelector", spec.node_selector, added.node_selector),
        tolerations=_tolerations(spec.tolerations, added.tolerations),
        scheduling_gates=gates or None,
    )
    return PodTemplateSpec(metadata=meta, spec=spec)


def _union(
    field: str, own: dict[str, str] | None, added: dict[str, str] | None
) -> dict[str, str] | None:
    if not added:
        return own
    for key, value in added.items():
        if own and own.get(key, value) != value:
            raise MergeConflict(f"{field}: {key} is {own[key]!r} already, cannot become {value!r}")
    return {**(own or {}), **added}


def _tolerations(
    own: list[Toleration] | None, added: Iterable[Toleration] | None
) -> list[Toleration] | None:
    result = list(own or ())
    for each in added or ():
        if not any(same_toleration(each, other) for other in result):
            result.append(each)
    return result or None


def equivalent(
    some: list[Json] | None, others: list[Json] | None, *, ignore_tolerations: bool = False
) -> bool:
    """Whether two lists of pod sets run the same pods: equal counts, containers and tolerations.

    The arguments are undecoded JSON, because images and commands are compared. Names, labels and
    placement are ignored. Quantities are compared by value, and empty equals absent.
    """
    a, b = some or [], others or []
    return len(a) == len(b) and all(
        _essence(x, ignore_tolerations) == _essence(y, ignore_tolerations)
        for x, y in zip(a, b, strict=True)
    )


_DEFAULTS: Json = {"protocol": "TCP", "optional": False}
"""What the API server adds to the containers of a Workload, but not to jobs without a schema."""


def _essence(pod_set: Json, ignore_tolerations: bool) -> Json:
    spec = child(pod_set, "template", "spec")
    fields = ("containers", "initContainers") + (() if ignore_tolerations else ("tolerations",))
    essence = {field: _plain(spec.get(field)) for field in fields}
    return essence | {"count": pod_set.get("count") or 0, "minCount": pod_set.get("minCount")}


def _plain(value: Any, inside: str = "") -> Any:
    """Return the value without empty parts, with quantities as integers."""
    if isinstance(value, dict):
        plain = {key: _plain(each, "" if _amounts(inside) else key) for key, each in value.items()}
        if _amounts(inside):
            plain = {key: _number(each) for key, each in plain.items()}
        return {
            key: each
            for key, each in plain.items()
            if (each or each == 0) and _DEFAULTS.get(key) != each
        } or None
    if isinstance(value, list):
        return [_plain(each) for each in value] or None
    return value or None


def _amounts(field: str) -> bool:
    return field in ("requests", "limits")


def _number(value: Any) -> Any:
    try:
        return parse(value or 0)
    except (QuantityError, TypeError):
        return value
