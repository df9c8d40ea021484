# SPDX-License-Identifier: Apache-2.0
"""Rejections of requests as Status objects.

Reasons and codes are Kubernetes', because clients depend on them.
"""

from __future__ import annotations

from .base import Json


def failure_status(code: int, reason: str, message: str, details: Json | None = None) -> Json:
    """Return the Status object of an error response."""
    return {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Failure",
        "message": message,
        "reason": reason,
        **({"details": details} if details else {}),
        "code": code,
    }


class StatusError(Exception):
    """A rejected request. `details` is that of the Status, without empty fields."""

    def __init__(self, code: int, reason: str, message: str, details: Json | None = None) -> None:
        super().__init__(message)
        self.code = code
        self.reason = reason
        self.message = message
        self.details = details or {}

    def status(self) -> Json:
        """The Status object of the response."""
        return failure_status(self.code, self.reason, self.message, self.details)


def bad_request(message: str) -> StatusError:
    return StatusError(400, "BadRequest", message)


def unauthorized(message: str = "Unauthorized") -> StatusError:
    return StatusError(401, "Unauthorized", message)


def not_allowed(message: str) -> StatusError:
    return StatusError(405, "MethodNotAllowed", message)


def unsupported_media(message: str) -> StatusError:
    return StatusError(415, "UnsupportedMediaType", message)


def too_large(message: str) -> StatusError:
    return StatusError(413, "RequestEntityTooLarge", message)


def too_many(message: str) -> StatusError:
    return StatusError(429, "TooManyRequests", message)


def unavailable(message: str) -> StatusError:
    return StatusError(503, "ServiceUnavailable", message)
