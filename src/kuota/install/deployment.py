# SPDX-License-Identifier: Apache-2.0
"""The Deployment of the controller and the objects that its pods use."""

from __future__ import annotations

from hashlib import sha256

from kuota.api.base import Json
from kuota.api.config.shapes import CONFIG_KEY

from .network import METRICS_PORT, PROBE_PORT, VISIBILITY_PORT, WEBHOOK_PORT
from .settings import CONTROLLER, SELECTED, Settings, named, named_object

CONFIG_MAP = named("manager-config")
SECRET = named("webhook-server-cert")
CERTIFICATES = "/tmp/k8s-webhook-server/serving-certs"
DIGEST = "kuota.dev/config-digest"


def namespace(settings: Settings) -> Json:
    return named_object(
        "v1",
        "Namespace",
        settings.namespace,
        labels={"pod-security.kubernetes.io/enforce": "restricted"},
    )


def service_account(settings: Settings) -> Json:
    return named_object("v1", "ServiceAccount", CONTROLLER, namespace=settings.namespace)


def config_map(settings: Settings) -> Json:
    return named_object(
        "v1",
        "ConfigMap",
        CONFIG_MAP,
        namespace=settings.namespace,
        data={CONFIG_KEY: settings.config},
    )


def secret(settings: Settings) -> Json:
    """An empty Secret. The controller, or the admin, stores certificates in it."""
    return named_object("v1", "Secret", SECRET, namespace=settings.namespace)


def disruption_budget(settings: Settings) -> list[Json]:
    """None for a single replica, whose pod could otherwise never be evicted."""
    if not settings.disruption_budget or settings.replicas < 2:
        return []
    return [
        named_object(
            "policy/v1",
            "PodDisruptionBudget",
            CONTROLLER,
            namespace=settings.namespace,
            spec={"minAvailable": 1, "selector": {"matchLabels": SELECTED}},
        )
    ]


def deployment(settings: Settings) -> Json:
    annotations = {
        # The controller reads its configuration at start. The hash makes a change restart it.
        DIGEST: sha256(settings.config.encode()).hexdigest(),
        "kubectl.kubernetes.io/default-container": "manager",
    }
    return named_object(
        "apps/v1",
        "Deployment",
        CONTROLLER,
        namespace=settings.namespace,
        labels=SELECTED,
        spec={
            "replicas": settings.replicas,
            "selector": {"matchLabels": SELECTED},
            "template": {
                "metadata": {"annotations": annotations, "labels": SELECTED},
                "spec": _pod(settings),
            },
        },
    )


def _pod(settings: Settings) -> Json:
    spec: Json = {
        "containers": [_container(settings)],
        "securityContext": pod_security(),
        "serviceAccountName": CONTROLLER,
        "terminationGracePeriodSeconds": 10,
        "topologySpreadConstraints": [
            {
                "labelSelector": {"matchLabels": SELECTED},
                "maxSkew": 1,
                "topologyKey": "kubernetes.io/hostname",
                "whenUnsatisfiable": "ScheduleAnyway",
            }
        ],
        "volumes": [
            {"name": "cert", "secret": {"secretName": SECRET}},
            {"name": "manager-config", "configMap": {"name": CONFIG_MAP}},
        ],
    }
    if settings.priority_class:
        spec["priorityClassName"] = settings.priority_class
    return spec


def device_arguments(settings: Settings) -> list[str]:
    """Where the utilization of GPUs is read, and when one is idle."""
    sources = (
        ("--dcgm-exporter", settings.dcgm_exporter),
        ("--dcgm-prometheus", settings.dcgm_prometheus),
        ("--dcgm-selector", settings.dcgm_selector if settings.dcgm_prometheus else ""),
    )
    found = [f"{flag}={text}" for flag, text in sources if text]
    if found:
        found += [f"--idle-below={settings.idle_below:g}", f"--idle-after={settings.idle_after}"]
    return found


def _container(settings: Settings) -> Json:
    arguments = [f"--config=/{CONFIG_KEY}", f"--zap-log-level={settings.log_level}"]
    if settings.feature_gates:
        arguments.append(f"--feature-gates={settings.feature_gates}")
    if settings.history:
        arguments.append("--record-authors")
    arguments += device_arguments(settings)
    return {
        "name": "manager",
        "image": settings.image,
        "imagePullPolicy": settings.pull_policy,
        "command": ["/manager"],
        "args": arguments,
        "ports": [
            _port("webhook-server", WEBHOOK_PORT),
            _port("metrics", METRICS_PORT),
            _port("visibility", VISIBILITY_PORT),
        ],
        "livenessProbe": probe("/healthz", PROBE_PORT, delay_s=15, period_s=20),
        "readinessProbe": probe("/readyz", PROBE_PORT, delay_s=1, period_s=5),
        "resources": {
            "limits": {"cpu": "2", "memory": "512Mi"},
            "requests": {"cpu": "250m", "memory": "256Mi"},
        },
        "securityContext": container_security(),
        "volumeMounts": [
            {"mountPath": CERTIFICATES, "name": "cert", "readOnly": True},
            {
                "mountPath": f"/{CONFIG_KEY}",
                "name": "manager-config",
                "readOnly": True,
                "subPath": CONFIG_KEY,
            },
        ],
    }


def pod_security() -> Json:
    """The security context of each pod."""
    return {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}}


def container_security() -> Json:
    """The security context of each container."""
    return {
        "allowPrivilegeEscalation": False,
        "capabilities": {"drop": ["ALL"]},
        "readOnlyRootFilesystem": True,
    }


def _port(name: str, port: int) -> Json:
    return {"containerPort": port, "name": name, "protocol": "TCP"}


def probe(path: str, port: int, *, delay_s: int, period_s: int) -> Json:
    """A probe by HTTP."""
    return {
        "httpGet": {"path": path, "port": port},
        "initialDelaySeconds": delay_s,
        "periodSeconds": period_s,
        "timeoutSeconds": 1,
        "successThreshold": 1,
        "failureThreshold": 3,
    }
