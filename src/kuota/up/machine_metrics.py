# SPDX-License-Identifier: Apache-2.0
"""Serves `/metrics` of one machine: Kueue's metrics, and those of the server and the runner."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Iterator
from functools import partial

from prometheus_client import generate_latest
from prometheus_client.metrics_core import Metric as Family
from prometheus_client.registry import Collector

from kuota.api.kueue import GROUP as KUEUE
from kuota.api.status import not_allowed
from kuota.history.turns import ReportTurns
from kuota.metrics import machine_catalog as names
from kuota.metrics.families import CollectedFamilies, families
from kuota.metrics.http import CONTENT_TYPE, PATH
from kuota.metrics.metrics import Metrics
from kuota.metrics.series import Series
from kuota.metrics.visible import visible
from kuota.runner.runner import Runner
from kuota.server.api import ApiServer
from kuota.server.auth import METRICS_READERS, AccessAttributes, Roles
from kuota.server.requests import Request, Response, User
from kuota.server.status import no_such_path

_OTHER = "other"
_METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE")


class MachineFamilies(Collector):
    """Collects the metrics of the server and the runner. `sessions` counts streaming sessions."""

    def __init__(self, api: ApiServer, runner: Runner, sessions: Callable[[], int]) -> None:
        self._api = api
        self._runner = runner
        self._sessions = sessions
        self._series = Series(names.MACHINE_METRICS)

    def responded(self, request: Request, status: int, took_s: float) -> None:
        """Count a response. Labels are limited to what the server serves."""
        verb = request.method if request.method in _METHODS else _OTHER
        resource = self._resource(request.path)
        self._series.add(names.REQUESTS, verb, resource, str(status))
        self._series.observe(names.DURATION, took_s, verb, resource)

    def collect(self) -> Iterator[Family]:
        self._read()
        yield from families(names.MACHINE_METRICS, self._series)

    def _read(self) -> None:
        put, store = self._series.put, self._api.store
        self._series.keep(lambda metric, _: metric.name not in (names.OBJECTS, names.PODS))
        for resource, count in store.counts().items():
            put(names.OBJECTS, count, resource)
        put(names.BYTES, sum(_size(f"{store.path}{suffix}") for suffix in ("", "-wal")))
        put(names.WATCHERS, store.watchers)
        put(names.SESSIONS, self._sessions())
        nodes = Counter(str(each.pod["spec"].get("nodeName")) for each in self._runner.workers())
        for node, count in nodes.items():
            put(names.PODS, count, node)
        devices = self._runner.devices()
        allocated = Counter(each.resource for each in devices if each.holder)
        for resource, count in Counter(each.resource for each in devices).items():
            put(names.DEVICES, count, resource)
            put(names.ALLOCATED, allocated[resource], resource)

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
    """A `kuota.server.api.Extension` for Prometheus.

    Every user with a token may read it. Metrics of a team are shown to users who may list the
    Workloads of the namespace, and to the group `METRICS_READERS`.
    """

    prefix = PATH

    def __init__(self, metrics: Metrics, roles: Roles) -> None:
        self._metrics = metrics
        self._roles = roles
        self._turns = ReportTurns(at_once=1)

    def access(self, request: Request) -> AccessAttributes:
        return AccessAttributes(verb="get", path=request.path)

    async def answer(self, request: Request) -> Response:
        if request.path.rstrip("/") != PATH:
            raise no_such_path()
        if request.method not in ("GET", "HEAD"):
            raise not_allowed("metrics can only be read")
        body = await self._turns.run_prepared(request.user.flow, lambda: self._work(request.user))
        return Response(200, body, CONTENT_TYPE)

    def _work(self, user: User) -> Callable[[], bytes]:
        """Collect the metrics as of now, and return what encodes them."""
        return partial(generate_latest, self._shown(user))

    def _shown(self, user: User) -> CollectedFamilies:
        collected = self._metrics.collected()
        if METRICS_READERS in user.groups:
            return collected

        def may_see(namespace: str) -> bool:
            access = AccessAttributes(
                verb="list", group=KUEUE, resource="workloads", namespace=namespace
            )
            return self._roles.allows(user, access)

        return CollectedFamilies(list(visible(collected.collect(), may_see)))


def _size(path: str) -> int:
    try:
        return os.stat(path).st_size
    except OSError:
        return 0
