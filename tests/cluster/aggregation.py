# SPDX-License-Identifier: Apache-2.0
"""Objects that make an API server forward the requests of a group to this machine."""

from __future__ import annotations

from kuota.api.base import Json, Key
from kuota.visibility.pending import GROUP
from kuota.webhook.injection import API_SERVICES


def service(key: Key) -> Json:
    """Return a Service that resolves to this machine."""
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"namespace": key.namespace, "name": key.name},
        "spec": {"type": "ExternalName", "externalName": "localhost"},
    }


def api_service(version: str, service: Key, port: int, group: str = GROUP, **trust: str) -> Json:
    """Return the APIService of one version of a group, by default of the visibility API."""
    return {
        "apiVersion": API_SERVICES.api_version,
        "kind": API_SERVICES.kind,
        "metadata": {"name": f"{version}.{group}"},
        "spec": {
            "group": group,
            "version": version,
            "groupPriorityMinimum": 100,
            "versionPriority": 100,
            "service": {"namespace": service.namespace, "name": service.name, "port": port},
            **trust,
        },
    }
