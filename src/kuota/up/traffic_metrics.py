# SPDX-License-Identifier: Apache-2.0
"""Metrics of clients: connections, streams, rejected requests, and what watches buffer."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from prometheus_client.metrics_core import Metric as Family
from prometheus_client.registry import Collector

from kuota.metrics import machine_catalog as names
from kuota.metrics.families import families
from kuota.metrics.series import Series
from kuota.server.api import ApiServer
from kuota.server.http import HttpServer


class TrafficFamilies(Collector):
    """Collects the metrics of one server."""

    def __init__(self, api: ApiServer, http: HttpServer) -> None:
        self._api = api
        self._http = http
        self._series = Series(names.TRAFFIC_METRICS)

    def collect(self) -> Iterator[Family]:
        self._read()
        yield from families(names.TRAFFIC_METRICS, self._series)

    def _read(self) -> None:
        put, http = self._series.put, self._http
        put(names.CONNECTIONS, http.connections.anonymous, "anonymous")
        put(names.CONNECTIONS, len(http.connections) - http.connections.anonymous, "authenticated")
        put(names.EXECUTING, http.slots.executing)
        put(names.WAITING, self._api.fair_queue.waiting)
        put(names.STREAMS, len(http.streams))
        put(names.EXPIRED, self._api.watching.expired)
        put(names.BUFFERED, self._api.store.buffered_bytes)
        put(names.LOG, self._api.store.sizes.log_bytes)
        for name, counts in (
            (names.CLOSED, http.connections.counts),
            (names.REJECTED, http.slots.rejected),
            (names.ENDED, http.streams.ended),
        ):
            self._put_all(name, counts)

    def _put_all(self, name: str, counts: Counter[str]) -> None:
        for reason, count in counts.items():
            self._series.put(name, count, reason)
