# SPDX-License-Identifier: Apache-2.0
"""Collects the faults and warnings of a set of manifests, including those across manifests."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from enum import StrEnum

import msgspec

from kuota.api.advice import Environment, advice
from kuota.api.base import Json
from kuota.api.config.load import checked
from kuota.api.config.shapes import CONFIG_KEY
from kuota.api.convert import convert
from kuota.api.faults import ErrorType, FieldError, Invalid, invalid, required
from kuota.api.gates import Gates
from kuota.api.kueue import GROUP, KINDS, V1BETA2
from kuota.api.rules import faults, unknown_faults, webhook_warnings
from kuota.api.rules.job_common import queue_name
from kuota.api.rules.references import name_of, namespace_of, reference_findings
from kuota.api.rules.report import child, elements, mapping, string_map, text
from kuota.api.schema import VERSIONS
from kuota.api.structure import suggestion
from kuota.bridge.jobs.ancestor import group_kind
from kuota.bridge.jobs.kind import JobKind, JobWithReferences
from kuota.bridge.jobs.registry import ALL
from kuota.control.checks.registry import controller_names
from kuota.server.misspelt_fields import misspelt_fields
from kuota.server.native_faults import native_faults, native_kind, native_kind_fault

from .manifests import Manifest

CONFIG_GROUP = "config.kueue.x-k8s.io"
_NAMESPACED = frozenset({"Workload", "LocalQueue"})


class Severity(StrEnum):
    ERROR = "error"
    WARNING = "warning"


class Finding(msgspec.Struct, frozen=True, rename="camel"):
    """A fault or warning, with its location in the manifests."""

    file: str
    line: int | None
    kind: str
    namespace: str
    name: str
    path: str
    severity: Severity
    type: str
    message: str
    fix: str

    def __str__(self) -> str:
        """FILE:LINE: KIND/NAME PATH: message. Fix: what to do. LINE is omitted if unknown."""
        subject = " ".join(part for part in (self._object(), self.path) if part)
        word = "warning: " if self.severity is Severity.WARNING else ""
        where = self.file if self.line is None else f"{self.file}:{self.line}"
        parts = [where, subject, f"{word}{_sentence(self.message)}"]
        fix = f" Fix: {_sentence(self.fix)}" if self.fix else ""
        return ": ".join(part for part in parts if part) + fix

    def _object(self) -> str:
        return f"{self.kind}/{self.name}" if self.kind and self.name else self.kind


class CheckResult(msgspec.Struct, frozen=True):
    """The result of a check: findings in the order of the manifests, and counts of objects."""

    findings: list[Finding]
    objects: int
    skipped: int
    unreadable: bool

    @property
    def faults(self) -> int:
        return sum(each.severity is Severity.ERROR for each in self.findings)

    @property
    def warnings(self) -> int:
        return len(self.findings) - self.faults


def inspected(
    manifests: Sequence[Manifest], gates: Gates, *, pulls_images: bool = True
) -> CheckResult:
    """Check the manifests. `pulls_images` is false if only `kuota up` runs them."""
    known = [each for each in manifests if not _foreign(each)]
    found = [
        *_own_findings(known, gates),
        *_warnings(manifests, _environment(manifests, pulls_images)),
        *_repeats(known),
        *_remarks(known),
    ]
    sources = dict.fromkeys(each.source for each in manifests)
    place = {source: number for number, source in enumerate(sources)}
    return CheckResult(
        findings=sorted(found, key=lambda each: (place[each.file], each.line or 0)),
        objects=sum(bool(each.object) for each in known),
        skipped=len(manifests) - len(known),
        unreadable=any(each.unreadable for each in known),
    )


def _foreign(manifest: Manifest) -> bool:
    """Whether the object is not checked: its API group is unknown, or it is not an API object."""
    obj = manifest.object
    if not obj or manifest.faults:
        return False
    api_version, kind = text(obj.get("apiVersion")), text(obj.get("kind"))
    if not api_version or not kind:
        return manifest.found
    if _ours(obj) or _is_configuration(obj) or _job_kind(obj) is not None:
        return False
    return not native_kind(api_version, kind) and not native_kind_fault(api_version, kind)


def _job_kind(obj: Json) -> JobKind | None:
    """Return the job kind of an object, if this is the version that is queued."""
    found = ALL.get(group_kind(obj))
    return found if found is not None and found.api_version == obj.get("apiVersion") else None


def _is_configuration(obj: Json) -> bool:
    return text(obj.get("apiVersion")).partition("/")[0] == CONFIG_GROUP


def _ours(obj: Json) -> bool:
    return text(obj.get("apiVersion")).partition("/")[0] == GROUP


def _own_findings(manifests: Sequence[Manifest], gates: Gates) -> Iterator[Finding]:
    for manifest in manifests:
        for fault in (*manifest.faults, *_faults(manifest.object, gates)):
            yield finding(manifest, fault)


def _warnings(manifests: Sequence[Manifest], environment: Environment) -> Iterator[Finding]:
    for manifest in manifests:
        obj = _current(manifest.object)
        about = (*webhook_warnings(obj), *advice(obj, environment), *misspelt_fields(obj))
        for warning in about:
            yield finding(manifest, warning, Severity.WARNING)


def _environment(manifests: Sequence[Manifest], pulls_images: bool) -> Environment:
    """Return the environment. Nodes and Topologies, if any, are assumed to be complete."""
    objects = [_current(each.object) for each in manifests]
    labels = _keys(objects, "Node", lambda node: string_map(child(node, "metadata", "labels")))
    levels = _keys(objects, "Topology", _levels)
    return Environment(
        queued=frozenset(each.group_kind for each in ALL),
        pulls_images=pulls_images,
        node_labels=lambda: labels,
        topology_levels=lambda: levels,
        check_controllers=controller_names(),
    )


def _keys(
    objects: Sequence[Json], kind: str, keys: Callable[[Json], Iterable[str]]
) -> frozenset[str] | None:
    """Return the union of `keys` over all objects of the kind; None if there are none."""
    found = [obj for obj in objects if obj.get("kind") == kind]
    return frozenset(key for obj in found for key in keys(obj)) if found else None


def _levels(topology: Json) -> Iterator[str]:
    for each in elements(child(topology, "spec").get("levels")):
        yield text(mapping(each).get("nodeLabel"))


def _faults(obj: Json, gates: Gates) -> Iterator[FieldError]:
    if not obj:
        return
    missing = [field for field in ("apiVersion", "kind") if not text(obj.get(field))]
    for field in missing:
        yield required(field, "is missing, so the kind of the object is unknown", f"set {field}")
    if missing:
        return
    if _ours(obj):
        wrong = _kind_fault(obj)
        if wrong is not None:
            yield wrong
            return
        yield from faults(obj, None, gates)
        yield from unknown_faults(obj)
    elif _is_configuration(obj):
        yield from _configuration_faults(json.dumps(obj))
    else:
        yield from _native_faults(obj, gates)


def _kind_fault(obj: Json) -> FieldError | None:
    """Return the fault of a kind or version that does not exist in Kueue; None if it exists."""
    api_version, kind = text(obj.get("apiVersion")), text(obj.get("kind"))
    if api_version not in VERSIONS:
        message = f"Kueue has no version {api_version.partition('/')[2] or '(none)'}"
        return invalid("apiVersion", api_version, message, f"use {V1BETA2}")
    if kind not in KINDS:
        fix = suggestion(kind, KINDS) or f"Kueue has: {', '.join(sorted(KINDS))}"
        return invalid("kind", kind, f'Kueue has no kind "{kind}"', fix)
    return None


def _configuration_faults(content: str) -> tuple[FieldError, ...]:
    """Return the faults of a Kueue configuration file."""
    try:
        checked(content)
    except Invalid as error:
        return error.errors
    return ()


def _native_faults(obj: Json, gates: Gates) -> Iterator[FieldError]:
    """Yield the faults of an object of a Kubernetes kind, by the rules of Kubernetes and Kueue."""
    wrong = native_kind_fault(obj["apiVersion"], obj["kind"])
    if wrong is not None:
        yield wrong
        return
    yield from native_faults(obj)
    kind = _job_kind(obj)
    if kind is not None and not isinstance(kind, JobWithReferences):
        # `native_faults` has already reported fields of the wrong type. Jobs that depend on other
        # objects cannot be checked without them.
        managed = bool(queue_name(obj))
        more = kind.faults(obj, None, gates, managed=managed, default_queue=False)
        yield from (each for each in more if each.type is not ErrorType.TYPE_INVALID)
    if obj["kind"] == "ConfigMap":
        yield from _contained_faults(obj)
    if obj["kind"] == "PriorityClass" and obj.get("value") is None:
        yield required("value", "a priority class needs a whole number", "set value")


def _contained_faults(config_map: Json) -> Iterator[FieldError]:
    """Yield the faults of the Kueue configuration file in a ConfigMap, if it contains one.

    ConfigMaps of other projects have the same key.
    """
    content = string_map(config_map.get("data")).get(CONFIG_KEY, "")
    for each in _configuration_faults(content) if CONFIG_GROUP in content else ():
        path = f"data[{CONFIG_KEY}]" + (f".{each.path}" if each.path else "")
        yield msgspec.structs.replace(each, path=path)


def _namespaced(obj: Json) -> bool:
    native = native_kind(text(obj.get("apiVersion")), text(obj.get("kind")))
    if native is None:
        return obj.get("kind") in _NAMESPACED or _job_kind(obj) is not None
    return native.namespaced


def _current(obj: Json) -> Json:
    """Return the object in the current API version. Objects of unknown kinds are not converted."""
    return convert(obj, "v1beta2") if _ours(obj) and _kind_fault(obj) is None else obj


def _repeats(manifests: Sequence[Manifest]) -> Iterator[Finding]:
    first: dict[tuple[str, str, str], Manifest] = {}
    for manifest in manifests:
        obj = manifest.object
        kind, name = text(obj.get("kind")), name_of(obj)
        if not kind or not name:
            continue
        identity = (kind, namespace_of(obj) if _namespaced(obj) else "", name)
        earlier = first.setdefault(identity, manifest)
        if earlier is not manifest:
            where = f"{earlier.source}:{earlier.line_of('')}"
            message = f"{kind} {name} is given twice, first at {where}; the later one would win"
            fault = FieldError(
                path="metadata.name",
                type=ErrorType.DUPLICATE,
                message=message,
                fix="remove one of them, or rename it",
            )
            yield finding(manifest, fault)


def _remarks(manifests: Sequence[Manifest]) -> Iterator[Finding]:
    for remark in reference_findings([_current(each.object) for each in manifests]):
        yield finding(manifests[remark.index], remark.fault, Severity.WARNING)


def finding(manifest: Manifest, fault: FieldError, severity: Severity = Severity.ERROR) -> Finding:
    kind = text(manifest.object.get("kind"))
    return Finding(
        file=manifest.source,
        line=None if manifest.unreadable else manifest.line_of(fault.path),
        kind=kind,
        namespace=namespace_of(manifest.object) if _namespaced(manifest.object) else "",
        name=name_of(manifest.object),
        path=fault.path,
        severity=severity,
        type=fault.type,
        message=fault.message,
        fix=fault.fix,
    )


def _sentence(words: str) -> str:
    return words if words.endswith((".", "?", "!")) else f"{words}."
