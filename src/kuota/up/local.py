# SPDX-License-Identifier: Apache-2.0
"""A client of the API server in the same process, without a socket."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing

from kuota.kube.client import Client
from kuota.kube.errors import response_error
from kuota.kube.requests import HttpRequest, HttpResponse
from kuota.server.api import ApiServer
from kuota.server.requests import ADMINS, SYSTEM_USER, Interrupted, Request, Response, User, refused
from kuota.server.status import expired

SYSTEM = User(SYSTEM_USER, (ADMINS, "system:authenticated"))


def local_client(api: ApiServer) -> Client:
    """A client with all permissions, for the controllers and the runner."""
    return Client(LocalTransport(api, SYSTEM), managed_fields=False)


class LocalTransport:
    """A `kuota.kube.requests.Transport` that calls the server."""

    def __init__(self, api: ApiServer, user: User) -> None:
        self._api = api
        self._user = user

    async def send(self, request: HttpRequest) -> HttpResponse:
        response = await self._handled(request)
        try:
            return HttpResponse(response.status, {}, await _whole(response.body))
        except Interrupted as error:
            again = refused(expired(str(error)))
            return HttpResponse(again.status, {}, await _whole(again.body))

    async def stream(self, request: HttpRequest) -> AsyncGenerator[bytes, None]:
        response = await self._handled(request)
        if response.status >= 300:
            raise response_error(response.status, {}, await _whole(response.body))
        if isinstance(response.body, bytes):
            yield response.body
            return
        async with _closing(response.body) as pieces:
            async for piece in pieces:
                yield piece

    async def close(self) -> None:
        """Do nothing: there is no connection."""

    async def _handled(self, request: HttpRequest) -> Response:
        return await self._api.handle(
            Request(
                method=request.method,
                path=request.path,
                query=request.query,
                headers=request.headers,
                body=request.body,
                user=self._user,
            )
        )


async def _whole(body: bytes | AsyncIterator[bytes]) -> bytes:
    if isinstance(body, bytes):
        return body
    return b"".join([piece async for piece in body])


def _closing(body: AsyncIterator[bytes]) -> aclosing[AsyncGenerator[bytes, None]]:
    """Close the stream when its reader stops. The streams of the server are generators."""
    assert isinstance(body, AsyncGenerator)
    return aclosing(body)
