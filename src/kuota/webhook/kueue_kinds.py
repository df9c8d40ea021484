# SPDX-License-Identifier: Apache-2.0
"""Reviews of Kueue's own kinds: defaulting and validation.

The API server has already applied the schema and the rules of the CRD. Objects in v1beta1 are
validated as v1beta2, and faults are reported with v1beta1 paths.
"""

from __future__ import annotations

from typing import Any

import msgspec

from kuota.api import kueue, v1beta1
from kuota.api.advice import advice
from kuota.api.authors import author_faults
from kuota.api.base import Json
from kuota.api.convert import convert
from kuota.api.defaults import schema_defaulted, webhook_defaulted
from kuota.api.faults import FieldError
from kuota.api.gates import Gates
from kuota.api.rules import webhook_faults, webhook_warnings
from kuota.api.rules.validation import as_written

from .review import (
    CREATE,
    UNTOUCHED,
    UPDATE,
    AdmissionRequest,
    AdmissionResponse,
    InvalidReview,
    changed,
    judged,
)
from .targets import WebhookTarget

_SHAPES: dict[str, dict[str, Any]] = {
    kueue.V1BETA2: dict(kueue.KINDS),
    v1beta1.V1BETA1: dict(v1beta1.KINDS),
}


def mutation(target: WebhookTarget, request: AdmissionRequest, gates: Gates) -> AdmissionResponse:
    """Return the defaults; raises InvalidReview."""
    created = defaulted(target, request, gates)
    return changed(*created) if created is not None else UNTOUCHED


def defaulted(
    target: WebhookTarget, request: AdmissionRequest, gates: Gates
) -> tuple[Json, Json] | None:
    """Return a new object, and the same with defaults; None for other requests."""
    if request.operation != CREATE or request.sub_resource:
        return None
    obj = _read(target, request.new())
    return obj, webhook_defaulted(obj, gates)


def validation(
    target: WebhookTarget, request: AdmissionRequest, gates: Gates, *, authors: bool = False
) -> AdmissionResponse:
    """Return the faults of a new or changed object, including its status; raises InvalidReview.

    With `authors`, the name of the author cannot be changed.
    """
    if request.operation not in (CREATE, UPDATE):
        return UNTOUCHED
    obj = _read(target, request.new())
    old = _read(target, request.old()) if request.operation == UPDATE else None
    current = _current(obj)
    before = None if old is None else _current(old)
    warnings = [*webhook_warnings(current), *(() if request.sub_resource else advice(current))]
    faults = _faults(obj, current, before, gates)
    if authors and old is not None and not request.sub_resource:
        faults += author_faults(obj, old)
    return judged(request, faults, warnings)


def _faults(obj: Json, current: Json, before: Json | None, gates: Gates) -> list[FieldError]:
    found = webhook_faults(current, before, gates)
    return list(found) if current is obj else list(as_written(found, obj))


def _current(obj: Json) -> Json:
    return obj if obj["apiVersion"] == kueue.V1BETA2 else schema_defaulted(convert(obj, "v1beta2"))


def _read(target: WebhookTarget, obj: Json) -> Json:
    """Decode the object if it is of the expected kind."""
    kind, version = obj.get("kind"), obj.get("apiVersion")
    shapes = _SHAPES.get(version) if isinstance(version, str) else None
    if kind != target.kind or shapes is None:
        said = f"{kind} in {version}"[:200]
        raise InvalidReview(f"expected {target.kind} in {target.group}, not {said}")
    try:
        msgspec.convert(obj, shapes[target.kind])
    except (msgspec.ValidationError, RecursionError) as error:
        raise InvalidReview(f"the {target.kind} cannot be read: {error}") from None
    return obj
