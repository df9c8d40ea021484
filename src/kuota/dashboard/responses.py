# SPDX-License-Identifier: Apache-2.0
"""Responses of the dashboard: JSON, Status objects, and the headers that protect the browser."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec
from aiohttp import web

from kuota.api.base import failure_status
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


class Refusal(Exception):
    """A rejected request: the code, reason and message of its Status."""

    def __init__(self, code: int, reason: str, message: str) -> None:
        super().__init__(message)
        self.code = code
        self.reason = reason
        self.message = message

    def status(self) -> dict[str, Any]:
        """Return the Status object."""
        return failure_status(self.code, self.reason, self.message)


def unauthorized(message: str = "sign in first: `kuota dashboard` prints a link") -> Refusal:
    return Refusal(401, "Unauthorized", message)


def forbidden(message: str) -> Refusal:
    return Refusal(403, "Forbidden", message)


def not_found(message: str) -> Refusal:
    return Refusal(404, "NotFound", message)


def bad_request(message: str) -> Refusal:
    return Refusal(400, "BadRequest", message)


def too_many(message: str) -> Refusal:
    return Refusal(429, "TooManyRequests", message)


def from_kube(error: KubeError) -> Refusal:
    """Return the rejection of the API server as our own."""
    if isinstance(error, ApiError) and 400 <= error.status < 500:
        return Refusal(error.status, error.reason or "BadRequest", error.message)
    return Refusal(503, "ServiceUnavailable", "the API server does not answer; try again")


def refused(refusal: Refusal) -> web.Response:
    response = answered(refusal.status(), refusal.code)
    if refusal.code == 429:
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
