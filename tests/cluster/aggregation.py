# SPDX-License-Identifier: Apache-2.0
"""What tells an API server that a group of its API is answered on this machine."""

from __future__ import annotations

from kuota.api.base import Json, Key
from kuota.visibility.pending import GROUP
from kuota.webhook.injection import API_SERVICES


def service(key: Key) -> Json:
    """A service that is this machine."""
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"namespace": key.namespace, "name": key.name},
        "spec": {"type": "ExternalName", "externalName": "localhost"},
    }


def api_service(version: str, service: Key, port: int, **trust: str) -> Json:
    """The group of the visibility API, in one version."""
    return {
        "apiVersion": API_SERVICES.api_version,
        "kind": API_SERVICES.kind,
        "metadata": {"name": f"{version}.{GROUP}"},
        "spec": {
            "group": GROUP,
            "version": version,
            "groupPriorityMinimum": 100,
            "versionPriority": 100,
            "service": {"namespace": service.namespace, "name": service.name, "port": port},
            **trust,
        },
    }
