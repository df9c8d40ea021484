# SPDX-License-Identifier: Apache-2.0
"""The exceptions that requests to an API server raise, as one hierarchy.

    KubeError
      ConfigError            kubeconfig, certificates or credentials are unusable
      Unreachable            no usable response: refused, reset, truncated, timed out
      WritesSuspended        a write was not sent because this process may not write now
      ApiError               the server responded with an error
        BadRequest  Unauthorized  Forbidden  NotFound  MethodNotAllowed
        Conflict  AlreadyExists  Gone  TooLarge  UnsupportedMediaType  Invalid
        TooManyRequests  ServerError

The reason in the server's Status determines the class. If the reason is unknown, the HTTP status
does.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from kuota.api.base import Json

_MESSAGE_BYTES = 2048
_LONGEST_MESSAGE, _LONGEST_REASON = 32 << 10, 128
"""The most characters of texts in a Status, which appear in conditions, events and logs."""
_LONGEST_WAIT_S = 86_400


class KubeError(Exception):
    """The base class of all errors of this package."""


class ConfigError(KubeError):
    """The settings for reaching a server are invalid; the message says what to change."""


class InvalidName(KubeError, ValueError):
    """A name that cannot be part of a URL; no object has such a name."""


class Unreachable(KubeError):
    """No usable response. `sent` is False only if the server cannot have seen the request.

    With `final`, the client does not try again.
    """

    def __init__(self, message: str, *, sent: bool = True, final: bool = False) -> None:
        super().__init__(message)
        self.sent, self.final = sent, final


class WritesSuspended(KubeError):
    """This process may not write now, for example because it lost its lease."""


_BY_REASON: dict[str, type[ApiError]] = {}
_BY_STATUS: dict[int, type[ApiError]] = {}


class ApiError(KubeError):
    """An error response. `retry_after_s` is None unless the server specified it.

    A subclass declares the reasons that it represents, by default its own name, and the HTTP status
    for unknown reasons.
    """

    def __init_subclass__(cls, *, status: int | None = None, reasons: tuple[str, ...] = ()) -> None:
        _BY_REASON.update(dict.fromkeys(reasons or (cls.__name__,), cls))
        if status is not None:
            _BY_STATUS[status] = cls

    def __init__(
        self,
        status: int,
        reason: str,
        message: str,
        details: Json | None = None,
        *,
        retry_after_s: float | None = None,
    ) -> None:
        super().__init__(f"{message} ({status} {reason})" if reason else f"{message} ({status})")
        self.status = status
        self.reason = reason
        self.message = message
        self.details: Json = details or {}
        self.retry_after_s = retry_after_s

    @property
    def causes(self) -> list[Json]:
        """The errors of single fields, each with `field`, `reason` and `message`."""
        return list(self.details.get("causes") or ())


class BadRequest(ApiError, status=400):
    """400: the request is malformed."""


class Unauthorized(ApiError, status=401):
    """401: the caller is not authenticated."""


class Forbidden(ApiError, status=403):
    """403: the caller is not authorized."""


class NotFound(ApiError, status=404):
    """404: the object or the kind does not exist."""


class MethodNotAllowed(ApiError, status=405):
    """405: the kind does not support this verb."""


class Conflict(ApiError, status=409):
    """409: the object changed since it was read, or another manager owns the field."""


class AlreadyExists(ApiError):
    """409 on create: the object exists."""


class Gone(ApiError, status=410, reasons=("Gone", "Expired")):
    """410: the requested revision was compacted; list again."""


class TooLarge(ApiError, status=413, reasons=("RequestEntityTooLarge",)):
    """413: the request is too large."""


class UnsupportedMediaType(ApiError, status=415):
    """415: the kind does not support this patch type."""


class Invalid(ApiError, status=422):
    """422: the object is invalid; `causes` lists the errors."""


class TooManyRequests(ApiError, status=429):
    """429: the server limits the rate."""


class ServerError(ApiError):
    """5xx: the server failed; the request may or may not have been carried out."""


def response_error(status: int, headers: Mapping[str, str], body: bytes) -> ApiError:
    """Return the error for an HTTP response; `headers` have lower-case names."""
    try:
        said = msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        said = None
    if not isinstance(said, dict) or said.get("kind") != "Status":
        text = body[:_MESSAGE_BYTES].decode(errors="replace").strip()
        said = {"message": text or "the server gave no reason"}
    wait_s = _seconds(headers.get("retry-after"))
    return status_error({**said, "code": status}, retry_after_s=wait_s)


def status_error(said: Json, *, retry_after_s: float | None = None) -> ApiError:
    """Return the error for a Status object, as in an ERROR event of a watch."""
    code = said.get("code")
    status = code if isinstance(code, int) else 500
    reason = str(said.get("reason") or "")[:_LONGEST_REASON]
    details = said.get("details")
    details = details if isinstance(details, dict) else {}
    kind = _BY_REASON.get(reason) or _BY_STATUS.get(status)
    if kind is None:
        kind = ServerError if status >= 500 else ApiError
    wait_s = retry_after_s if retry_after_s is not None else _named_wait(reason, details)
    message = str(said.get("message") or reason or "the server gave no reason")
    return kind(status, reason, message[:_LONGEST_MESSAGE], details, retry_after_s=wait_s)


def _named_wait(reason: str, details: Json) -> float | None:
    """Return the delay in the details, for reasons where it permits a retry."""
    if reason not in ("ServerTimeout", "TooManyRequests", "Timeout"):
        return None
    return _seconds(details.get("retryAfterSeconds"))


def _seconds(value: Any) -> float | None:
    """Parse a delay in whole seconds. An HTTP date is ignored, because clocks differ."""
    try:
        return float(min(max(0, int(value)), _LONGEST_WAIT_S))
    except (TypeError, ValueError, OverflowError):
        return None
