# SPDX-License-Identifier: Apache-2.0
"""The contracts between upgraded connections and the sessions that are served on them. Pure."""

from __future__ import annotations

from typing import Protocol


class Disconnected(Exception):
    """The client has closed the connection, or it has failed."""


class Link(Protocol):
    """One upgraded connection: the messages of a WebSocket, or the bytes of SPDY in any pieces."""

    async def receive(self) -> bytes:
        """The next message or bytes. Raises Disconnected at the end."""

    async def send(self, content: bytes) -> None:
        """Send a message or bytes; waits for a slow client. Raises Disconnected."""


class Duplex(Protocol):
    """One of the streams that a connection carries, in both directions."""

    async def read(self) -> bytes:
        """The next bytes; b"" after the client has sent the last ones."""

    async def write(self, content: bytes) -> None:
        """Send the bytes; waits for a slow client. Raises Disconnected."""

    async def finish(self) -> None:
        """Send nothing more on the stream."""


class StreamSession(Protocol):
    """What to do on an upgraded connection. The protocols are in order of preference."""

    websocket_protocols: tuple[str, ...]
    spdy_protocols: tuple[str, ...]
    user: str

    async def over_websocket(self, link: Link, protocol: str) -> None:
        """Serve the client on a WebSocket until the end."""

    async def over_spdy(self, link: Link) -> None:
        """Serve the client on a SPDY connection until the end."""
