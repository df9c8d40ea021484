# SPDX-License-Identifier: Apache-2.0
"""Which objects a list or watch asks for: label selectors and field selectors.

A field selector compares scalar fields with text: `metadata.name=a,status.phase!=Running`. Any
path may be named; an absent field is the empty text. Backslashes keep `,`, `=` and themselves from
being read as syntax, as Kubernetes' clients write them.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from typing import Any

import msgspec

from kuota.api.base import Json
from kuota.api.match import SelectorError
from kuota.api.selector import Requirements, parse_selector, selects

__all__ = ["FieldRequirement", "Selection", "SelectorError", "field_requirements", "selection"]

_TERM = re.compile(r"(?:[^\\,]|\\.)+|,|\\", re.S)
_PARTS = re.compile(
    r"(?P<path>(?:[^\\=!]|\\.)*)(?P<operator>!=|==|=)(?P<value>(?:[^\\]|\\.)*)", re.S
)
_PATH = re.compile(r"[A-Za-z0-9_-]+(\.[A-Za-z0-9_/-]+)*")
_ESCAPED = re.compile(r"\\(.)", re.S)
# Names that Kubernetes gave to fields which stand elsewhere in the object.
_ALIASES = {
    ("Event", "source"): "source.component",
    ("Job", "status.successful"): "status.succeeded",
}


class FieldRequirement(msgspec.Struct, frozen=True, gc=False):
    """One scalar field that has, or has not, this value."""

    path: str
    value: str
    equal: bool = True

    def holds(self, obj: Json) -> bool:
        path = _ALIASES.get((obj.get("kind", ""), self.path), self.path)
        return (_text(obj, path) == self.value) is self.equal


class Selection(msgspec.Struct, frozen=True, gc=False):
    """What a request selects by labels and by fields; all of it must hold."""

    labels: Requirements = ()
    fields: tuple[FieldRequirement, ...] = ()

    @property
    def everything(self) -> bool:
        """Whether nothing is required."""
        return not self.labels and not self.fields

    @property
    def name(self) -> str | None:
        """The one name that an object must have, None if any will do."""
        return self._required("metadata.name")

    @property
    def namespace(self) -> str | None:
        """The one namespace that an object must be in, None if any will do."""
        return self._required("metadata.namespace")

    def _required(self, path: str) -> str | None:
        return next((f.value for f in self.fields if f.equal and f.path == path), None)

    def matches(self, obj: Json) -> bool:
        """Whether the object is selected."""
        if not all(each.holds(obj) for each in self.fields):
            return False
        return not self.labels or selects(self.labels, (obj.get("metadata") or {}).get("labels"))


def selection(
    label_selector: str = "", field_selector: str = "", supported: Collection[str] | None = None
) -> Selection:
    """The selection of a request's two parameters. Raises SelectorError.

    `supported` are the paths that fields may be selected by, None for any.
    """
    return Selection(parse_selector(label_selector), field_requirements(field_selector, supported))


def field_requirements(
    text: str, supported: Collection[str] | None = None
) -> tuple[FieldRequirement, ...]:
    """Every requirement of a field selector; empty text requires nothing. Raises SelectorError."""
    found = []
    for term in _terms(text):
        requirement = _requirement(term, text)
        if supported is not None and requirement.path not in supported:
            raise SelectorError(f"field label not supported: {requirement.path}")
        found.append(requirement)
    return tuple(found)


def _terms(text: str) -> list[str]:
    """The parts between commas. Empty ones are passed over, as Kubernetes does."""
    return [part for part in _TERM.findall(text) if part != ","]


def _requirement(term: str, text: str) -> FieldRequirement:
    parts = _PARTS.fullmatch(term)
    if parts is None:
        raise SelectorError(f"invalid field selector {text!r}: can't understand {term!r}")
    path, value = parts["path"].strip(), parts["value"]
    if _PATH.fullmatch(path) is None:
        raise SelectorError(f"invalid field selector {text!r}: {path!r} is no path of a field")
    if re.search(r"(?<!\\)(?:\\\\)*[=,]", value):
        raise SelectorError(f"invalid field selector {text!r}: unescaped = or , in {value!r}")
    return FieldRequirement(path, _ESCAPED.sub(_unescaped, value), parts["operator"] != "!=")


def _unescaped(found: re.Match[str]) -> str:
    if found[1] not in "\\,=":
        raise SelectorError(f"invalid escape sequence {found[0]!r} in a field selector")
    return found[1]


def _text(obj: Any, path: str) -> str:
    """The scalar at the path as text; "" where there is none."""
    for name in path.split("."):
        obj = obj.get(name) if isinstance(obj, dict) else None
    if isinstance(obj, bool):
        return "true" if obj else "false"
    return str(obj) if isinstance(obj, str | int | float) else ""
