# SPDX-License-Identifier: Apache-2.0
"""Finds the sockets on which the processes of a pod listen, through /proc.

All pods of a machine share its loopback interface with everything else. A connection that is
forwarded for the member of one team must not reach the process of another, so the owner of a
listening socket is checked before anything is sent to it.
"""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import Callable, Iterable, Iterator

import msgspec

from .proc import parents

_LISTENS = "0A"
_ANY4, _LOOP4 = "00000000", "0100007F"
_ANY6, _LOOP6 = "0" * 32, "0" * 24 + "01000000"
_MAPPED = "0000000000000000FFFF0000"
_REACHED = {
    socket.AF_INET: (_ANY4, _LOOP4, _ANY6, _MAPPED + _ANY4, _MAPPED + _LOOP4),
    socket.AF_INET6: (_ANY6, _LOOP6),
}
"""The local addresses of sockets that a connection to 127.0.0.1 or to ::1 may reach."""

_ADDRESSES = {socket.AF_INET: "127.0.0.1", socket.AF_INET6: "::1"}
_CONNECT_S = 10.0


class Listener(msgspec.Struct, frozen=True):
    """A listening socket. The inode identifies it as long as it exists."""

    address: str
    port: int
    inode: int


def listeners(port: int, proc: str = "/proc/net") -> list[Listener]:
    """All sockets of this machine that listen on the port."""
    return [each for name in ("tcp", "tcp6") for each in _table(f"{proc}/{name}", port)]


def _table(path: str, port: int) -> Iterator[Listener]:
    try:
        with open(path) as file:
            lines = file.readlines()[1:]
    except OSError:
        return
    for line in lines:
        words = line.split()
        address, _, number = words[1].partition(":")
        if words[3] == _LISTENS and int(number, 16) == port:
            yield Listener(address, port, int(words[9]))


def reached(found: Iterable[Listener], family: socket.AddressFamily) -> frozenset[int]:
    """The inodes of the sockets that a connection to the loopback address may reach."""
    return frozenset(each.inode for each in found if each.address in _REACHED[family])


def descendants(roots: Iterable[int]) -> set[int]:
    """The processes and all their descendants."""
    known = parents()
    found = {pid for pid in roots if pid in known}
    children: dict[int, list[int]] = {}
    for pid, parent in known.items():
        children.setdefault(parent, []).append(pid)
    waiting = list(found)
    while waiting:
        more = [each for each in children.get(waiting.pop(), ()) if each not in found]
        found.update(more)
        waiting += more
    return found


def sockets_of(pids: Iterable[int]) -> set[int]:
    """The inodes of all sockets that the processes have open."""
    return {inode for pid in pids for inode in _sockets(pid)}


def _sockets(pid: int) -> Iterator[int]:
    try:
        entries = os.listdir(f"/proc/{pid}/fd")
    except OSError:
        return
    for entry in entries:
        try:
            target = os.readlink(f"/proc/{pid}/fd/{entry}")
        except OSError:
            continue
        if target.startswith("socket:["):
            yield int(target[8:-1])


Connection = tuple[asyncio.StreamReader, asyncio.StreamWriter]


async def connect_to_pod(pids: Callable[[], Iterable[int]], port: int) -> Connection:
    """Connect to the port, if only processes of the pod listen on it.

    `pids` are processes of which all others of the pod are descendants. Raises ConnectionError.
    """
    for family, address in _ADDRESSES.items():
        before = await asyncio.to_thread(_owned, pids(), port, family)
        if not before:
            continue
        async with asyncio.timeout(_CONNECT_S):
            reader, writer = await asyncio.open_connection(address, port, family=family)
        # The same sockets still listen, so the connection cannot have reached another one.
        if await asyncio.to_thread(_owned, pids(), port, family) == before:
            return reader, writer
        writer.transport.abort()
    raise ConnectionRefusedError(
        f"no process of the pod listens on port {port} of the loopback interface"
    )


def _owned(pids: Iterable[int], port: int, family: socket.AddressFamily) -> frozenset[int]:
    """The sockets that a connection may reach, if all of them belong to the pod."""
    found = reached(listeners(port), family)
    return found if found and found <= sockets_of(descendants(pids)) else frozenset()
