# SPDX-License-Identifier: Apache-2.0
"""Only sockets that the pod's own processes listen on are reached by a port-forward."""

from __future__ import annotations

import asyncio
import os
import socket
from pathlib import Path

import pytest

from kuota.runner.pod_sockets import (
    Listener,
    connect_to_pod,
    descendants,
    listeners,
    reached,
    sockets_of,
)


def _address(found: socket.socket) -> tuple[str, int]:
    host, port = found.getsockname()[:2]
    return str(host), int(port)


@pytest.mark.parametrize("host", ["127.0.0.1", "0.0.0.0", "::1", "::"])
def test_a_listening_socket_is_found_with_its_owner(host: str) -> None:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.create_server((host, 0), family=family) as server:
        found = reached(listeners(_address(server)[1]), family)
        assert frozenset({os.fstat(server.fileno()).st_ino}) == found
        assert found <= sockets_of([os.getpid()])
        assert not found & sockets_of([os.getppid()])


def test_a_socket_at_another_address_is_not_reached() -> None:
    with socket.create_server(("127.0.0.2", 0)) as server:
        found = listeners(_address(server)[1])
        assert (1, frozenset()) == (len(found), reached(found, socket.AF_INET))


def test_a_mapped_address_is_reached_over_ipv4(tmp_path: Path) -> None:
    (tmp_path / "tcp").write_text("header\n")
    line = "0: 0000000000000000FFFF00000100007F:1F90 0:0 0A 0:0 0:0 0 0 0 77\n"
    (tmp_path / "tcp6").write_text("header\n" + line)
    found = listeners(8080, str(tmp_path))
    assert [Listener("0000000000000000FFFF00000100007F", 8080, 77)] == found
    assert frozenset({77}) == reached(found, socket.AF_INET)
    assert not reached(found, socket.AF_INET6)


def test_a_process_is_among_the_descendants_of_its_parent() -> None:
    assert os.getpid() in descendants([os.getppid()])
    assert os.getppid() not in descendants([os.getpid()])


def test_a_connection_to_somebody_elses_socket_is_refused_before_it_is_made() -> None:
    async def main() -> None:
        with socket.create_server(("127.0.0.1", 0)) as server:
            server.setblocking(False)
            port = _address(server)[1]
            with pytest.raises(ConnectionRefusedError, match="no process of the pod"):
                await connect_to_pod(list, port)
            with pytest.raises(BlockingIOError):
                server.accept()
            _, writer = await connect_to_pod(lambda: [os.getpid()], port)
            writer.close()

    asyncio.run(main())
