# SPDX-License-Identifier: Apache-2.0
"""Clients for worker clusters: every request is bounded in time, and no error reveals credentials.

A worker's API server is not trusted with the manager's logs: it might return the credentials that
were sent to it, and errors of the network name its address. So both are removed here, before any
code can log them or write them to an object.
"""

from __future__ import annotations

import socket
import ssl
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing

from msgspec.structs import replace

from kuota.kube.client import Client
from kuota.kube.clock import Clock
from kuota.kube.config import Connection
from kuota.kube.errors import (
    ApiError,
    ConfigError,
    Forbidden,
    KubeError,
    NotFound,
    Unauthorized,
    Unreachable,
)
from kuota.kube.http_client import HttpTransport
from kuota.kube.http_connection import ResponseTooLarge
from kuota.kube.requests import HttpRequest, HttpResponse, Transport

REQUEST_TIMEOUT_S = 15.0
"""The longest time that a worker cluster may take for a request other than a watch."""
MOST_BYTES = 64 << 20
"""The largest response of a worker cluster: a page of its objects."""
_HIDDEN = b"(hidden)"
_FAILED = 300
_MISMATCHES = (62, 64)
"""The codes of OpenSSL for a certificate of another host name or address."""


CountRequests = Callable[[Transport, str], Transport]
"""Returns the transport with its requests counted for a host."""


def uncounted(transport: Transport, host: str) -> Transport:
    return transport


def worker_client(
    connection: Connection,
    clock: Clock,
    may_write: Callable[[], bool] | None = None,
    *,
    name: str = "",
    count: CountRequests = uncounted,
) -> Client:
    """Return a client for a worker cluster. Raises ConfigError for unusable certificates.

    Its requests are counted by the name of the MultiKueueCluster. The address is a part of the
    kubeconfig, and whoever writes that could create any number of time series.
    """
    line = HttpTransport(connection, clock, agent="kuota-multikueue", most_bytes=MOST_BYTES)
    counted = count(line, f"multikueuecluster/{name}")
    transport = WorkerTransport(counted, _secrets(connection))
    return Client(transport, clock=clock, may_write=may_write, managed_fields=False)


class WorkerTransport:
    """A transport with a timeout, whose errors contain neither the address nor these secrets.

    Before its first response, a failure is final: its connection reports it and tries again later.
    """

    def __init__(self, inner: Transport, secrets: frozenset[bytes]) -> None:
        self._inner = inner
        self._secrets = secrets
        self._closed = False
        self._answered = False

    async def send(self, request: HttpRequest) -> HttpResponse:
        self._refuse_if_closed(request)
        limit_s = min(request.timeout_s or REQUEST_TIMEOUT_S, REQUEST_TIMEOUT_S)
        try:
            response = await self._inner.send(replace(request, timeout_s=limit_s))
        except Unreachable as error:
            raise _without_address(request, error, final=not self._answered) from None
        self._answered = True
        if response.status < _FAILED:
            return response
        return replace(response, body=self._hidden(response.body))

    async def stream(self, request: HttpRequest) -> AsyncGenerator[bytes, None]:
        self._refuse_if_closed(request)
        try:
            async with aclosing(self._inner.stream(request)) as chunks:
                async for chunk in chunks:
                    yield chunk
        except Unreachable as error:
            raise _without_address(request, error) from None
        except ApiError as error:
            text = self._hidden(error.message.encode()).decode(errors="replace")
            raise type(error)(
                error.status, error.reason, text, retry_after_s=error.retry_after_s
            ) from None

    async def close(self) -> None:
        self._closed = True
        await self._inner.close()

    def _refuse_if_closed(self, request: HttpRequest) -> None:
        """Raise Unreachable if the cluster was lost after somebody had obtained its client."""
        if self._closed:
            raise Unreachable(f"{request}: the connection was closed", sent=False)

    def _hidden(self, body: bytes) -> bytes:
        for each in self._secrets:
            body = body.replace(each, _HIDDEN)
        return body


def _secrets(connection: Connection) -> frozenset[bytes]:
    user = connection.user
    texts = (user.token, user.password, user.key.text, user.certificate.text)
    return frozenset(each.reveal().encode() for each in texts if each)


def _without_address(
    request: HttpRequest, error: Unreachable, *, final: bool = False
) -> Unreachable:
    return Unreachable(f"{request}: {network_cause(error)}", sent=error.sent, final=final)


def network_cause(error: Unreachable) -> str:
    """Return why a server gave no response, without its address."""
    match error.__cause__:
        case ssl.SSLCertVerificationError(verify_code=code) if code in _MISMATCHES:
            return "the server's certificate is for another host"
        case ssl.SSLCertVerificationError(verify_message=why):
            return f"the server's certificate is not trusted: {why}"
        case ssl.SSLError(reason=why):
            return f"the TLS handshake failed: {why}"
        case ConnectionRefusedError():
            return "the connection was refused"
        case TimeoutError():
            return "the server did not respond in time"
        case ResponseTooLarge():
            return "the server sent too much"
        case socket.gaierror():
            return "the server's host name cannot be resolved"
        case _:
            return "the connection broke"


ROLE = "apply the output of `kuota cluster role` to that cluster"
RENEW = "store a new kubeconfig"


def explained(error: Exception) -> str:
    """Return what is wrong with a cluster and what to do, without parts of its kubeconfig."""
    match error:
        case Unreachable():
            _, _, why = str(error).partition(": ")
            return f"no response from the cluster: {why or 'the connection broke'}"
        case ConfigError():
            return f"the certificates or keys of the kubeconfig are unusable; {RENEW}"
        case Unauthorized():
            return f"the cluster rejected the credentials, which may have expired; {RENEW}"
        case Forbidden():
            return f"the credentials lack rights in the cluster; {ROLE}"
        case NotFound():
            return "the cluster does not serve workloads.kueue.x-k8s.io; install Kueue or Kuota"
        case TimeoutError():
            return "the cluster did not send its objects in time"
        case ApiError():
            return f"the cluster failed to answer ({error.status} {error.reason})"
        case KubeError():
            return str(error)
        case _:
            return f"connecting failed: {type(error).__name__}"
