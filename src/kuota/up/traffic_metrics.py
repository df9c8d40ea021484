# SPDX-License-Identifier: Apache-2.0
"""Metrics of clients: connections, streams, rejected requests, and what watches buffer."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from prometheus_client.metrics_core import Metric as Family
from prometheus_client.registry import Collector

from kuota.metrics.families import families
from kuota.metrics.metric import by_name, counter, gauge
from kuota.metrics.series import Series
from kuota.server.api import ApiServer
from kuota.server.http import HttpServer

_CONNECTIONS = "kuota_http_connections"
_CLOSED = "kuota_http_connections_closed_total"
_REJECTED = "apiserver_flowcontrol_rejected_requests_total"
_EXECUTING = "apiserver_flowcontrol_current_executing_requests"
_WAITING = "apiserver_flowcontrol_current_inqueue_requests"
_STREAMS = "kuota_streams"
_ENDED = "kuota_streams_ended_total"
_EXPIRED = "kuota_watches_expired_total"
_BUFFERED = "kuota_watch_buffered_bytes"
_LOG = "kuota_change_log_bytes"

METRICS = by_name(
    gauge(_CONNECTIONS, "state", "Number of open connections, by whether they authenticated"),
    counter(_CLOSED, "reason", "Connections that a limit closed or rejected"),
    counter(_REJECTED, "reason", "Requests that were rejected with status 429"),
    gauge(_EXECUTING, "", "Number of requests in progress"),
    gauge(_WAITING, "", "Number of requests that wait for their turn"),
    gauge(_STREAMS, "", "Number of open watches and logs of clients"),
    counter(_ENDED, "reason", "Watches and logs that the server ended"),
    counter(_EXPIRED, "", "Watches that ended with status 410 because they fell behind"),
    gauge(_BUFFERED, "", "Size of the changes that watches have not read yet, in bytes"),
    gauge(_LOG, "", "Size of the log of changes, in bytes"),
)


class TrafficFamilies(Collector):
    """Collects the metrics of one server."""

    def __init__(self, api: ApiServer, http: HttpServer) -> None:
        self._api = api
        self._http = http
        self._series = Series(METRICS)

    def collect(self) -> Iterator[Family]:
        self._read()
        yield from families(METRICS, self._series)

    def _read(self) -> None:
        put, http = self._series.put, self._http
        put(_CONNECTIONS, http.connections.anonymous, "anonymous")
        put(_CONNECTIONS, len(http.connections) - http.connections.anonymous, "authenticated")
        put(_EXECUTING, http.slots.executing)
        put(_WAITING, self._api.turns.waiting)
        put(_STREAMS, len(http.streams))
        put(_EXPIRED, self._api.watching.expired)
        put(_BUFFERED, self._api.store.buffered_bytes)
        put(_LOG, self._api.store.sizes.log_bytes)
        for name, counts in (
            (_CLOSED, http.connections.counts),
            (_REJECTED, http.slots.rejected),
            (_ENDED, http.streams.ended),
        ):
            self._put_all(name, counts)

    def _put_all(self, name: str, counts: Counter[str]) -> None:
        for reason, count in counts.items():
            self._series.put(name, count, reason)
