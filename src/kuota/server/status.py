# SPDX-License-Identifier: Apache-2.0
"""Rejections that name an object or a kind, in Kubernetes' words. See `kuota.api.status`."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec

from kuota.api.base import Json
from kuota.api.faults import ErrorType, FieldError
from kuota.api.status import StatusError, too_large

from .kinds import Kind

_WORDS = {
    ErrorType.REQUIRED: "Required value",
    ErrorType.INVALID: "Invalid value",
    ErrorType.FORBIDDEN: "Forbidden",
    ErrorType.NOT_SUPPORTED: "Unsupported value",
    ErrorType.NOT_FOUND: "Not found",
    ErrorType.DUPLICATE: "Duplicate value",
    ErrorType.TOO_MANY: "Too many",
    ErrorType.TOO_LONG: "Too long",
    ErrorType.TYPE_INVALID: "Invalid value",
    ErrorType.INTERNAL: "Internal error",
}
_WITHOUT_VALUE = frozenset(
    {ErrorType.REQUIRED, ErrorType.FORBIDDEN, ErrorType.TOO_LONG, ErrorType.INTERNAL}
)
_LONGEST_VALUE = 200
_MODIFIED = (
    "the object has been modified; please apply your changes to the latest version and try again"
)


SUCCESS: Json = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success"}


def deleted(kind: Kind, name: str = "", uid: str = "") -> Json:
    """The Status for a completed deletion."""
    return SUCCESS | {"details": _details(kind, name) | ({"uid": uid} if uid else {})}


def _details(kind: Kind, name: str) -> Json:
    parts = {"name": name, "group": kind.group, "kind": kind.plural}
    return {key: value for key, value in parts.items() if value}


def not_found(kind: Kind, name: str) -> StatusError:
    message = f'{kind.resource} "{name}" not found'
    return StatusError(404, "NotFound", message, _details(kind, name))


def no_such_path() -> StatusError:
    return StatusError(404, "NotFound", "the server could not find the requested resource")


def already_exists(kind: Kind, name: str) -> StatusError:
    message = f'{kind.resource} "{name}" already exists'
    return StatusError(409, "AlreadyExists", message, _details(kind, name))


def conflict(kind: Kind, name: str, why: str = "") -> StatusError:
    message = f'Operation cannot be fulfilled on {kind.resource} "{name}": {why or _MODIFIED}'
    return StatusError(409, "Conflict", message, _details(kind, name))


def forbidden(kind: Kind, name: str, why: str, causes: list[Json] | None = None) -> StatusError:
    what = f'{kind.resource} "{name}"' if name else kind.resource
    message = f"{what} is forbidden: {why}"
    details = _details(kind, name) | ({"causes": causes} if causes else {})
    return StatusError(403, "Forbidden", message, details)


def expired(message: str) -> StatusError:
    return StatusError(410, "Expired", message)


def body_too_large(limit: int) -> StatusError:
    return too_large(f"limit is {limit}")


def invalid(kind: Kind, name: str, faults: Iterable[FieldError]) -> StatusError:
    """The rejection of an invalid object. Every fault is in the message and in the causes."""
    causes = [_cause(each) for each in faults]
    said = [f"{each['field']}: {each['message']}" for each in causes]
    whole = said[0] if len(said) == 1 else f"[{', '.join(said)}]"
    qualified = f"{kind.kind}.{kind.group}" if kind.group else kind.kind
    details = _details(kind, name) | {"kind": kind.kind, "causes": causes}
    return StatusError(422, "Invalid", f'{qualified} "{name}" is invalid: {whole}', details)


def _cause(fault: FieldError) -> Json:
    words = _WORDS[fault.type]
    value = "" if fault.type in _WITHOUT_VALUE else f": {_shown(fault.value)}"
    message = f"{words}{value}: {fault.message}" + (f" ({fault.fix})" if fault.fix else "")
    return {"reason": str(fault.type), "message": message, "field": fault.path or "<nil>"}


def _shown(value: Any) -> str:
    try:
        text = msgspec.json.encode(value).decode()
    except (TypeError, ValueError):
        text = repr(value)
    return text if len(text) <= _LONGEST_VALUE else text[:_LONGEST_VALUE] + "…"
