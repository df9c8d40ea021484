# SPDX-License-Identifier: Apache-2.0
"""Services, APIServices, the NetworkPolicy and the ServiceMonitor of the controller."""

from __future__ import annotations

from kuota.api.base import Json

from .settings import CONTROLLER, SELECTED, Settings, named, named_object

WEBHOOK_SERVICE = named("webhook-service")
METRICS_SERVICE = named("controller-manager-metrics-service")
VISIBILITY_SERVICE = named("visibility-server")
WEBHOOK_PORT, METRICS_PORT, VISIBILITY_PORT, PROBE_PORT = 9443, 8443, 8082, 8081
EXPLANATIONS = "visibility.kuota.dev"
HISTORY = "history.kuota.dev"
AGGREGATED = (
    ("v1beta1", "visibility.kueue.x-k8s.io"),
    ("v1beta2", "visibility.kueue.x-k8s.io"),
    ("v1alpha1", EXPLANATIONS),
)
"""Version and group of each API that the controller serves behind the API server."""


def services(settings: Settings) -> list[Json]:
    # Scrapers use the additional label to find the right Service.
    scraped = {"control-plane": SELECTED["control-plane"]}
    return [
        _service(settings, WEBHOOK_SERVICE, 443, WEBHOOK_PORT, {}),
        _service(settings, METRICS_SERVICE, METRICS_PORT, METRICS_PORT, scraped),
        _service(settings, VISIBILITY_SERVICE, 443, VISIBILITY_PORT, {}),
    ]


def _service(settings: Settings, name: str, port: int, target: int, labels: dict[str, str]) -> Json:
    entry = {"name": "https", "port": port, "protocol": "TCP", "targetPort": target}
    return named_object(
        "v1",
        "Service",
        name,
        namespace=settings.namespace,
        labels=labels,
        spec={"ports": [entry], "selector": SELECTED, "type": "ClusterIP"},
    )


def api_services(settings: Settings) -> list[Json]:
    """The APIServices of positions and explanations. The controller writes their CA bundle."""
    return [api_service(settings, *each, VISIBILITY_SERVICE) for each in AGGREGATED]


def api_service(settings: Settings, version: str, group: str, service: str) -> Json:
    """An APIService of one version of a group."""
    return named_object(
        "apiregistration.k8s.io/v1",
        "APIService",
        f"{version}.{group}",
        spec={
            "group": group,
            "version": version,
            "groupPriorityMinimum": 100,
            "versionPriority": 100,
            "service": {"name": service, "namespace": settings.namespace, "port": 443},
        },
    )


def network_policy(settings: Settings) -> list[Json]:
    """Allows only the served ports, from any source, because API servers are not pods."""
    if not settings.network_policy:
        return []
    ports = [
        {"port": port, "protocol": "TCP"} for port in (WEBHOOK_PORT, METRICS_PORT, VISIBILITY_PORT)
    ]
    return [
        named_object(
            "networking.k8s.io/v1",
            "NetworkPolicy",
            CONTROLLER,
            namespace=settings.namespace,
            spec={
                "podSelector": {"matchLabels": SELECTED},
                "policyTypes": ["Ingress"],
                "ingress": [{"ports": ports}],
            },
        )
    ]


def service_monitor(settings: Settings) -> list[Json]:
    """For clusters with the Prometheus operator."""
    if not settings.service_monitor:
        return []
    endpoint = {
        "bearerTokenFile": "/var/run/secrets/kubernetes.io/serviceaccount/token",
        "path": "/metrics",
        "port": "https",
        "scheme": "https",
        "tlsConfig": {"insecureSkipVerify": True},
    }
    return [
        named_object(
            "monitoring.coreos.com/v1",
            "ServiceMonitor",
            named("controller-manager-metrics-monitor"),
            namespace=settings.namespace,
            spec={"endpoints": [endpoint], "selector": {"matchLabels": SELECTED}},
        )
    ]
