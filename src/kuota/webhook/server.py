# SPDX-License-Identifier: Apache-2.0
"""The HTTPS server of the webhooks. It responds to every request.

A malformed review gets a Status with 400; any other gets a review.
"""

from __future__ import annotations

import asyncio
import socket
import ssl

import msgspec
from aiohttp import web
from aiohttp.http import RawRequestMessage

from kuota.api.advice import Names
from kuota.api.config.shapes import Configuration
from kuota.api.gates import Gates
from kuota.listening import Listeners

from .authors import Authorizer
from .conversion import Conversion
from .lookup import Lookup
from .review import InvalidReview, failure
from .reviews import AdmissionReviews
from .targets import CONVERSION_PATH

MOST_BYTES = 16 << 20
"""The maximum size of a review: two objects of 1.5 MB each, plus overhead."""
MOST_CONVERTED_BYTES = 128 << 20
"""The maximum size of a conversion: a whole list in one request."""
BODY_S = 30.0
"""How long the body of a request may take. API servers wait no longer for a webhook."""
_AT_ONCE_S = 0.005


class Webhooks:
    """Admission and conversion at the paths of Kueue's webhook configurations.

    With an authorizer, the authors of jobs are recorded.
    """

    def __init__(
        self,
        lookup: Lookup,
        config: Configuration | None = None,
        gates: Gates | None = None,
        topology_levels: Names | None = None,
        node_labels: Names | None = None,
        authorizer: Authorizer | None = None,
    ) -> None:
        self._reviews = AdmissionReviews(
            lookup, config, gates, topology_levels, node_labels, authorizer
        )
        self._listeners = Listeners(
            self._respond, request_factory=_request, handler_cancellation=True
        )

    async def serve(self, at: socket.socket, tls: ssl.SSLContext) -> int:
        """Serve on a listening socket until closed; returns the port."""
        return await self._listeners.open(at, tls)

    async def close(self) -> None:
        """Accept no more requests, and close after a grace period for those in progress."""
        await self._listeners.close()

    async def _respond(self, incoming: web.BaseRequest) -> web.StreamResponse:
        path = incoming.path
        if path != CONVERSION_PATH and path not in self._reviews:
            return _status(404, "NotFound", f"no webhook is served at {path[:200]}")
        if incoming.method != "POST":
            return _status(405, "MethodNotAllowed", "reviews must be sent by POST")
        try:
            async with asyncio.timeout(BODY_S):
                body = await incoming.read()
        except web.HTTPRequestEntityTooLarge as error:
            return _status(413, "RequestEntityTooLarge", str(error.text))
        except TimeoutError:
            return _status(408, "Timeout", "the body of the review did not arrive in time")
        try:
            if path == CONVERSION_PATH:
                return _json(200, await _conversion(body))
            return _json(200, await self._reviews.answer(path, body))
        except InvalidReview as error:
            return _status(400, "BadRequest", str(error))


async def _conversion(body: bytes) -> bytes:
    conversion = Conversion(body)
    loop = asyncio.get_running_loop()
    due = loop.time() + _AT_ONCE_S
    for _ in conversion.steps():
        if loop.time() > due:
            # A long list must not block other requests.
            await asyncio.sleep(0)
            due = loop.time() + _AT_ONCE_S
    return conversion.answer()


def _json(status: int, body: bytes) -> web.Response:
    return web.Response(status=status, body=body, content_type="application/json")


def _status(code: int, reason: str, message: str) -> web.Response:
    return _json(code, msgspec.json.encode(failure(code, reason, message)))


def _request(
    message: RawRequestMessage, payload: object, protocol: object, writer: object, task: object
) -> web.BaseRequest:
    converting = message.path == CONVERSION_PATH
    return web.BaseRequest(
        message,
        payload,  # type: ignore[arg-type]
        protocol,  # type: ignore[arg-type]
        writer,  # type: ignore[arg-type]
        task,  # type: ignore[arg-type]
        asyncio.get_running_loop(),
        client_max_size=MOST_CONVERTED_BYTES if converting else MOST_BYTES,
    )
