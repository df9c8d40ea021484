# SPDX-License-Identifier: Apache-2.0
"""All objects of an installation, in three groups, each in the order of application."""

from __future__ import annotations

import msgspec

from kuota.api.base import Json
from kuota.api.config.load import load
from kuota.api.crds import crds
from kuota.kube.resources import (
    CONFIG_MAPS,
    CRDS,
    NAMESPACES,
    SECRETS,
    SERVICE_ACCOUNTS,
    SERVICES,
    Resource,
)
from kuota.webhook.manifests import configurations

from .dashboard import dashboard
from .dashboard_policy import dashboard_policy
from .deployment import (
    config_map,
    deployment,
    disruption_budget,
    namespace,
    secret,
    service_account,
)
from .fairness import fairness
from .history import history, history_api_service
from .monitoring.objects import grafana_dashboards, prometheus_rule
from .network import WEBHOOK_SERVICE, api_services, network_policy, service_monitor, services
from .queue_policy import queue_policy
from .rbac import controller_roles, people_roles
from .settings import LABELS, Settings


def webhook_configurations(settings: Settings) -> list[Json]:
    """The webhook configurations. Raises Invalid if the configuration cannot be read."""
    config = load(settings.config, settings.namespace)
    selector = config.managed_jobs_namespace_selector
    made = configurations(
        settings.namespace,
        WEBHOOK_SERVICE,
        config.integrations.frameworks or () if config.integrations else (),
        namespace_selector=msgspec.to_builtins(selector) if selector is not None else None,
        reinvocation=settings.reinvocation,
    )
    return [each | {"metadata": each["metadata"] | {"labels": dict(LABELS)}} for each in made]


def objects(settings: Settings) -> list[Json]:
    return [
        *definitions(settings),
        *parts(settings),
        *hooks(settings),
    ]


def definitions(settings: Settings) -> list[Json]:
    """The CustomResourceDefinitions, converted through the Service of this installation."""
    return [_located(each, settings) for each in crds()]


def parts(settings: Settings) -> list[Json]:
    return [
        namespace(settings),
        service_account(settings),
        *people_roles(),
        *controller_roles(settings),
        config_map(settings),
        secret(settings),
        *services(settings),
        *network_policy(settings),
        *disruption_budget(settings),
        *fairness(settings),
        deployment(settings),
        *dashboard_policy(settings),
        *dashboard(settings),
        *history(settings),
        *service_monitor(settings),
        *prometheus_rule(settings),
        *grafana_dashboards(settings),
    ]


def hooks(settings: Settings) -> list[Json]:
    return [
        *webhook_configurations(settings),
        *queue_policy(settings),
        *api_services(settings),
        *history_api_service(settings),
    ]


def _located(definition: Json, settings: Settings) -> Json:
    metadata = definition["metadata"] | {"labels": dict(LABELS)}
    spec = definition["spec"]
    if "webhook" in spec["conversion"]:
        service = {
            "name": WEBHOOK_SERVICE,
            "namespace": settings.namespace,
            "path": "/convert",
        }
        webhook = spec["conversion"]["webhook"] | {"clientConfig": {"service": service}}
        spec = spec | {"conversion": {"strategy": "Webhook", "webhook": webhook}}
    return definition | {"metadata": metadata, "spec": spec}


DEPLOYMENTS = Resource("apps", "v1", "deployments", "Deployment")


def _of_cluster(group: str, plural: str, kind: str) -> Resource:
    return Resource(group, "v1", plural, kind, namespaced=False)


_RBAC = "rbac.authorization.k8s.io"
_FLOW = "flowcontrol.apiserver.k8s.io"
_ADMISSION = "admissionregistration.k8s.io"

_ALL = (
    NAMESPACES,
    CRDS,
    SERVICE_ACCOUNTS,
    CONFIG_MAPS,
    SECRETS,
    SERVICES,
    DEPLOYMENTS,
    Resource("", "v1", "persistentvolumeclaims", "PersistentVolumeClaim"),
    Resource("policy", "v1", "poddisruptionbudgets", "PodDisruptionBudget"),
    Resource("networking.k8s.io", "v1", "networkpolicies", "NetworkPolicy"),
    Resource("monitoring.coreos.com", "v1", "servicemonitors", "ServiceMonitor"),
    Resource("monitoring.coreos.com", "v1", "prometheusrules", "PrometheusRule"),
    Resource(_RBAC, "v1", "roles", "Role"),
    Resource(_RBAC, "v1", "rolebindings", "RoleBinding"),
    _of_cluster(_RBAC, "clusterroles", "ClusterRole"),
    _of_cluster(_RBAC, "clusterrolebindings", "ClusterRoleBinding"),
    _of_cluster(_FLOW, "flowschemas", "FlowSchema"),
    _of_cluster(_FLOW, "prioritylevelconfigurations", "PriorityLevelConfiguration"),
    _of_cluster(_ADMISSION, "mutatingwebhookconfigurations", "MutatingWebhookConfiguration"),
    _of_cluster(_ADMISSION, "validatingwebhookconfigurations", "ValidatingWebhookConfiguration"),
    _of_cluster(_ADMISSION, "validatingadmissionpolicies", "ValidatingAdmissionPolicy"),
    _of_cluster(
        _ADMISSION, "validatingadmissionpolicybindings", "ValidatingAdmissionPolicyBinding"
    ),
    _of_cluster("apiregistration.k8s.io", "apiservices", "APIService"),
)
_BY_KIND = {each.kind: each for each in _ALL}


def resource_of(obj: Json) -> Resource:
    """The resource of an object of an installation."""
    return _BY_KIND[obj["kind"]]
