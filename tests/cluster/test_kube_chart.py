# SPDX-License-Identifier: Apache-2.0
"""A real API server accepts every object that Helm renders, with all optional features."""

from __future__ import annotations

import asyncio
from contextlib import suppress

from cluster.kube_server import KubeServer
from install.helm import rendered
from kuota.api.base import Json
from kuota.install.objects import resource_of
from kuota.kube.errors import AlreadyExists, NotFound
from kuota.kube.requests import PatchType, WriteOptions
from kuota.kube.resources import NAMESPACES, key_of

_NAMESPACE = "chart"
_OPERATOR = {"PrometheusRule", "ServiceMonitor"}
"""Kinds of the Prometheus operator, which this server does not have."""
_DRY_RUN = WriteOptions(manager="helm", force=True, validation="Strict", dry_run=True)
_FEATURES = (
    *("dashboard.enabled", "dashboard.actions", "history.enabled", "enablePrometheus"),
    *("alerts.enabled", "grafanaDashboards.enabled", "queueNamePolicy.enabled"),
)
_TEXTS = {
    "dashboard.proxy.caSecret": "proxy-ca",
    "dashboard.proxy.names": "proxy",
    "deviceMetrics.dcgmExporter": "http://dcgm.gpus:9400/metrics",
    "deviceMetrics.prometheus": "http://prometheus:9090",
    "deviceMetrics.prometheusSelector": 'job="dcgm"',
    "history.persistence.storageClassName": "fast",
}


def _objects(*more: str) -> list[Json]:
    flags = [f"--set={name}=true" for name in _FEATURES]
    flags += [f"--set={name}={value}" for name, value in _TEXTS.items()]
    return rendered(*flags, *more, namespace=_NAMESPACE)


def test_an_api_server_accepts_what_helm_renders(kube: KubeServer) -> None:
    database = _objects("--set=history.database.existingSecret=records")
    every = {f"{e['kind']}/{e['metadata']['name']}": e for e in (*database, *_objects())}

    async def story() -> None:
        async with kube.client() as admin:
            with suppress(AlreadyExists):
                await admin.create(NAMESPACES, {"metadata": {"name": _NAMESPACE}})
            unknown = set()
            for each in [*every.values(), *database]:
                try:
                    applied = await admin.patch(
                        resource_of(each), key_of(each), each, kind=PatchType.APPLY, **_DRY_RUN
                    )
                except NotFound:
                    unknown.add(each["kind"])
                    continue
                assert each["metadata"]["name"] == applied["metadata"]["name"]
            assert unknown <= _OPERATOR

    asyncio.run(story())
