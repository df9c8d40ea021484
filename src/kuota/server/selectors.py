# SPDX-License-Identifier: Apache-2.0
"""Label selectors and field selectors of list and watch requests.

A field selector compares scalar fields with text: `metadata.name=a,status.phase!=Running`. Any path
may be used; an absent field is the empty text. Backslashes escape `,`, `=` and themselves, as in
Kubernetes' clients.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from typing import Any

import msgspec

from kuota.api.base import Json, Key
from kuota.api.match import SelectorError
from kuota.api.selector import Requirements, parse_selector, selects
from kuota.api.status import bad_request

from .columns import dig
from .requests import Request, RequestTarget

_TERM = re.compile(r"(?:[^\\,]|\\.)+|,|\\", re.S)
_PARTS = re.compile(
    r"(?P<path>(?:[^\\=!]|\\.)*)(?P<operator>!=|==|=)(?P<value>(?:[^\\]|\\.)*)", re.S
)
_PATH = re.compile(r"[A-Za-z0-9_-]+(\.[A-Za-z0-9_/-]+)*")
_ESCAPED = re.compile(r"\\(.)", re.S)
# Selectable field names that differ from the path in the object.
_ALIASES = {
    ("Event", "source"): "source.component",
    ("Job", "status.successful"): "status.succeeded",
}


MOST_FIELD_TERMS = 32
"""The number of requirements of one field selector. No kind has as many selectable fields."""
_ALWAYS = ("metadata.name", "metadata.namespace")
_OF_REFERENCE = ("apiVersion", "fieldPath", "kind", "name", "namespace", "resourceVersion", "uid")
_OF_POD_SPEC = ("hostNetwork", "nodeName", "restartPolicy", "schedulerName", "serviceAccountName")
# Selectable paths, besides those of every kind.
_FIELDS: dict[str, tuple[str, ...]] = {
    "events": (
        *(f"involvedObject.{field}" for field in _OF_REFERENCE),
        *("reason", "reportingComponent", "source", "type"),
    ),
    "events.events.k8s.io": (
        *(f"regarding.{field}" for field in _OF_REFERENCE),
        *("reason", "reportingController", "type"),
    ),
    "jobs.batch": ("status.successful",),
    "namespaces": ("status.phase",),
    "nodes": ("spec.unschedulable",),
    "pods": (
        *(f"spec.{field}" for field in _OF_POD_SPEC),
        *("status.nominatedNodeName", "status.phase", "status.podIP"),
    ),
    "secrets": ("type",),
}
# Paths of fields that have another name in the stored object.
_STORED = {"regarding": "involvedObject", "reportingController": "reportingComponent"}


class FieldRequirement(msgspec.Struct, frozen=True, gc=False):
    """A requirement that a scalar field has, or does not have, this value."""

    path: str
    value: str
    equal: bool = True

    def holds(self, obj: Json) -> bool:
        path = _ALIASES.get((obj.get("kind", ""), self.path), self.path)
        return (_text(obj, path) == self.value) is self.equal


class _Labels(msgspec.Struct, gc=False):
    labels: dict[str, str] | None = None


class _Labelled(msgspec.Struct, gc=False):
    metadata: _Labels


_DECODER = msgspec.json.Decoder(_Labelled)


class Selectors(msgspec.Struct, frozen=True):
    """The label and field requirements of a request; all of them must hold.

    `key` is set if at most one object can match.
    """

    labels: Requirements = ()
    fields: tuple[FieldRequirement, ...] = ()
    key: Key | None = None

    @property
    def everything(self) -> bool:
        """Whether there are no requirements."""
        return not self.labels and not self.fields

    @property
    def name(self) -> str | None:
        """The required name of an object; None if any name matches."""
        names = (each.value for each in self.fields if each.equal and each.path == "metadata.name")
        return next(names, None)

    def matches(self, obj: Json) -> bool:
        """Whether the stored object is selected."""
        if not all(each.holds(obj) for each in self.fields):
            return False
        return not self.labels or selects(self.labels, (obj.get("metadata") or {}).get("labels"))

    def matches_body(self, body: bytes) -> bool:
        """Whether the encoded object is selected. Decodes only what is needed."""
        if self.everything:
            return True
        if self.fields:
            return self.matches(msgspec.json.decode(body))
        return selects(self.labels, _DECODER.decode(body).metadata.labels)


def requested(target: RequestTarget, request: Request) -> Selectors:
    """The selection of the request. Raises StatusError for invalid selectors."""
    known = (*_ALWAYS, *_FIELDS.get(target.kind.resource, ()))
    known += tuple(path.lstrip(".") for path in target.version.selectable)
    try:
        found = selection(
            request.query.get("labelSelector", ""), request.query.get("fieldSelector", ""), known
        )
    except SelectorError as error:
        raise bad_request(str(error)) from None
    fields = tuple(_stored(each) for each in found.fields)
    if target.name:
        fields += (FieldRequirement("metadata.name", target.name),)
    found = Selectors(found.labels, fields)
    if found.name is None or (target.kind.namespaced and not target.namespace):
        return found
    return Selectors(found.labels, fields, Key(target.namespace, found.name))


def _stored(fact: FieldRequirement) -> FieldRequirement:
    head, dot, rest = fact.path.partition(".")
    path = _STORED.get(head, head) + dot + rest
    return FieldRequirement(path, fact.value, fact.equal)


def selection(
    label_selector: str = "", field_selector: str = "", supported: Collection[str] | None = None
) -> Selectors:
    """The selection of two query parameters. Raises SelectorError.

    `supported` contains the selectable paths, None for any.
    """
    return Selectors(parse_selector(label_selector), field_requirements(field_selector, supported))


def field_requirements(
    text: str, supported: Collection[str] | None = None
) -> tuple[FieldRequirement, ...]:
    """Every requirement of a field selector; empty text requires nothing. Raises SelectorError."""
    # Empty terms are ignored, as in Kubernetes.
    terms = [term for term in _TERM.findall(text) if term != ","]
    if len(terms) > MOST_FIELD_TERMS:
        raise SelectorError(f"a field selector has at most {MOST_FIELD_TERMS} requirements")
    found = tuple(_requirement(term, text) for term in terms)
    for each in found:
        if supported is not None and each.path not in supported:
            raise SelectorError(f"field label not supported: {each.path}")
    return found


def _requirement(term: str, text: str) -> FieldRequirement:
    parts = _PARTS.fullmatch(term)
    if parts is None:
        raise SelectorError(f"invalid field selector {text!r}: can't understand {term!r}")
    path, value = parts["path"].strip(), parts["value"]
    if _PATH.fullmatch(path) is None:
        raise SelectorError(f"invalid field selector {text!r}: {path!r} is not a field path")
    if re.search(r"(?<!\\)(?:\\\\)*[=,]", value):
        raise SelectorError(f"invalid field selector {text!r}: unescaped = or , in {value!r}")
    return FieldRequirement(path, _ESCAPED.sub(_unescaped, value), parts["operator"] != "!=")


def _unescaped(found: re.Match[str]) -> str:
    if found[1] not in "\\,=":
        raise SelectorError(f"invalid escape sequence {found[0]!r} in a field selector")
    return found[1]


def _text(obj: Any, path: str) -> str:
    """The scalar at the path as text; "" if there is none."""
    obj = dig(obj, *path.split("."))
    if isinstance(obj, bool):
        return "true" if obj else "false"
    return str(obj) if isinstance(obj, str | int | float) else ""
