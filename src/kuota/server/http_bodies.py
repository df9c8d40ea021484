# SPDX-License-Identifier: Apache-2.0
"""Reads the parts of an HTTP request. A part that cannot be read is a rejection, never an error."""

from __future__ import annotations

import asyncio
import zlib
from urllib.parse import parse_qsl

from aiohttp import web
from aiohttp.http_exceptions import HttpProcessingError
from aiohttp.web_exceptions import HTTPException
from aiohttp.web_protocol import RequestPayloadError

from kuota.api.status import StatusError, bad_request, unsupported_media

from .status import body_too_large

BODY_S = 30.0
"""How long a client may take to send a body."""
_MOST_PARAMETERS = 100
_CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"
# The window sizes of zlib for gzip, and for zlib's own format.
_WINDOWS = {"gzip": 31, "x-gzip": 31, "deflate": 15}


def text_of(text: str) -> str:
    """The text without lone surrogates, which stand for bytes that are not UTF-8."""
    if text.isascii():
        return text
    return text.encode("utf-8", "surrogateescape").decode("utf-8", "replace")


def path_of(incoming: web.BaseRequest) -> str:
    """The path without the query. Raises StatusError for the other forms, which proxies use."""
    path = text_of(incoming.raw_path).partition("?")[0]
    if not path.startswith("/"):
        raise bad_request("the target of a request must be a path that begins with /")
    return path


def header_texts(incoming: web.BaseRequest) -> dict[str, str]:
    """The headers by lower-case name. Values of repeated headers are joined by commas."""
    headers: dict[str, str] = {}
    for name, value in incoming.headers.items():
        key, text = name.lower(), text_of(value)
        headers[key] = f"{headers[key]},{text}" if key in headers else text
    return headers


def query_of(incoming: web.BaseRequest) -> dict[str, str]:
    """The query parameters; the first of several values counts. Raises StatusError."""
    text = text_of(incoming.raw_path).partition("?")[2].partition("#")[0]
    if not text:
        return {}
    try:
        pairs = parse_qsl(text, keep_blank_values=True, max_num_fields=_MOST_PARAMETERS)
    except ValueError:
        raise bad_request(f"the query has more than {_MOST_PARAMETERS} parameters") from None
    found: dict[str, str] = {}
    for name, value in pairs:
        found.setdefault(name, value)
    return found


async def body_of(incoming: web.BaseRequest, limit: int) -> bytes:
    """The decompressed body. Raises StatusError; the connection must then be closed."""
    if not incoming.body_exists:
        return b""
    if (incoming.content_length or 0) > limit:
        raise body_too_large(limit)
    encoding = incoming.headers.get("Content-Encoding", "").strip().lower()
    if encoding not in ("", "identity", *_WINDOWS):
        raise unsupported_media(
            f"Content-Encoding {text_of(encoding)[:60]} is not supported: "
            "send the body unencoded or as gzip"
        )
    if incoming.headers.get("Expect", "").lower() == "100-continue":
        await incoming.writer.write(_CONTINUE)
        incoming.writer.output_size = 0
    body = await _read(incoming, limit)
    return decompressed(body, encoding, limit) if encoding in _WINDOWS else body


async def _read(incoming: web.BaseRequest, limit: int) -> bytes:
    try:
        async with asyncio.timeout(BODY_S):
            return await incoming.read()
    except TimeoutError:
        message = f"the body was not complete after {BODY_S:.0f} s"
        raise StatusError(408, "Timeout", message) from None
    except web.HTTPRequestEntityTooLarge:
        raise body_too_large(limit) from None
    except (HttpProcessingError, RequestPayloadError, HTTPException) as error:
        words = str(getattr(error, "message", "") or error).strip().partition("\n")[0]
        raise bad_request(f"the body cannot be read: {text_of(words)[:200]}") from None


def decompressed(body: bytes, encoding: str, limit: int) -> bytes:
    """The content of a compressed body. Raises StatusError if it is malformed or too large."""
    inflater = zlib.decompressobj(_WINDOWS[encoding])
    try:
        content = inflater.decompress(body, limit + 1)
    except zlib.error as error:
        raise bad_request(f"the body is not {encoding}: {error}") from None
    if len(content) > limit:
        raise body_too_large(limit)
    if not inflater.eof or inflater.unused_data:
        raise bad_request(f"the body is not {encoding}: it is incomplete or has trailing data")
    return content
