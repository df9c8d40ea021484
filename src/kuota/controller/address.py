# SPDX-License-Identifier: Apache-2.0
"""Where a server listens, written as Go programs do: `:8081`, `127.0.0.1:9090`, `[::1]:80`."""

from __future__ import annotations

import socket

import msgspec

MOST = 65535


class Address(msgspec.Struct, frozen=True):
    """No host means all of this machine's addresses."""

    host: str
    port: int

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{host}:{self.port}"


def address(text: str) -> Address | None:
    """The address meant; None for "0" and "", which mean not to listen. Raises ValueError."""
    if text in ("", "0"):
        return None
    host, colon, port = text.rpartition(":")
    inner = host[1:-1] if host.startswith("[") and host.endswith("]") else host
    if not colon or not port.isascii() or not port.isdigit() or int(port) > MOST:
        raise ValueError(f"{text!r} is no address: write host:port, or :port for all hosts")
    if ":" in inner and inner == host:
        raise ValueError(f"{text!r} is no address: an IPv6 address goes in brackets")
    return Address(inner, int(port))


def listener(at: Address) -> socket.socket:
    """A socket that listens there, over IPv4 and IPv6 where no host is named. Raises OSError."""
    if at.host:
        family = socket.AF_INET6 if ":" in at.host else socket.AF_INET
        return socket.create_server((at.host, at.port), family=family)
    if socket.has_dualstack_ipv6():
        try:
            ends = ("", at.port)
            return socket.create_server(ends, family=socket.AF_INET6, dualstack_ipv6=True)
        except OSError:
            # The kernel knows IPv6, but this machine was told not to use it; or the port is
            # taken, which the next attempt says as well.
            pass
    return socket.create_server(("", at.port))
