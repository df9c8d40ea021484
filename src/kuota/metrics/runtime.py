# SPDX-License-Identifier: Apache-2.0
"""Metrics of the process, under the usual names of controller-runtime and client-go."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing
from typing import TypeVar
from urllib.parse import urlsplit

from kuota.kube.clock import Clock, SystemClock
from kuota.kube.errors import ApiError, Unreachable
from kuota.kube.requests import HttpRequest, HttpResponse, Transport

from .metric import by_name, counter, gauge, histogram
from .series import Series

N = TypeVar("N")
Reconcile = Callable[[N], Awaitable[float | None]]

_TIMES = tuple(
    [0.005, 0.01, 0.025, 0.05]
    + [each / 100 for each in range(10, 50, 5)]
    + [each / 10 for each in range(5, 10)]
    + [1.0, 1.25, 1.5, 1.75, 2.0, 2.5, 3.0, 3.5, 4.0, 4.5]
    + [5.0, 6.0, 7.0, 8.0, 9.0, 10.0, 15.0, 20.0, 25.0, 30.0, 40.0, 50.0, 60.0]
)
_REQUESTS = "rest_client_requests_total"
_PASSES = "controller_runtime_reconcile_total"
_ERRORS = "controller_runtime_reconcile_errors_total"
_TOOK = "controller_runtime_reconcile_time_seconds"
DEPTH = "workqueue_depth"
MASTER = "leader_election_master_status"
BUGS = "kuota_internal_errors_total"

METRICS = by_name(
    counter(_REQUESTS, "code host method", "Requests to the API server"),
    counter(_PASSES, "controller result", "Reconciliations by result"),
    counter(_ERRORS, "controller", "Reconciliations that failed"),
    histogram(_TIMES, _TOOK, "controller", "Duration of reconciliations in seconds"),
    gauge(DEPTH, "name", "Number of names in the work queue"),
    gauge(MASTER, "name", "1 while this replica leads"),
    counter(BUGS, "where", "Unexpected errors, by the part of the program that failed"),
)


class Runtime:
    """Counts from the start of a process. `Metrics.show_process` exposes the counters."""

    def __init__(self, clock: Clock | None = None) -> None:
        self.series = Series(METRICS)
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
                self.series.add(_PASSES, controller, result)
                if result == "error":
                    self.series.add(_ERRORS, controller)
                self.series.observe(_TOOK, self._clock.monotonic() - began, controller)

        return counted

    def transport(self, inner: Transport, server: str) -> Transport:
        """Return the transport with its requests counted."""
        return _Counted(inner, self.series, urlsplit(server).netloc)


class _Counted:
    """A transport that counts responses by status code, or "<error>" without a response."""

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
        self._count(str(response.status), request)
        return response

    async def stream(self, request: HttpRequest) -> AsyncGenerator[bytes, None]:
        code = "200"
        try:
            async with aclosing(self._inner.stream(request)) as pieces:
                async for piece in pieces:
                    yield piece
        except ApiError as error:
            code = str(error.status)
            raise
        except Unreachable:
            code = "<error>"
            raise
        finally:
            self._count(code, request)

    async def close(self) -> None:
        await self._inner.close()

    def _count(self, code: str, request: HttpRequest) -> None:
        self._series.add(_REQUESTS, code, self._host, request.method)
