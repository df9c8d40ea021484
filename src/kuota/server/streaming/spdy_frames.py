# SPDX-License-Identifier: Apache-2.0
"""Encodes and decodes the frames of SPDY/3.1 that kubectl uses. Performs no I/O.

Kubernetes uses SPDY only to multiplex byte streams over an upgraded connection. There are no
window updates, because no Kubernetes client or server limits itself by them. Frames with limits in
mind: a peer cannot make the decoder allocate more than `LARGEST_FRAME` bytes.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator, Mapping

import msgspec

LARGEST_FRAME = 256 << 10
"""Kubernetes clients send frames of at most 32 KiB."""
_LARGEST_HEADERS = 16 << 10
_MOST_HEADERS = 32
_VERSION = 3
_CONTROL = 1 << 31
_HEAD = struct.Struct("!IB3s")
_U32 = struct.Struct("!I")
_SYN_STREAM, _SYN_REPLY, _RST_STREAM = 1, 2, 3
_PING, _GOAWAY = 6, 7
_FIN = 0x01

CANCEL = 5
REFUSED_STREAM = 3

_WORDS = """\
options head post put delete trace accept accept-charset accept-encoding accept-language
accept-ranges age allow authorization cache-control connection content-base content-encoding
content-language content-length content-location content-md5 content-range content-type date etag
expect expires from host if-match if-modified-since if-none-match if-range if-unmodified-since
last-modified location max-forwards pragma proxy-authenticate proxy-authorization range referer
retry-after server te trailer transfer-encoding upgrade user-agent vary via warning
www-authenticate method get status
"""
_MORE_WORDS = ("200 OK", "version", "HTTP/1.1", "url", "public", "set-cookie", "keep-alive")
_REST = (
    "100101201202205206300302303304305306307402405406407408409410411412413414415416417502504505"
    "203 Non-Authoritative Information204 No Content301 Moved Permanently400 Bad Request"
    "401 Unauthorized403 Forbidden404 Not Found500 Internal Server Error501 Not Implemented"
    "503 Service UnavailableJan Feb Mar Apr May Jun Jul Aug Sept Oct Nov Dec 00:00:00 "
    "Mon, Tue, Wed, Thu, Fri, Sat, Sun, GMTchunked,text/html,image/png,image/jpg,image/gif,"
    "application/xml,application/xhtml+xml,text/plain,text/javascript,publicprivatemax-age="
    "gzip,deflate,sdchcharset=utf-8charset=iso-8859-1,utf-,*,enq=0."
)
DICTIONARY = (
    b"".join(
        _U32.pack(len(word)) + word.encode() for word in (*_WORDS.split(), *_MORE_WORDS, "origin")
    )
    + _REST.encode()
)
"""The dictionary of the header compression, as the specification of SPDY/3 defines it."""


class SpdyError(Exception):
    """The peer violated the protocol. The connection cannot be used any more."""


class Opened(msgspec.Struct, frozen=True):
    """The peer opened a stream. `finished` means that it sends nothing on it."""

    stream: int
    headers: Mapping[str, str]
    finished: bool


class Received(msgspec.Struct, frozen=True):
    """The peer sent data on a stream."""

    stream: int
    content: bytes
    finished: bool


class Reset(msgspec.Struct, frozen=True):
    """The peer aborted a stream."""

    stream: int


class Pinged(msgspec.Struct, frozen=True):
    """The peer expects the same ping in return."""

    id: int


class GoneAway(msgspec.Struct, frozen=True):
    """The peer opens no more streams."""


Frame = Opened | Received | Reset | Pinged | GoneAway


class Decoder:
    """Decodes the frames of one peer."""

    def __init__(self) -> None:
        self._buffer = bytearray()
        self._inflate = zlib.decompressobj(zdict=DICTIONARY)

    def feed(self, content: bytes) -> Iterator[Frame]:
        """The frames that are complete with this content. Raises SpdyError."""
        self._buffer += content
        while len(self._buffer) >= _HEAD.size:
            first, flags, length = _HEAD.unpack_from(self._buffer)
            size = int.from_bytes(length, "big")
            if size > LARGEST_FRAME:
                raise SpdyError(f"a frame of {size} bytes exceeds the limit of {LARGEST_FRAME}")
            if len(self._buffer) < _HEAD.size + size:
                return
            payload = bytes(self._buffer[_HEAD.size : _HEAD.size + size])
            del self._buffer[: _HEAD.size + size]
            frame = self._frame(first, flags, payload)
            if frame is not None:
                yield frame

    def _frame(self, first: int, flags: int, payload: bytes) -> Frame | None:
        """The frame; None for one that has no meaning here, such as settings."""
        if not first & _CONTROL:
            return Received(first, payload, bool(flags & _FIN))
        if (first >> 16) & 0x7FFF != _VERSION:
            raise SpdyError("the peer uses another version of SPDY than 3.1")
        kind = first & 0xFFFF
        if kind == _SYN_STREAM:
            headers = self._headers(payload[10:])
            return Opened(_stream(payload), headers, bool(flags & _FIN))
        if kind == _RST_STREAM:
            return Reset(_stream(payload))
        if kind == _PING:
            return Pinged(_number(payload))
        return GoneAway() if kind == _GOAWAY else None

    def _headers(self, block: bytes) -> dict[str, str]:
        try:
            plain = self._inflate.decompress(block, _LARGEST_HEADERS)
        except zlib.error as error:
            raise SpdyError(f"the headers cannot be decompressed: {error}") from None
        if self._inflate.unconsumed_tail:
            raise SpdyError(f"the headers exceed the limit of {_LARGEST_HEADERS} bytes")
        count, at = _number(plain), 4
        if count > _MOST_HEADERS:
            raise SpdyError(f"{count} headers exceed the limit of {_MOST_HEADERS}")
        texts = []
        for _ in range(2 * count):
            size = _number(plain, at)
            if at + 4 + size > len(plain):
                raise SpdyError("the headers are truncated")
            texts.append(plain[at + 4 : at + 4 + size].decode(errors="replace"))
            at += 4 + size
        return {name.lower(): value for name, value in zip(texts[::2], texts[1::2], strict=True)}


class Encoder:
    """Encodes frames for one peer."""

    def __init__(self) -> None:
        self._deflate = zlib.compressobj(zdict=DICTIONARY)

    def opened(self, stream: int, headers: Mapping[str, str]) -> bytes:
        """Open a stream. A server does not do this; tests of the server do."""
        block = self._headers(headers)
        return _control(_SYN_STREAM, struct.pack("!IIH", stream, 0, 0) + block)

    def accepted(self, stream: int) -> bytes:
        """The reply to an opened stream."""
        return _control(_SYN_REPLY, _U32.pack(stream) + self._headers({}))

    def _headers(self, headers: Mapping[str, str]) -> bytes:
        plain = _U32.pack(len(headers))
        for name, value in headers.items():
            for text in (name.encode(), value.encode()):
                plain += _U32.pack(len(text)) + text
        return self._deflate.compress(plain) + self._deflate.flush(zlib.Z_SYNC_FLUSH)


def data(stream: int, content: bytes, *, finished: bool = False) -> bytes:
    """Data on a stream; `finished` for the last of it."""
    return _HEAD.pack(stream, _FIN if finished else 0, len(content).to_bytes(3, "big")) + content


def reset(stream: int, why: int = CANCEL) -> bytes:
    return _control(_RST_STREAM, struct.pack("!II", stream, why))


def ping(id: int) -> bytes:
    return _control(_PING, _U32.pack(id))


def _control(kind: int, payload: bytes) -> bytes:
    first = _CONTROL | _VERSION << 16 | kind
    return _HEAD.pack(first, 0, len(payload).to_bytes(3, "big")) + payload


def _stream(payload: bytes) -> int:
    return _number(payload) & 0x7FFFFFFF


def _number(payload: bytes, at: int = 0) -> int:
    if len(payload) < at + 4:
        raise SpdyError("a frame is too short")
    return int(_U32.unpack_from(payload, at)[0])
