# SPDX-License-Identifier: Apache-2.0
"""The history on a cluster: a Deployment of its own, its volume or database, and its API.

There is one pod, because a volume usually belongs to one node. While it is replaced nothing is
lost: the next pod continues from the last change that was recorded.
"""

from __future__ import annotations

from hashlib import sha256

from kuota.api.base import Json
from kuota.api.config.shapes import CONFIG_KEY

from .deployment import (
    CONFIG_MAP,
    DIGEST,
    container_security,
    device_arguments,
    pod_security,
    probe,
)
from .network import HISTORY, PROBE_PORT, VISIBILITY_PORT, api_service
from .rbac import history_roles
from .settings import (
    HISTORY_ACCOUNT,
    HISTORY_SECRET,
    PREFIX,
    Settings,
    named,
    named_object,
)

SERVICE = named("history-server")
_FOLDER = "/var/lib/kuota"
_LABELS = {"app.kubernetes.io/component": "history", "app.kubernetes.io/name": PREFIX}
_SELECTOR = {"matchLabels": _LABELS}
_IMAGE_USER = 65532


def history(settings: Settings) -> list[Json]:
    """Everything but the APIService, which exists only if the history does."""
    if not settings.history:
        return []
    return [
        _object(settings, "v1", "ServiceAccount", HISTORY_ACCOUNT),
        *history_roles(settings),
        # The recorder stores its certificate in it.
        _object(settings, "v1", "Secret", HISTORY_SECRET),
        *_volume_claim(settings),
        _service(settings),
        *_network_policy(settings),
        _deployment(settings),
    ]


def history_api_service(settings: Settings) -> list[Json]:
    """The APIService. The recorder writes its CA bundle."""
    if not settings.history:
        return []
    return [api_service(settings, "v1alpha1", HISTORY, SERVICE)]


def _object(settings: Settings, version: str, kind: str, name: str, **content: object) -> Json:
    return named_object(
        version, kind, name, namespace=settings.namespace, labels=_LABELS, **content
    )


def _volume_claim(settings: Settings) -> list[Json]:
    """None if the records are in a database, or on a volume that exists."""
    if settings.history_secret or settings.history_claim:
        return []
    spec: Json = {
        "accessModes": ["ReadWriteOnce"],
        "resources": {"requests": {"storage": settings.history_size}},
    }
    if settings.history_storage_class:
        spec["storageClassName"] = settings.history_storage_class
    return [_object(settings, "v1", "PersistentVolumeClaim", HISTORY_ACCOUNT, spec=spec)]


def _service(settings: Settings) -> Json:
    port = {"name": "https", "port": 443, "protocol": "TCP", "targetPort": VISIBILITY_PORT}
    spec = {"ports": [port], "selector": _LABELS, "type": "ClusterIP"}
    return _object(settings, "v1", "Service", SERVICE, spec=spec)


def _network_policy(settings: Settings) -> list[Json]:
    if not settings.network_policy:
        return []
    spec = {
        "podSelector": _SELECTOR,
        "policyTypes": ["Ingress"],
        "ingress": [{"ports": [{"port": VISIBILITY_PORT, "protocol": "TCP"}]}],
    }
    return [_object(settings, "networking.k8s.io/v1", "NetworkPolicy", HISTORY_ACCOUNT, spec=spec)]


def _deployment(settings: Settings) -> Json:
    annotations = {DIGEST: sha256(settings.config.encode()).hexdigest()}
    spec = {
        "replicas": 1,
        # Two pods cannot mount the volume at the same time.
        "strategy": {"type": "Recreate"},
        "selector": _SELECTOR,
        "template": {
            "metadata": {"annotations": annotations, "labels": _LABELS},
            "spec": _pod(settings),
        },
    }
    return _object(settings, "apps/v1", "Deployment", HISTORY_ACCOUNT, spec=spec)


def _pod(settings: Settings) -> Json:
    volumes: list[Json] = [{"name": "manager-config", "configMap": {"name": CONFIG_MAP}}]
    if not settings.history_secret:
        claim = {"claimName": settings.history_claim or HISTORY_ACCOUNT}
        volumes.append({"name": "records", "persistentVolumeClaim": claim})
    return {
        "containers": [_container(settings)],
        "securityContext": pod_security() | {"fsGroup": _IMAGE_USER},
        "serviceAccountName": HISTORY_ACCOUNT,
        "terminationGracePeriodSeconds": 10,
        "volumes": volumes,
    }


def _container(settings: Settings) -> Json:
    config = {
        "mountPath": f"/{CONFIG_KEY}",
        "name": "manager-config",
        "readOnly": True,
        "subPath": CONFIG_KEY,
    }
    database: Json = {"name": "KUOTA_HISTORY_DATABASE", "value": f"{_FOLDER}/history.db"}
    mounts: list[Json] = [config, {"mountPath": _FOLDER, "name": "records"}]
    if settings.history_secret:
        key = {"name": settings.history_secret, "key": "url"}
        database = {"name": database["name"], "valueFrom": {"secretKeyRef": key}}
        mounts = [config]
    return {
        "name": "history",
        "image": settings.image,
        "imagePullPolicy": settings.pull_policy,
        "command": ["/manager"],
        "args": [
            f"--config=/{CONFIG_KEY}",
            "--parts=history",
            "--record-authors",
            *device_arguments(settings),
        ],
        "env": [database],
        "ports": [{"containerPort": VISIBILITY_PORT, "name": "history", "protocol": "TCP"}],
        "livenessProbe": probe("/healthz", PROBE_PORT, delay_s=15, period_s=20),
        "readinessProbe": probe("/readyz", PROBE_PORT, delay_s=1, period_s=5),
        "resources": {
            "limits": {"cpu": "1", "memory": "512Mi"},
            "requests": {"cpu": "50m", "memory": "128Mi"},
        },
        "securityContext": container_security(),
        "volumeMounts": mounts,
    }
