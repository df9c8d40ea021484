# SPDX-License-Identifier: Apache-2.0
"""Counts what a process does: requests, reconciliations and their duration."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing
from http import HTTPStatus
from typing import TypeVar
from urllib.parse import urlsplit

from kuota.kube.clock import Clock, SystemClock
from kuota.kube.errors import ApiError, Unreachable
from kuota.kube.requests import HttpRequest, HttpResponse, Transport

from .runtime_catalog import ERRORS, PASSES, REQUESTS, RUNTIME_METRICS, TOOK
from .series import Series

N = TypeVar("N")
Reconcile = Callable[[N], Awaitable[float | None]]
_DEFINED = frozenset(HTTPStatus)


class Runtime:
    """Counts from the start of a process. `Metrics.show_process` exposes the counters."""

    def __init__(self, clock: Clock | None = None) -> None:
        self.series = Series(RUNTIME_METRICS)
        self._clock = clock or SystemClock()

    def instrument(self, controller: str, reconcile: Reconcile[N]) -> Reconcile[N]:
        """Return the reconciler, counted and timed."""

        async def counted(name: N) -> float | None:
            began = self._clock.monotonic()
            result = "error"
            try:
                requeue_after_s = await reconcile(name)
                result = "success" if requeue_after_s is None else "requeue_after"
                return requeue_after_s
            finally:
                self.series.add(PASSES, controller, result)
                if result == "error":
                    self.series.add(ERRORS, controller)
                self.series.observe(TOOK, self._clock.monotonic() - began, controller)

        return counted

    def transport(self, inner: Transport, host: str) -> Transport:
        """Return the transport with its requests counted for this value of the label `host`."""
        return _Counted(inner, self.series, host)


def host_of(server: str) -> str:
    """Return the host and the port of a URL, without the credentials that it may contain."""
    return urlsplit(server).netloc.rpartition("@")[2]


class _Counted:
    """A transport that counts responses by status code, or "<error>" without a response.

    Codes that HTTP does not define are counted together, because the server chooses them.
    """

    def __init__(self, inner: Transport, series: Series, host: str) -> None:
        self._inner = inner
        self._series = series
        self._host = host

    async def send(self, request: HttpRequest) -> HttpResponse:
        try:
            response = await self._inner.send(request)
        except Unreachable:
            self._count("<error>", request)
            raise
        self._count(_code(response.status), request)
        return response

    async def stream(self, request: HttpRequest) -> AsyncGenerator[bytes, None]:
        code = "200"
        try:
            async with aclosing(self._inner.stream(request)) as pieces:
                async for piece in pieces:
                    yield piece
        except ApiError as error:
            code = _code(error.status)
            raise
        except Unreachable:
            code = "<error>"
            raise
        finally:
            self._count(code, request)

    async def close(self) -> None:
        await self._inner.close()

    def _count(self, code: str, request: HttpRequest) -> None:
        self._series.add(REQUESTS, code, self._host, request.method)


def _code(status: int) -> str:
    return str(status) if status in _DEFINED else "<unknown>"
