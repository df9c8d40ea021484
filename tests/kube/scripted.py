# SPDX-License-Identifier: Apache-2.0
"""A transport with predefined responses."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Sequence
from typing import Any

import msgspec

from kuota.kube.errors import ApiError, response_error
from kuota.kube.requests import HttpRequest, HttpResponse


class Wait:
    """In a stream: nothing more comes, and nobody hangs up."""


Answer = HttpResponse | Exception
Stream = Sequence[bytes | Exception | Wait]


class Scripted:
    """Gives one answer, or one stream, for each request, and remembers the requests."""

    def __init__(self, answers: Sequence[Answer] = (), streams: Sequence[Stream] = ()) -> None:
        self.requests: list[HttpRequest] = []
        self.closed = 0
        self._answers = list(answers)
        self._streams = list(streams)

    async def send(self, request: HttpRequest) -> HttpResponse:
        self.requests.append(request)
        answer = self._answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    async def stream(self, request: HttpRequest) -> AsyncGenerator[bytes, None]:
        if "sendInitialEvents" in request.query:
            raise without_initial_events()
        self.requests.append(request)
        try:
            for piece in self._streams.pop(0):
                if isinstance(piece, Exception):
                    raise piece
                if isinstance(piece, Wait):
                    await asyncio.Event().wait()
                else:
                    yield piece
        finally:
            self.closed += 1

    async def close(self) -> None:
        return None


def without_initial_events() -> ApiError:
    """What a server answers that cannot begin a watch with the current objects."""
    return response_error(422, {}, refused(422, "Invalid").body)


def ok(body: Any = None, status: int = 200) -> HttpResponse:
    return HttpResponse(status, {}, msgspec.json.encode({} if body is None else body))


def refused(status: int, reason: str, headers: dict[str, str] | None = None) -> HttpResponse:
    body = {"kind": "Status", "status": "Failure", "reason": reason, "message": f"{reason}!"}
    return HttpResponse(status, headers or {}, msgspec.json.encode(body | {"code": status}))


def line(kind: str, obj: Any) -> bytes:
    return msgspec.json.encode({"type": kind, "object": obj}) + b"\n"
