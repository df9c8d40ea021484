# SPDX-License-Identifier: Apache-2.0
"""The settings of an installation, and its fixed names."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Any

import msgspec

from kuota import __version__
from kuota.api.base import Json

from .configuration import CONFIG

NAMESPACE = "kueue-system"
PREFIX = "kueue"
REPOSITORY = "kuota"


class Settings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One installation. An empty priority class sets none."""

    namespace: str = NAMESPACE
    repository: str = REPOSITORY
    tag: str = __version__
    pull_policy: str = "IfNotPresent"
    replicas: int = 2
    log_level: int = 2
    feature_gates: str = ""
    priority_class: str = "system-cluster-critical"
    config: str = CONFIG
    fairness: bool = True
    service_monitor: bool = False
    alerts: bool = False
    grafana_dashboards: bool = False
    dcgm_exporter: str = ""
    dcgm_prometheus: str = ""
    dcgm_selector: str = ""
    idle_below: float = 5.0
    idle_after: int = 1800
    network_policy: bool = True
    disruption_budget: bool = True
    queue_name_policy: bool = False
    reinvocation: str = "Never"
    dashboard: bool = False
    dashboard_actions: bool = False
    dashboard_proxy_secret: str = ""
    """The Secret with the CA of authenticating proxies, in the key `ca.crt`."""
    dashboard_proxy_names: str = ""
    history: bool = False
    history_size: str = "10Gi"
    history_storage_class: str = ""
    history_claim: str = ""
    """An existing PersistentVolumeClaim for the records. Without one, a claim is created."""
    history_secret: str = ""
    """The Secret with the URL of a database, in the key `url`. Without one there is a volume."""

    @property
    def image(self) -> str:
        return (
            f"{self.repository}@{self.tag}" if ":" in self.tag else f"{self.repository}:{self.tag}"
        )


def everything(namespace: str) -> Settings:
    """The settings with which every optional object is installed, except volumes.

    The history has a database instead of a volume.
    """
    return Settings(
        namespace=namespace,
        service_monitor=True,
        alerts=True,
        grafana_dashboards=True,
        queue_name_policy=True,
        dashboard=True,
        dashboard_actions=True,
        dashboard_proxy_secret="any",
        history=True,
        history_secret="any",
    )


VALUES: Mapping[str, str] = {
    "controllerManager.replicas": "replicas",
    "controllerManager.manager.image.repository": "repository",
    "controllerManager.manager.image.tag": "tag",
    "controllerManager.manager.image.pullPolicy": "pull_policy",
    "controllerManager.manager.logLevel": "log_level",
    "controllerManager.manager.priorityClassName": "priority_class",
    "controllerManager.podDisruptionBudget.enabled": "disruption_budget",
    "alerts.enabled": "alerts",
    "grafanaDashboards.enabled": "grafana_dashboards",
    "deviceMetrics.dcgmExporter": "dcgm_exporter",
    "deviceMetrics.idleAfterSeconds": "idle_after",
    "deviceMetrics.idleBelowPercent": "idle_below",
    "deviceMetrics.prometheus": "dcgm_prometheus",
    "deviceMetrics.prometheusSelector": "dcgm_selector",
    "dashboard.actions": "dashboard_actions",
    "dashboard.enabled": "dashboard",
    "dashboard.proxy.caSecret": "dashboard_proxy_secret",
    "dashboard.proxy.names": "dashboard_proxy_names",
    "enablePrometheus": "service_monitor",
    "enableVisibilityAPF": "fairness",
    "history.enabled": "history",
    "history.persistence.existingClaim": "history_claim",
    "history.persistence.size": "history_size",
    "history.persistence.storageClassName": "history_storage_class",
    "history.database.existingSecret": "history_secret",
    "mutatingWebhook.reinvocationPolicy": "reinvocation",
    "networkPolicy.enabled": "network_policy",
    "queueNamePolicy.enabled": "queue_name_policy",
}
"""The name of each setting in the chart and here."""


class Unusable(ValueError):
    """Invalid settings. The message names the setting and the fix."""


def settings(
    chosen: Mapping[str, Any], values: Mapping[str, str] = MappingProxyType({})
) -> Settings:
    """The settings with the given values, which use the names of the chart."""
    unknown = sorted(set(values) - set(VALUES))
    if unknown:
        raise Unusable(f"unknown value {', '.join(unknown)}; known values: {', '.join(VALUES)}")
    named = {VALUES[name]: value for name, value in values.items()}
    try:
        made = msgspec.convert({**named, **chosen}, Settings, strict=False)
    except msgspec.ValidationError as error:
        raise Unusable(_worded(str(error))) from None
    faults = list(_faults(made))
    if faults:
        raise Unusable("\n".join(faults))
    return made


def _faults(made: Settings) -> Iterator[str]:
    if made.replicas < 0:
        yield "controllerManager.replicas: must not be negative"
    if made.dashboard_proxy_names and not made.dashboard_proxy_secret:
        yield "dashboard.proxy.names: needs dashboard.proxy.caSecret, the authority of these names"
    if made.history_claim and made.history_secret:
        yield (
            "history.persistence.existingClaim: the records are in the database of "
            "history.database.existingSecret; remove one of the two values"
        )
    if made.dcgm_prometheus and not made.dcgm_selector:
        yield (
            "deviceMetrics.prometheus: needs deviceMetrics.prometheusSelector, the labels of your "
            "dcgm-exporters, because every pod that Prometheus scrapes can claim to be one"
        )


def _worded(fault: str) -> str:
    """The message, prefixed with the chart's name of the setting."""
    text, _, where = fault.partition(" - at `$.")
    field = where.rstrip("`")
    return f"{next((n for n, own in VALUES.items() if own == field), field)}: {text}"


def named(suffix: str) -> str:
    return f"{PREFIX}-{suffix}"


HISTORY_ACCOUNT = named("history")
"""The name of the Deployment of the history, its ServiceAccount and related objects."""

HISTORY_SECRET = named("history-server-cert")
"""The Secret with the certificate of the history."""

CONTROLLER = named("controller-manager")
"""The name of the Deployment, its ServiceAccount and related objects."""

SELECTED = {
    "app.kubernetes.io/component": "controller",
    "app.kubernetes.io/name": PREFIX,
    "control-plane": "controller-manager",
}
"""The labels by which Services and the Deployment select pods.

The selector of a Deployment is immutable, so these are Kueue's.
"""

LABELS = {"app.kubernetes.io/component": "controller", "app.kubernetes.io/name": PREFIX}
"""The labels of all installed objects."""


def named_object(
    api_version: str,
    kind: str,
    name: str,
    *,
    namespace: str = "",
    labels: Mapping[str, str] = MappingProxyType({}),
    **content: Any,
) -> Json:
    """An object of the installation, with name, namespace and labels."""
    metadata: Json = {"name": name}
    if namespace:
        metadata["namespace"] = namespace
    metadata["labels"] = {**LABELS, **labels}
    return {"apiVersion": api_version, "kind": kind, "metadata": metadata, **content}
