# SPDX-License-Identifier: Apache-2.0
"""Where the objects of an installation live on an API server."""

from __future__ import annotations

from kuota.api.base import Json
from kuota.kube.resources import (
    CONFIG_MAPS,
    CRDS,
    NAMESPACES,
    SECRETS,
    SERVICE_ACCOUNTS,
    SERVICES,
    Resource,
)

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
    Resource("policy", "v1", "poddisruptionbudgets", "PodDisruptionBudget"),
    Resource("networking.k8s.io", "v1", "networkpolicies", "NetworkPolicy"),
    Resource("monitoring.coreos.com", "v1", "servicemonitors", "ServiceMonitor"),
    Resource(_RBAC, "v1", "roles", "Role"),
    Resource(_RBAC, "v1", "rolebindings", "RoleBinding"),
    _of_cluster(_RBAC, "clusterroles", "ClusterRole"),
    _of_cluster(_RBAC, "clusterrolebindings", "ClusterRoleBinding"),
    _of_cluster(_FLOW, "flowschemas", "FlowSchema"),
    _of_cluster(_FLOW, "prioritylevelconfigurations", "PriorityLevelConfiguration"),
    _of_cluster(_ADMISSION, "mutatingwebhookconfigurations", "MutatingWebhookConfiguration"),
    _of_cluster(_ADMISSION, "validatingwebhookconfigurations", "ValidatingWebhookConfiguration"),
    _of_cluster("apiregistration.k8s.io", "apiservices", "APIService"),
)
_BY_KIND = {each.kind: each for each in _ALL}


def resource_of(obj: Json) -> Resource:
    """Where an object of an installation lives."""
    return _BY_KIND[obj["kind"]]
