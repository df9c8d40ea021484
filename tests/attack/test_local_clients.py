# SPDX-License-Identifier: Apache-2.0
"""Local clients are told apart by their users, so one cannot use up the connections of others."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from contextlib import closing, contextmanager

import pytest

from kuota.connections import AcceptedConnection, ConnectionLimits, Connections
from kuota.listening import peer_name
from kuota.socket_owner import owner

FAMILIES = [(socket.AF_INET, "127.0.0.1"), (socket.AF_INET6, "::1")]
OTHER = 65534


@contextmanager
def connected(
    family: socket.AddressFamily, address: str, uid: int | None = None
) -> Iterator[tuple[socket.socket, socket.socket]]:
    """Both ends of a connection, of which a user opens the first one."""
    try:
        server = socket.create_server((address, 0), family=family)
    except OSError as error:
        pytest.skip(f"no {address} on this machine: {error}")
    with server, closing(opened(family, uid)) as client:
        client.connect(server.getsockname()[:2])
        accepted, _ = server.accept()
        with accepted:
            yield client, accepted


def opened(family: socket.AddressFamily, uid: int | None) -> socket.socket:
    """A new socket of the user. A socket belongs to the user who created it."""
    before = os.geteuid()
    try:
        if uid is not None:
            os.seteuid(uid)
        return socket.socket(family)
    finally:
        os.seteuid(before)


@pytest.mark.parametrize(("family", "address"), FAMILIES)
def test_a_local_client_is_identified_by_its_user(
    family: socket.AddressFamily, address: str
) -> None:
    with connected(family, address) as (client, accepted):
        assert os.geteuid() == owner(accepted)
        assert f"uid {os.geteuid()}" == peer_name(accepted)
        client.close()
        # Nobody has the socket any more, and it must not count as that of root.
        assert owner(accepted) is None


@pytest.mark.parametrize(("family", "address"), FAMILIES)
@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
def test_users_of_one_machine_are_different_peers(
    family: socket.AddressFamily, address: str
) -> None:
    with connected(family, address, OTHER) as (_, accepted):
        assert f"uid {OTHER}" == peer_name(accepted)


def test_other_connections_have_no_local_owner() -> None:
    one, other = socket.socketpair()
    with one, other:
        assert owner(one) is None


def test_silent_connections_of_a_user_do_not_close_those_of_others() -> None:
    gone: list[str] = []
    connections = Connections(ConnectionLimits(total=40, per_user=4, per_peer=30))
    first = AcceptedConnection("uid 1000", lambda: gone.append("first"))
    assert connections.admit(first)
    for at in range(50):
        assert connections.admit(AcceptedConnection("uid 1001", lambda at=at: gone.append(str(at))))  # type: ignore[misc]
    assert "first" not in gone
