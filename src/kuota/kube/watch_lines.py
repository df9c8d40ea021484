# SPDX-License-Identifier: Apache-2.0
"""Turns the bytes of a watch into events. Chunks may end anywhere, even inside a character."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator

import msgspec

from kuota.api.base import Json

from .errors import Unreachable, status_error

DELETED = "DELETED"
BOOKMARK = "BOOKMARK"
_ERROR = "ERROR"

LONGEST_LINE = 64 << 20
"""Bytes. An object is at most a few MiB; past this it is no watch, and memory has its bounds."""


class Event(msgspec.Struct, frozen=True):
    """One change: ADDED, MODIFIED or DELETED with the whole object.

    A BOOKMARK carries nothing but a revision: everything up to it has been sent.
    """

    type: str
    object: Json

    @property
    def revision(self) -> str:
        return str((self.object.get("metadata") or {}).get("resourceVersion") or "")


_DECODER = msgspec.json.Decoder(Event)


def event_of(line: bytes) -> Event:
    """The event in one line; raises the ApiError that an ERROR event carries."""
    try:
        event = _DECODER.decode(line)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise Unreachable(f"the watch sent a line that is no event: {error}") from None
    if event.type == _ERROR:
        raise status_error(event.object)
    return event


async def lines(chunks: AsyncIterator[bytes]) -> AsyncGenerator[bytes, None]:
    """The complete lines in the chunks, without blank ones.

    What follows the last line break is dropped: the stream was cut, and whoever resumes it gets
    that event again.
    """
    pending: list[bytes] = []
    size = 0
    async for chunk in chunks:
        *ended, rest = chunk.split(b"\n")
        for part in ended:
            line = b"".join((*pending, part))
            pending, size = [], 0
            if line.strip():
                yield line
        if rest:
            pending.append(rest)
            size += len(rest)
        if size > LONGEST_LINE:
            raise Unreachable(f"the watch sent a line of more than {LONGEST_LINE} bytes")
