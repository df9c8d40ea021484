# SPDX-License-Identifier: Apache-2.0
"""Reports references to missing objects and cycles of cohorts in a set of manifests.

Kueue accepts all of these, because objects may be created in any order. The findings are warnings
about manifests that belong together. A missing object is reported only if the set contains other
objects of its kind: a single LocalQueue may reference a ClusterQueue that exists in the cluster.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import msgspec

from ..base import Json
from ..faults import FieldError, invalid, not_found
from ..structure import suggestion
from .job_common import PRIORITY_CLASS, QUEUE_NAME
from .metadata import label, label_path
from .quota import each_flavor
from .report import child, objects, text, texts

DEFAULT_NAMESPACE = "default"
_NAMESPACED = frozenset({"LocalQueue"})
_CHECKS = "spec.admissionChecksStrategy.admissionChecks"


class ReferenceWarning(msgspec.Struct, frozen=True):
    """A warning about the object at `index` of the set."""

    index: int
    fault: FieldError


class _Reference(msgspec.Struct, frozen=True):
    """A field that names another object, and the consequence if that object is missing."""

    path: str
    kind: str
    name: str
    consequence: str


def reference_findings(objects: Sequence[Json]) -> list[ReferenceWarning]:
    """Return the findings about v1beta2 objects and jobs. The order of objects does not matter."""
    names = _names(objects)
    found = [
        ReferenceWarning(index, _missing(reference, obj, names))
        for index, obj in enumerate(objects)
        for reference in _references(obj)
        if _is_missing(reference, obj, names)
    ]
    return found + list(_cycles(objects))


def namespace_of(obj: Json) -> str:
    return text(child(obj, "metadata").get("namespace")) or DEFAULT_NAMESPACE


def name_of(obj: Json) -> str:
    return text(child(obj, "metadata").get("name"))


def _names(objects: Sequence[Json]) -> dict[str, set[tuple[str, str]]]:
    """Return (namespace, name) of all objects by kind; ("", name) if cluster-scoped."""
    names: dict[str, set[tuple[str, str]]] = {}
    for obj in objects:
        kind = text(obj.get("kind"))
        namespace = namespace_of(obj) if kind in _NAMESPACED else ""
        names.setdefault(kind, set()).add((namespace, name_of(obj)))
    return names


def _is_missing(reference: _Reference, obj: Json, names: dict[str, set[tuple[str, str]]]) -> bool:
    namespace = namespace_of(obj) if reference.kind in _NAMESPACED else ""
    known = names.get(reference.kind)
    return bool(known and reference.name) and (namespace, reference.name) not in (known or ())


def _missing(
    reference: _Reference, obj: Json, names: dict[str, set[tuple[str, str]]]
) -> FieldError:
    message = f"no {reference.kind} {reference.name} is given{_where(reference, obj)}"
    known = names[reference.kind]
    elsewhere = [namespace for namespace, name in known if name == reference.name]
    if elsewhere:
        fix = f"there is one in namespace {', '.join(sorted(elsewhere))}"
    else:
        fix = suggestion(reference.name, {name for _, name in known}) or "add it, or rename this"
    return not_found(reference.path, reference.name, f"{message}: {reference.consequence}", fix)


def _where(reference: _Reference, obj: Json) -> str:
    return f" in namespace {namespace_of(obj)}" if reference.kind in _NAMESPACED else ""


def _references(obj: Json) -> Iterator[_Reference]:
    spec = child(obj, "spec")
    match obj.get("kind"):
        case "ClusterQueue":
            yield from _cluster_queue(spec)
        case "Cohort":
            yield from _flavors(spec, "its quota cannot be used")
        case "LocalQueue":
            stuck = "its jobs will wait until it exists"
            yield _Reference(
                "spec.clusterQueue", "ClusterQueue", _text(spec, "clusterQueue"), stuck
            )
        case "ResourceFlavor":
            stuck = "queues that use this flavor stay inactive"
            yield _Reference("spec.topologyName", "Topology", _text(spec, "topologyName"), stuck)
        case "Workload":
            yield _queue("spec.queueName", _text(spec, "queueName"))
        case "Job":
            yield _queue(label_path(QUEUE_NAME), label(obj, QUEUE_NAME) or "")
            yield _Reference(
                label_path(PRIORITY_CLASS),
                "WorkloadPriorityClass",
                label(obj, PRIORITY_CLASS) or "",
                "the job will not be queued until it exists",
            )
        case "AdmissionCheck":
            target = child(spec, "parameters")
            stuck = "the check, and queues that use it, stay inactive"
            kind, name = _text(target, "kind"), _text(target, "name")
            yield _Reference("spec.parameters.name", kind, name, stuck)
        case "MultiKueueConfig":
            for index, name in enumerate(texts(spec.get("clusters"))):
                stuck = "nothing will be sent there"
                yield _Reference(f"spec.clusters[{index}]", "MultiKueueCluster", name, stuck)


def _cluster_queue(spec: Json) -> Iterator[_Reference]:
    inactive = "the queue stays inactive and admits nothing"
    yield from _flavors(spec, inactive)
    checks = child(spec, "admissionChecksStrategy").get("admissionChecks")
    for path, each in objects(checks, _CHECKS):
        yield _Reference(f"{path}.name", "AdmissionCheck", _text(each, "name"), inactive)


def _flavors(spec: Json, consequence: str) -> Iterator[_Reference]:
    for _, _, path, flavor in each_flavor(spec):
        yield _Reference(f"{path}.name", "ResourceFlavor", _text(flavor, "name"), consequence)


def _queue(path: str, name: str) -> _Reference:
    return _Reference(path, "LocalQueue", name, "it will wait until the queue exists")


def _text(node: Json, field: str) -> str:
    return text(node.get(field))


def _cycles(objects: Sequence[Json]) -> Iterator[ReferenceWarning]:
    """Yield one finding for each Cohort that is its own ancestor."""
    parents = {
        name_of(obj): _text(child(obj, "spec"), "parentName")
        for obj in objects
        if obj.get("kind") == "Cohort"
    }
    for index, obj in enumerate(objects):
        circle = _circle(name_of(obj), parents) if obj.get("kind") == "Cohort" else []
        if circle:
            way = " > ".join([*circle, circle[0]])
            message = f"cohorts form a cycle ({way}): Kueue admits nothing in any of them"
            fix = "remove parentName from the one that should be at the top"
            yield ReferenceWarning(
                index, invalid("spec.parentName", parents[circle[0]], message, fix)
            )


def _circle(start: str, parents: dict[str, str]) -> list[str]:
    """Return the path from `start` up to itself, or an empty list if there is no such cycle."""
    way = [start]
    while (parent := parents.get(way[-1], "")) and parent not in way:
        way.append(parent)
    return way if parent == start else []
