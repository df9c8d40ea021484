# SPDX-License-Identifier: Apache-2.0
"""Raw HTTP connections to a running control plane, without the manners of a client library."""

from __future__ import annotations

import json
import socket
import ssl
import time
from pathlib import Path
from typing import Any

import msgspec
import yaml

from hang import HANG_S
from up.machine import Machine


class Target(msgspec.Struct, frozen=True):
    """Where the control plane listens, and the token of one user ("" for none)."""

    host: str
    port: int
    authority: str
    token: str = ""

    def connect(self, *, handshake: bool = True) -> socket.socket:
        """A connection, with TLS unless the handshake is left out."""
        plain = socket.create_connection((self.host, self.port), timeout=HANG_S)
        if not handshake:
            return plain
        context = ssl.create_default_context(cadata=self.authority)
        return context.wrap_socket(plain, server_hostname=self.host)

    def head(self, method: str, path: str, **headers: object) -> bytes:
        """The request line and headers, with the token."""
        lines = [f"{method} {path} HTTP/1.1", f"Host: {self.host}"]
        if self.token:
            lines.append(f"Authorization: Bearer {self.token}")
        lines += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
        return "\r\n".join([*lines, "", ""]).encode()

    def ask(
        self, method: str, path: str, body: bytes = b"", **headers: object
    ) -> tuple[int, dict[str, str], bytes]:
        """Send one well-formed request on a new connection."""
        sized = {"Content_Length": len(body)} if body else {}
        with self.connect() as line:
            line.sendall(self.head(method, path, **sized, **headers) + body)
            return answer(line)


def target(machine: Machine, kubeconfig: Path | None = None, *, token: bool = True) -> Target:
    """The control plane as the owner of the kubeconfig reaches it, by default the admin."""
    found = yaml.safe_load((kubeconfig or machine.state / "kubeconfig").read_text())
    authority = (machine.state / "tls" / "server.crt").read_text()
    port = int(found["clusters"][0]["cluster"]["server"].rpartition(":")[2])
    credentials = found["users"][0]["user"]["token"] if token else ""
    return Target("127.0.0.1", port, authority, credentials)


def answer(line: socket.socket, *, bodyless: bool = False) -> tuple[int, dict[str, str], bytes]:
    """The next response: status, headers and body. Raises ConnectionError at the end.

    The response to a HEAD request has no body.
    """
    received = b""
    while b"\r\n\r\n" not in received:
        received += _more(line)
    head, _, body = received.partition(b"\r\n\r\n")
    status, *lines = head.decode("latin-1").split("\r\n")
    headers = {name.lower(): value.strip() for name, _, value in (x.partition(":") for x in lines)}
    if bodyless:
        return int(status.split()[1]), headers, b""
    if headers.get("transfer-encoding") == "chunked":
        while not body.endswith(b"0\r\n\r\n"):
            body += _more(line)
    while len(body) < int(headers.get("content-length", 0)):
        body += _more(line)
    return int(status.split()[1]), headers, body


def _more(line: socket.socket) -> bytes:
    piece = line.recv(65536)
    if not piece:
        raise ConnectionResetError("the server closed the connection")
    return piece


def closed(line: socket.socket, within_s: float = HANG_S) -> bool:
    """Whether the server closes the connection in time."""
    line.settimeout(within_s)
    try:
        while line.recv(65536):
            pass
    except TimeoutError:
        return False
    except OSError:
        return True
    return True


def status_of(body: bytes) -> dict[str, Any]:
    """The Status in the body."""
    found: dict[str, Any] = json.loads(body)
    assert found["kind"] == "Status", body[:300]
    return found


def memory_mib(pid: int) -> float:
    """The resident memory of a process."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS"):
            return int(line.split()[1]) / 1024
    raise AssertionError(f"process {pid} is gone")


def until(reached: Any, what: str) -> None:
    """Wait until the condition holds."""
    deadline = time.monotonic() + HANG_S
    while not reached():
        assert time.monotonic() < deadline, what
        time.sleep(0.05)
