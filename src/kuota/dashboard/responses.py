# SPDX-License-Identifier: Apache-2.0
"""Responses of the dashboard: JSON, Status objects, and the headers that protect the browser."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec
from aiohttp import web

from kuota.api.status import StatusError, unavailable
from kuota.kube.errors import ApiError, KubeError

CONTENT_SECURITY_POLICY = "; ".join(
    (
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "img-src 'self' data:",
        "connect-src 'self'",
        "font-src 'self'",
        "manifest-src 'self'",
        "base-uri 'none'",
        "form-action 'self'",
        "frame-ancestors 'none'",
    )
)
SECURITY_HEADERS: Mapping[str, str] = {
    "Content-Security-Policy": CONTENT_SECURITY_POLICY,
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=()",
}
JSON = "application/json"


def forbidden(message: str) -> StatusError:
    return StatusError(403, "Forbidden", message)


def not_found(message: str) -> StatusError:
    return StatusError(404, "NotFound", message)


def from_kube(error: KubeError) -> StatusError:
    """Return the rejection of the API server as our own."""
    if isinstance(error, ApiError) and 400 <= error.status < 500:
        return StatusError(error.status, error.reason or "BadRequest", error.message)
    return unavailable("the API server does not answer; try again")


def refused(error: StatusError) -> web.Response:
    response = answered(error.status(), error.code)
    if error.code == 429:
        response.headers["Retry-After"] = "1"
    return response


def answered(body: object, status: int = 200) -> web.Response:
    """Return a JSON response. No cache stores it."""
    return plain(msgspec.json.encode(body), JSON, status)


def empty() -> web.Response:
    return plain(b"", JSON, 204)


def plain(body: bytes, content_type: str, status: int = 200) -> web.Response:
    headers = {**SECURITY_HEADERS, "Cache-Control": "no-store", "Content-Type": content_type}
    return web.Response(status=status, body=body or None, headers=headers)
