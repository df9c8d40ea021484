# SPDX-License-Identifier: Apache-2.0
"""Sends responses, and ends streams whose client does not read or may no longer read."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Callable
from typing import Never

from aiohttp import web
from aiohttp.http_exceptions import HttpProcessingError

from kuota.failures import report
from kuota.listening import HttpServerConnection

from .fairness import RETRY_AFTER_S
from .requests import Interrupted, Response

STALL_S = 30.0
"""How long a client may read nothing of what is sent to it."""
PIECE_BYTES = 64 << 10
CHECK_S = 1.0
"""How often open streams are authorized again."""


class _Stalled(Exception):
    """The client reads nothing."""


class _Broken(Exception):
    """The rest of a response cannot be produced."""


class OpenStreams:
    """The open watches and logs."""

    def __init__(self) -> None:
        self.ended: Counter[str] = Counter()
        """Streams that the server ended since its start, by reason."""
        self._open: dict[asyncio.Task[None], Callable[[], bool]] = {}

    def __len__(self) -> int:
        return len(self._open)

    async def send(
        self, incoming: web.BaseRequest, response: Response, allowed: Callable[[], bool]
    ) -> web.StreamResponse:
        """Send a stream until it ends, its client stalls, or it is no longer allowed."""
        stream, body = _opened(incoming, response), response.body
        assert not isinstance(body, bytes)
        stream.force_close()  # Before the headers are sent, so that clients know.
        pump = asyncio.create_task(_pumped(incoming, stream, body))
        self._open[pump] = allowed
        try:
            await asyncio.wait((pump,))
        finally:
            del self._open[pump]
            pump.cancel()
            await asyncio.gather(pump, return_exceptions=True)
        failure = None if pump.cancelled() else pump.exception()
        if failure is not None:
            self.ended["stalled" if isinstance(failure, _Stalled) else "failed"] += 1
            _abort(incoming)
        return await _finished(incoming, stream)

    async def keep_checking(self) -> Never:
        """End the streams of users who may no longer read them. Never returns."""
        while True:
            await asyncio.sleep(CHECK_S)
            for pump, allowed in list(self._open.items()):
                if not _tested(allowed):
                    self.ended["revoked"] += 1
                    pump.cancel()


def _tested(allowed: Callable[[], bool]) -> bool:
    try:
        return allowed()
    except Exception as error:
        report("HTTP server", error, "an open stream could not be authorized again")
        return False


async def send(
    incoming: web.BaseRequest, response: Response, *, close: bool = False
) -> web.StreamResponse:
    """Send a response completely. Closes the connection of a client that does not read it."""
    body = response.body
    stream = _opened(incoming, response)
    if close:
        stream.force_close()
    if isinstance(stream, web.Response):
        return stream
    try:
        if isinstance(body, bytes):
            stream.content_length = len(body)
            body = _pieces(body)
        await _pumped(incoming, stream, body)
    except (_Stalled, _Broken):
        _abort(incoming)
    return await _finished(incoming, stream)


def _opened(incoming: web.BaseRequest, response: Response) -> web.StreamResponse:
    """The response without its body, unless the body is small: then aiohttp sends it."""
    body = response.body
    headers = {"Content-Type": response.content_type, "Cache-Control": "no-cache, private"}
    if response.status == 429:
        headers["Retry-After"] = str(RETRY_AFTER_S)
    stream = (
        web.Response(status=response.status, headers=headers, body=body)
        if isinstance(body, bytes) and len(body) <= PIECE_BYTES
        else web.StreamResponse(status=response.status, headers=headers)
    )
    for text in response.warnings:
        stream.headers.add("Warning", _warning(text))
    return stream


async def _pieces(body: bytes) -> AsyncIterator[bytes]:
    for start in range(0, len(body), PIECE_BYTES):
        yield body[start : start + PIECE_BYTES]


async def _pumped(
    incoming: web.BaseRequest, stream: web.StreamResponse, body: AsyncIterator[bytes]
) -> None:
    """Send the body. Raises _Stalled if the client does not read it, _Broken if it fails."""
    try:
        await stream.prepare(incoming)
        async for piece in body:
            if piece and incoming.method != "HEAD":
                await _written(stream, piece)
    except (ConnectionError, HttpProcessingError):
        # The client has disconnected, which is how most watches end.
        pass
    except _Stalled:
        raise
    except Interrupted:
        raise _Broken from None
    except Exception as error:
        report("HTTP server", error, f"the response to {incoming.method} cannot be completed")
        raise _Broken from error
    finally:
        await close_body(body)


async def close_body(body: object) -> None:
    """Close a body that is not sent any further. It may be closed already."""
    close = getattr(body, "aclose", None)
    if close is not None:
        await close()


async def _written(stream: web.StreamResponse, piece: bytes) -> None:
    for start in range(0, len(piece), PIECE_BYTES):
        try:
            async with asyncio.timeout(STALL_S):
                await stream.write(piece[start : start + PIECE_BYTES])
        except TimeoutError:
            raise _Stalled from None


async def _finished(incoming: web.BaseRequest, stream: web.StreamResponse) -> web.StreamResponse:
    try:
        async with asyncio.timeout(STALL_S):
            await stream.write_eof()
    except (ConnectionError, HttpProcessingError, RuntimeError):
        stream.force_close()
    except TimeoutError:
        _abort(incoming)
    return stream


def _abort(incoming: web.BaseRequest) -> None:
    connection = incoming.protocol
    if isinstance(connection, HttpServerConnection):
        connection.abort()


def _warning(text: str) -> str:
    quoted = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'299 - "{"".join(filter(str.isprintable, quoted))}"'
