# SPDX-License-Identifier: Apache-2.0
"""Responses of the APIs served here, without a transport."""

from __future__ import annotations

from kuota.api.base import Json
from kuota.api.status import failure_status
from kuota.engine.model import Struct


class ApiResponse(Struct):
    """A response, and its content type if that is not plain JSON."""

    status: int
    body: Json
    content_type: str = "application/json"


def failure(code: int, reason: str, message: str, details: Json | None = None) -> ApiResponse:
    """Return an error as a Status object."""
    return ApiResponse(status=code, body=failure_status(code, reason, message, details or {}))


def method_not_allowed(method: str) -> ApiResponse | None:
    """Return an error for requests that are not reads; None for reads."""
    if method in ("GET", "HEAD"):
        return None
    return failure(405, "MethodNotAllowed", f"{method[:20]} is not served here")


def object_not_found(group: str, plural: str, name: str) -> ApiResponse:
    """Return the error for a missing object. Its details distinguish it from a missing API."""
    singular = plural.removesuffix("s")
    details = {"name": name, "group": group, "kind": singular}
    return failure(404, "NotFound", f'{singular}.{group} "{name}" not found', details)
