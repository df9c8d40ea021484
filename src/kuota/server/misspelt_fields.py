# SPDX-License-Identifier: Apache-2.0
"""Warns about misspelt fields of job kinds of other projects.

Their definitions here are minimal, so fields that are not defined are stored and not rejected. Of
these, only fields that resemble a defined one are reported.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterator

from kuota.api.base import Json
from kuota.api.faults import FieldError, invalid

from .job_kinds import DEFINITIONS

_SIMILAR = 0.85
_SPECS = {(f"{each.group}/{each.version}", each.kind): each.spec for each in DEFINITIONS}


def misspelt_fields(obj: Json) -> Iterator[FieldError]:
    """Yield a warning for each field of the spec that has no effect and resembles one that does."""
    schema = _SPECS.get((str(obj.get("apiVersion")), str(obj.get("kind"))))
    if schema is not None:
        yield from _inside(obj.get("spec"), schema, "spec")


def _inside(value: object, schema: Json, path: str) -> Iterator[FieldError]:
    if isinstance(value, list):
        for number, each in enumerate(value):
            yield from _inside(each, schema.get("items") or {}, f"{path}[{number}]")
    if not isinstance(value, dict):
        return
    known = schema.get("properties") or {}
    for name, each in value.items():
        if name in known:
            yield from _inside(each, known[name], f"{path}.{name}")
        elif "additionalProperties" in schema:
            yield from _inside(each, schema["additionalProperties"], f"{path}[{name}]")
        else:
            absent = [field for field in known if field not in value]
            for meant in difflib.get_close_matches(str(name), absent, n=1, cutoff=_SIMILAR):
                message = f"Kuota does not know the field {name}, and ignores it"
                yield invalid(f"{path}.{name}", name, message, f"did you mean {meant}?")
