# SPDX-License-Identifier: Apache-2.0
"""The Deployment of the dashboard, with a role of its own that can read what pages show.

The role reads no Secrets. Logs, Events, explanations and the history are read, and actions carried
out, with the token of the viewer. Viewers behind an authenticating proxy have no token here. For
them the role has the same permissions, which the dashboard uses after a review, and only if such a
proxy is configured.
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
from .network import EXPLANATIONS, METRICS_PORT, PROBE_PORT
from .rbac import job_plurals
from .settings import PREFIX, Settings, named, named_object

DASHBOARD = named("dashboard")
DASHBOARD_PORT = 8444
CERTIFICATES = "/etc/kuota/dashboard/certs"
CERTIFICATE_SECRET = named("dashboard-cert")
PROXY_AUTHORITY = "/etc/kuota/dashboard/proxy"
SELECTED = {
    "app.kubernetes.io/component": "dashboard",
    "app.kubernetes.io/name": PREFIX,
}
_RBAC = "rbac.authorization.k8s.io"
_KUEUE = "kueue.x-k8s.io"
_AUTHORITY = "ca.crt"
_WATCH = ["get", "list", "watch"]


def dashboard(settings: Settings) -> list[Json]:
    """All objects of the dashboard; none unless it is enabled."""
    if not settings.dashboard:
        return []
    return [
        named_object("v1", "ServiceAccount", DASHBOARD, namespace=settings.namespace),
        *_roles(settings),
        _service(settings),
        *_network_policy(settings),
        _deployment(settings),
    ]


def dashboard_rules(*, actions: bool, proxy: bool = False) -> list[Json]:
    """What the dashboard itself may do, with actions and with an authenticating proxy."""
    quota = ["admissionchecks", "clusterqueues", "cohorts", "localqueues", "resourceflavors"]
    quota += ["topologies", "workloadpriorityclasses", "workloads"]
    rules = [
        _rule("", ["nodes", "pods"], _WATCH),
        _rule(_KUEUE, quota, _WATCH),
        # Viewers are authenticated and authorized by the API server.
        _rule("authentication.k8s.io", ["tokenreviews"], ["create"]),
        _rule("authorization.k8s.io", ["subjectaccessreviews"], ["create"]),
    ]
    if actions:
        # The Event that names the user of an action.
        rules.append(_rule("", ["events"], ["create"]))
    if proxy:
        rules.append(_rule("", ["pods/log"], ["get"]))
        rules.append(_rule(EXPLANATIONS, ["workloads/explanation"], ["get"]))
        rules.append(_rule("", ["events"], ["list"]))
    if actions and proxy:
        # The ValidatingAdmissionPolicy of `dashboard_policy` limits which fields.
        rules += [_rule(group, plurals, ["patch"]) for group, plurals in patched().items()]
    return rules


def patched() -> dict[str, list[str]]:
    """What actions change, by API group: queues, Workloads, and jobs, which have a priority."""
    return {_KUEUE: ["clusterqueues", "localqueues", "workloads"], **job_plurals()}


def _rule(group: str, resources: list[str], verbs: list[str]) -> Json:
    return {"apiGroups": [group], "resources": resources, "verbs": verbs}


def _roles(settings: Settings) -> list[Json]:
    name = named("dashboard-role")
    return [
        named_object(
            f"{_RBAC}/v1",
            "ClusterRole",
            name,
            rules=dashboard_rules(
                actions=settings.dashboard_actions, proxy=bool(settings.dashboard_proxy_secret)
            ),
        ),
        named_object(
            f"{_RBAC}/v1",
            "ClusterRoleBinding",
            named("dashboard-rolebinding"),
            roleRef={"apiGroup": _RBAC, "kind": "ClusterRole", "name": name},
            subjects=[
                {"kind": "ServiceAccount", "name": DASHBOARD, "namespace": settings.namespace}
            ],
        ),
    ]


def _service(settings: Settings) -> Json:
    port = {"name": "https", "port": 443, "protocol": "TCP", "targetPort": DASHBOARD_PORT}
    return named_object(
        "v1",
        "Service",
        DASHBOARD,
        namespace=settings.namespace,
        labels=SELECTED,
        spec={"ports": [port], "selector": SELECTED, "type": "ClusterIP"},
    )


def _network_policy(settings: Settings) -> list[Json]:
    if not settings.network_policy:
        return []
    ports = [{"port": port, "protocol": "TCP"} for port in (DASHBOARD_PORT, METRICS_PORT)]
    return [
        named_object(
            "networking.k8s.io/v1",
            "NetworkPolicy",
            DASHBOARD,
            namespace=settings.namespace,
            spec={
                "podSelector": {"matchLabels": SELECTED},
                "policyTypes": ["Ingress"],
                "ingress": [{"ports": ports}],
            },
        )
    ]


def _deployment(settings: Settings) -> Json:
    """One replica: sessions are kept in its memory."""
    annotations = {DIGEST: sha256(settings.config.encode()).hexdigest()}
    return named_object(
        "apps/v1",
        "Deployment",
        DASHBOARD,
        namespace=settings.namespace,
        labels=SELECTED,
        spec={
            "replicas": 1,
            "strategy": {"type": "Recreate"},
            "selector": {"matchLabels": SELECTED},
            "template": {
                "metadata": {"annotations": annotations, "labels": SELECTED},
                "spec": _pod(settings),
            },
        },
    )


def _volumes(settings: Settings) -> list[Json]:
    # Without this Secret of type kubernetes.io/tls, the certificate is self-signed.
    certificate = {"secretName": CERTIFICATE_SECRET, "optional": True}
    found: list[Json] = [
        {"name": "cert", "secret": certificate},
        {"name": "manager-config", "configMap": {"name": CONFIG_MAP}},
    ]
    if settings.dashboard_proxy_secret:
        # Of the Secret, only the certificate of the authority is mounted, never its key.
        items = [{"key": _AUTHORITY, "path": _AUTHORITY}]
        secret = {"secretName": settings.dashboard_proxy_secret, "items": items}
        found.append({"name": "proxy-ca", "secret": secret})
    return found


def _mounts(settings: Settings) -> list[Json]:
    found: list[Json] = [
        {"mountPath": CERTIFICATES, "name": "cert", "readOnly": True},
        {
            "mountPath": f"/{CONFIG_KEY}",
            "name": "manager-config",
            "readOnly": True,
            "subPath": CONFIG_KEY,
        },
    ]
    if settings.dashboard_proxy_secret:
        found.append({"mountPath": PROXY_AUTHORITY, "name": "proxy-ca", "readOnly": True})
    return found


def _pod(settings: Settings) -> Json:
    return {
        "containers": [_container(settings)],
        "securityContext": pod_security(),
        "serviceAccountName": DASHBOARD,
        "terminationGracePeriodSeconds": 10,
        "volumes": _volumes(settings),
    }


def _arguments(settings: Settings) -> list[str]:
    found = [f"--config=/{CONFIG_KEY}", "--parts=dashboard"]
    found.append(f"--zap-log-level={settings.log_level}")
    if settings.feature_gates:
        found.append(f"--feature-gates={settings.feature_gates}")
    if settings.dashboard_actions:
        found.append("--dashboard-actions")
    if settings.dashboard_proxy_secret:
        found.append(f"--dashboard-proxy-ca={PROXY_AUTHORITY}/{_AUTHORITY}")
    if settings.dashboard_proxy_names:
        found.append(f"--dashboard-proxy-names={settings.dashboard_proxy_names}")
    return found + device_arguments(settings)


def _container(settings: Settings) -> Json:
    return {
        "name": "dashboard",
        "image": settings.image,
        "imagePullPolicy": settings.pull_policy,
        "command": ["/manager"],
        "args": _arguments(settings),
        "ports": [{"containerPort": DASHBOARD_PORT, "name": "https", "protocol": "TCP"}],
        "livenessProbe": probe("/healthz", PROBE_PORT, delay_s=15, period_s=20),
        "readinessProbe": probe("/readyz", PROBE_PORT, delay_s=1, period_s=5),
        "resources": {
            "limits": {"cpu": "1", "memory": "512Mi"},
            "requests": {"cpu": "50m", "memory": "128Mi"},
        },
        "securityContext": container_security(),
        "volumeMounts": _mounts(settings),
    }
