# SPDX-License-Identifier: Apache-2.0
"""Serves `/metrics` of one machine: Kueue's metrics, and those of the server and the runner."""

from __future__ import annotations

import asyncio
import os
from collections import Counter
from collections.abc import Callable, Iterator

from prometheus_client import generate_latest
from prometheus_client.metrics_core import Metric as Family
from prometheus_client.registry import Collector

from kuota.metrics.families import families
from kuota.metrics.http import CONTENT_TYPE, PATH
from kuota.metrics.metric import SHORT, by_name, counter, gauge, histogram
from kuota.metrics.metrics import Metrics
from kuota.metrics.series import Series
from kuota.runner.runner import Runner
from kuota.server.api import ApiServer
from kuota.server.auth import Access
from kuota.server.requests import Request, Response
from kuota.server.status import no_such_path, not_allowed

_REQUESTS = "apiserver_request_total"
_DURATION = "apiserver_request_duration_seconds"
_OBJECTS = "apiserver_storage_objects"
_BYTES = "apiserver_storage_size_bytes"
_WATCHERS = "apiserver_registered_watchers"
_SESSIONS = "kuota_streaming_sessions"
_PODS = "kuota_runner_pods"
_DEVICES = "kuota_runner_devices"
_ALLOCATED = "kuota_runner_devices_allocated"

METRICS = by_name(
    counter(_REQUESTS, "verb resource code", "Requests by HTTP method, resource and status"),
    histogram(SHORT, _DURATION, "verb resource", "Seconds until the response began"),
    gauge(_OBJECTS, "resource", "Number of stored objects"),
    gauge(_BYTES, "", "Size of the store with its log, in bytes"),
    gauge(_WATCHERS, "", "Number of open watches, including those of the controllers"),
    gauge(_SESSIONS, "", "Number of open sessions of exec, attach and port-forward"),
    gauge(_PODS, "node", "Number of pods that the runner works on"),
    gauge(_DEVICES, "resource", "Number of devices of this machine"),
    gauge(_ALLOCATED, "resource", "Number of devices that are allocated to pods"),
)
_OTHER = "other"
_METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE")


class MachineFamilies(Collector):
    """Collects the metrics of the server and the runner. `sessions` counts streaming sessions."""

    def __init__(self, api: ApiServer, runner: Runner, sessions: Callable[[], int]) -> None:
        self._api = api
        self._runner = runner
        self._sessions = sessions
        self._series = Series(METRICS)

    def responded(self, request: Request, status: int, took_s: float) -> None:
        """Count a response. Labels are limited to what the server serves."""
        verb = request.method if request.method in _METHODS else _OTHER
        resource = self._resource(request.path)
        self._series.add(_REQUESTS, verb, resource, str(status))
        self._series.observe(_DURATION, took_s, verb, resource)

    def collect(self) -> Iterator[Family]:
        self._read()
        yield from families(METRICS, self._series)

    def _read(self) -> None:
        put, store = self._series.put, self._api.store
        self._series.keep(lambda metric, _: metric.name not in (_OBJECTS, _PODS))
        for resource, count in store.counts().items():
            put(_OBJECTS, count, resource)
        put(_BYTES, sum(_size(f"{store.path}{suffix}") for suffix in ("", "-wal")))
        put(_WATCHERS, store.watchers)
        put(_SESSIONS, self._sessions())
        nodes = Counter(str(each.pod["spec"].get("nodeName")) for each in self._runner.workers())
        for node, count in nodes.items():
            put(_PODS, count, node)
        devices = self._runner.devices()
        allocated = Counter(each.resource for each in devices if each.holder)
        for resource, count in Counter(each.resource for each in devices).items():
            put(_DEVICES, count, resource)
            put(_ALLOCATED, allocated[resource], resource)

    def _resource(self, path: str) -> str:
        """The resource of a path, without the names of objects."""
        parts = path.strip("/").split("/")
        if parts[0] == "api" and len(parts) >= 3:
            group, version, rest = "", parts[1], parts[2:]
        elif parts[0] == "apis" and len(parts) >= 4:
            group, version, rest = parts[1], parts[2], parts[3:]
        else:
            return _OTHER
        if rest[0] == "namespaces" and len(rest) >= 3:
            rest = rest[2:]
        found = self._api.kinds.find(group, version, rest[0])
        return found[0].resource if found is not None else _OTHER


class MetricsExtension:
    """A `kuota.server.api.Extension` for Prometheus. Every user with a token may read it."""

    prefix = PATH

    def __init__(self, metrics: Metrics) -> None:
        self._metrics = metrics
        self._turn = asyncio.Lock()

    def access(self, request: Request) -> Access:
        return Access(verb="get", path=request.path)

    async def answer(self, request: Request) -> Response:
        if request.path.rstrip("/") != PATH:
            raise no_such_path()
        if request.method not in ("GET", "HEAD"):
            raise not_allowed("metrics can only be read")
        async with self._turn:
            body = await asyncio.to_thread(generate_latest, self._metrics.collected())
        return Response(200, body, CONTENT_TYPE)


def _size(path: str) -> int:
    try:
        return os.stat(path).st_size
    except OSError:
        return 0
