# SPDX-License-Identifier: Apache-2.0
"""What can go wrong between us and an API server, as one tree of exceptions.

    KubeError
      ConfigError            kubeconfig, certificates or credentials are unusable
      Unreachable            no answer: refused, reset, cut off, too slow
      NotWriting             a write was held back because this process may not write now
      ApiError               the server answered with a failure
        BadRequest  Unauthorized  Forbidden  NotFound  MethodNotAllowed
        Conflict  AlreadyExists  Gone  TooLarge  UnsupportedMediaType  Invalid
        TooManyRequests  ServerError

The reason in the server's Status decides the class; its HTTP code where the reason is unknown.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from kuota.api.base import Json

_MESSAGE_BYTES = 2048


class KubeError(Exception):
    """Root of everything this package raises on purpose."""


class ConfigError(KubeError):
    """The settings for reaching a server cannot be used; the message says what to change."""


class Unreachable(KubeError):
    """No usable answer came. `sent` is False only when the server cannot have seen the request."""

    def __init__(self, message: str, *, sent: bool = True) -> None:
        super().__init__(message)
        self.sent = sent


class WritesSuspended(KubeError):
    """This process may not write at present, for example because it lost its lease."""


_BY_REASON: dict[str, type[ApiError]] = {}
_BY_STATUS: dict[int, type[ApiError]] = {}


class ApiError(KubeError):
    """The server's refusal. `retry_after_s` is None unless the server named a time.

    A subclass says which reasons it stands for, if not its own name, and which HTTP code stands for
    it where the reason is unknown.
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
        """The faults of single fields, each with `field`, `reason` and `message`."""
        return list(self.details.get("causes") or ())


class BadRequest(ApiError, status=400):
    """400: the server could not make sense of the request."""


class Unauthorized(ApiError, status=401):
    """401: the server does not know who asks."""


class Forbidden(ApiError, status=403):
    """403: the server knows, and says no."""


class NotFound(ApiError, status=404):
    """404: no such object, or no such kind."""


class MethodNotAllowed(ApiError, status=405):
    """405: the kind does not have this verb."""


class Conflict(ApiError, status=409):
    """409: the object changed since it was read, or another manager owns the field."""


class AlreadyExists(ApiError):
    """409 on create: the name is taken."""


class Gone(ApiError, status=410, reasons=("Gone", "Expired")):
    """410: the revision asked for was compacted; list again."""


class TooLarge(ApiError, status=413, reasons=("RequestEntityTooLarge",)):
    """413: the request is larger than the server takes."""


class UnsupportedMediaType(ApiError, status=415):
    """415: the kind does not take this type of patch."""


class Invalid(ApiError, status=422):
    """422: the object breaks a rule; `causes` says which."""


class TooManyRequests(ApiError, status=429):
    """429: the server wants us to slow down."""


class ServerError(ApiError):
    """5xx: the server failed; the request may or may not have been carried out."""


def response_error(status: int, headers: Mapping[str, str], body: bytes) -> ApiError:
    """The error in an HTTP answer; `headers` have lower-case names. Any body will do."""
    try:
        said = msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError):
        said = None
    if not isinstance(said, dict) or said.get("kind") != "Status":
        text = body[:_MESSAGE_BYTES].decode(errors="replace").strip()
        said = {"message": text or "the server gave no reason"}
    wait_s = _seconds(headers.get("retry-after"))
    return status_error({**said, "code": status}, retry_after_s=wait_s)


def status_error(said: Json, *, retry_after_s: float | None = None) -> ApiError:
    """The error in a Status object, as a watch sends it in an ERROR event."""
    code = said.get("code")
    status = code if isinstance(code, int) else 500
    reason = str(said.get("reason") or "")
    details = said.get("details")
    details = details if isinstance(details, dict) else {}
    kind = _BY_REASON.get(reason) or _BY_STATUS.get(status)
    if kind is None:
        kind = ServerError if status >= 500 else ApiError
    wait_s = retry_after_s if retry_after_s is not None else _named_wait(reason, details)
    message = str(said.get("message") or reason or "the server gave no reason")
    return kind(status, reason, message, details, retry_after_s=wait_s)


def _named_wait(reason: str, details: Json) -> float | None:
    """The wait in the details, for the reasons where that field is a promise to take a retry."""
    if reason not in ("ServerTimeout", "TooManyRequests", "Timeout"):
        return None
    return _seconds(details.get("retryAfterSeconds"))


def _seconds(value: Any) -> float | None:
    """A wait in whole seconds. An HTTP date counts as absent: clocks differ."""
    try:
        return max(0.0, float(int(value)))
    except (TypeError, ValueError):
        return None
