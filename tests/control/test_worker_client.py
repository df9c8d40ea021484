# SPDX-License-Identifier: Apache-2.0
"""Clients for worker clusters: limits in time, and errors without credentials and addresses."""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import AsyncGenerator

import pytest

from kuota.control.checks.multikueue.worker_client import (
    MOST_BYTES,
    REQUEST_TIMEOUT_S,
    WorkerTransport,
    explained,
    worker_client,
)
from kuota.kube.client import Client
from kuota.kube.clock import SystemClock
from kuota.kube.config import Connection
from kuota.kube.errors import ApiError, ConfigError, Unreachable, response_error
from kuota.kube.http_connection import ResponseTooLarge
from kuota.kube.requests import HttpRequest, HttpResponse, Transport
from kuota.kube.resources import WORKLOADS

CANARY = b"c4n4ry"
BODY = b'{"kind": "Status", "reason": "Forbidden", "message": "you sent c4n4ry"}'


class Line:
    """A server that fails every request."""

    def __init__(self, cause: OSError | None = None) -> None:
        self.cause = cause
        self.limits: list[float | None] = []

    def _broken(self) -> Unreachable:
        error = Unreachable("GET /x at https://c4n4ry.example.com: failed")
        error.__cause__ = self.cause
        return error

    async def send(self, request: HttpRequest) -> HttpResponse:
        self.limits.append(request.timeout_s)
        if self.cause is not None:
            raise self._broken()
        return HttpResponse(403, {}, BODY)

    async def stream(self, request: HttpRequest) -> AsyncGenerator[bytes, None]:
        for error in (self._broken() if self.cause is not None else response_error(403, {}, BODY),):
            raise error
        yield b""

    async def close(self) -> None:
        pass


def failures(line: Line) -> list[str]:
    """What a read and a watch through the transport raise."""

    async def story() -> list[str]:
        client = Client(WorkerTransport(line, frozenset({CANARY})))
        found = []
        try:
            await client.list(WORKLOADS)
        except (ApiError, Unreachable) as error:
            found.append(str(error))
        try:
            async for _ in client.watch(WORKLOADS, since="1"):
                pass
        except (ApiError, Unreachable) as error:
            found.append(str(error))
        return found

    return asyncio.run(story())


def test_a_server_cannot_make_the_manager_repeat_its_credentials() -> None:
    for text in failures(Line()):
        assert "c4n4ry" not in text
        assert "you sent (hidden)" in text


def test_requests_are_counted_by_the_name_of_the_cluster_and_not_by_its_address() -> None:
    hosts: list[str] = []

    def count(transport: Transport, host: str) -> Transport:
        hosts.append(host)
        return Line()

    async def story() -> None:
        there = Connection(server="https://user:c4n4ry@c4n4ry.example.com")
        client = worker_client(there, SystemClock(), name="lab", count=count)
        with pytest.raises(ApiError):
            await client.list(WORKLOADS)

    asyncio.run(story())
    assert ["multikueuecluster/lab"] == hosts


def test_a_closed_client_is_an_unreachable_cluster() -> None:
    async def story() -> None:
        client = Client(WorkerTransport(Line(), frozenset()))
        await client.close()
        with pytest.raises(Unreachable, match="the connection was closed"):
            await client.create(WORKLOADS, {"metadata": {"namespace": "a", "name": "b"}})

    asyncio.run(story())


def test_a_worker_that_sends_too_much_is_reported() -> None:
    for text in failures(Line(ResponseTooLarge("body", MOST_BYTES))):
        assert text.endswith("the server sent too much")


def test_every_request_is_bounded_in_time() -> None:
    line = Line()
    failures(line)
    assert [REQUEST_TIMEOUT_S] == line.limits


def mismatch() -> ssl.SSLCertVerificationError:
    error = ssl.SSLCertVerificationError("c4n4ry")
    error.verify_code, error.verify_message = 62, "not valid for c4n4ry"
    return error


def untrusted() -> ssl.SSLCertVerificationError:
    error = ssl.SSLCertVerificationError("c4n4ry")
    error.verify_code, error.verify_message = 10, "certificate has expired"
    return error


@pytest.mark.parametrize(
    ("cause", "text"),
    [
        (ConnectionRefusedError("c4n4ry"), "the connection was refused"),
        (TimeoutError("c4n4ry"), "did not respond in time"),
        (socket.gaierror("c4n4ry"), "host name cannot be resolved"),
        (mismatch(), "certificate is for another host"),
        (untrusted(), "not trusted: certificate has expired"),
        (ConnectionResetError("c4n4ry"), "the connection broke"),
    ],
)
def test_an_unreachable_server_is_explained_without_its_address(
    cause: OSError, text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kuota.kube.retry.ATTEMPTS", 1)
    for found in failures(Line(cause)):
        assert text in found
        assert "c4n4ry" not in found
        assert text in explained(Unreachable(found))


def test_unusable_certificates_are_not_quoted() -> None:
    assert "c4n4ry" not in explained(ConfigError("c4n4ry"))
    assert "c4n4ry" not in explained(ApiError(500, "InternalError", "c4n4ry"))
    assert "c4n4ry" not in explained(ValueError("c4n4ry"))


def test_a_cluster_that_never_responded_is_not_tried_again() -> None:
    line = Line(ConnectionRefusedError())
    failures(line)
    assert len(line.limits) == 1
