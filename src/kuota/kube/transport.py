# SPDX-License-Identifier: Apache-2.0
"""The seam between the verbs of an API and the way bytes travel: two methods, and a close."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from typing import Protocol

from .requests import HttpRequest, HttpResponse


class Transport(Protocol):
    """Moves bytes to one API server and back."""

    async def send(self, request: HttpRequest) -> HttpResponse:
        """The answer, whatever its status. Raises Unreachable when there is none."""

    def stream(self, request: HttpRequest) -> AsyncGenerator[bytes, None]:
        """The body as it arrives, in chunks of any size; ends when the server ends it.

        Raises `errors.response_error(...)` for a status of 300 or more, Unreachable when there is
        no answer or the line breaks. Closing the generator hangs up.
        """

    async def close(self) -> None:
        """Let go of all connections."""
