# SPDX-License-Identifier: Apache-2.0
"""Finds the user who owns the other end of a TCP connection within this machine.

All local clients have the same address. The kernel (`sock_diag`) says which user opened a socket.
"""

from __future__ import annotations

import ipaddress
import os
import socket
import struct

_BY_FAMILY, _REQUEST = 20, 1
_SOCK_DIAG = 4
_HEADER = struct.Struct("=IHHII")
_QUERY = struct.Struct("=BBBxI")
_NAME = struct.Struct("!HH16s16s")
_ANY_INTERFACE_AND_COOKIE = b"\0\0\0\0" + b"\xff" * 8
_ALL_STATES = 0xFFFFFFFF
_ANSWER = struct.Struct("=4x48x12xII")
"""The uid and the inode of the socket. One that no process has any more has inode 0."""

Address = ipaddress.IPv4Address | ipaddress.IPv6Address


def owner(connection: socket.socket) -> int | None:
    """The uid of the process that opened the other end of a connection.

    None unless it is a loopback connection, and where the kernel does not say.
    """
    if connection.family not in (socket.AF_INET, socket.AF_INET6):
        return None
    try:
        local, remote = _end(connection.getsockname()), _end(connection.getpeername())
        if not (local[0].is_loopback and remote[0].is_loopback):
            return None
        return _asked(remote, local)
    except (OSError, ValueError, struct.error):
        return None


def _end(name: tuple[str, int]) -> tuple[Address, int]:
    """The address and port. An IPv4 address in an IPv6 socket is that of an IPv4 client."""
    address = ipaddress.ip_address(name[0].partition("%")[0])
    if isinstance(address, ipaddress.IPv6Address) and address.ipv4_mapped is not None:
        address = address.ipv4_mapped
    return address, name[1]


def _asked(source: tuple[Address, int], target: tuple[Address, int]) -> int | None:
    family = socket.AF_INET if source[0].version == 4 else socket.AF_INET6
    packed = [end[0].packed.ljust(16, b"\0") for end in (source, target)]
    query = _QUERY.pack(family, socket.IPPROTO_TCP, 0, _ALL_STATES)
    query += _NAME.pack(source[1], target[1], *packed) + _ANY_INTERFACE_AND_COOKIE
    head = _HEADER.pack(_HEADER.size + len(query), _BY_FAMILY, _REQUEST, 1, 0)
    kind = socket.SOCK_RAW | socket.SOCK_CLOEXEC | socket.SOCK_NONBLOCK
    with socket.socket(socket.AF_NETLINK, kind, _SOCK_DIAG) as line:
        line.send(head + query)
        reply = line.recv(os.sysconf("SC_PAGE_SIZE"))
    if _HEADER.unpack_from(reply)[1] != _BY_FAMILY:
        return None  # There is no such socket, or the kernel cannot say.
    uid, inode = _ANSWER.unpack_from(reply, _HEADER.size)
    return int(uid) if inode else None
