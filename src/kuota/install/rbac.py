# SPDX-License-Identifier: Apache-2.0
"""What the controller itself may do: what its code does, and nothing more.

Each line of the table says what for. Objects that exist once (webhook configurations, definitions,
the lease, the one Secret) are granted by name.
"""

from __future__ import annotations

from kuota.api.base import Json
from kuota.api.crds import GROUP, KINDS
from kuota.webhook.manifests import MUTATING_NAME, VALIDATING_NAME

from .deployment import SECRET
from .network import api_services
from .settings import CONTROLLER, Settings, named, named_object

LEASE = "c1f6bfd2.kueue.x-k8s.io"
_RBAC = "rbac.authorization.k8s.io"
_API = f"{_RBAC}/v1"
_WATCH = "get list watch"

_RULES: tuple[tuple[str, str, str], ...] = (
    # What decisions depend on.
    ("", "namespaces nodes pods limitranges", _WATCH),
    ("scheduling.k8s.io", "priorityclasses", _WATCH),
    ("node.k8s.io", "runtimeclasses", _WATCH),
    # Pods that hang on lost nodes are failed and removed for good.
    ("", "pods", "delete"),
    ("", "pods/status", "patch"),
    # Jobs are released, suspended, and removed once nobody wants to keep them.
    ("batch", "jobs", f"{_WATCH} patch delete"),
    ("batch", "jobs/status", "patch"),
    # A Workload names its Job as an owner whose deletion it may hold up.
    ("batch", "jobs/finalizers", "update"),
    (GROUP, "workloads", f"{_WATCH} create patch delete"),
    # As a variant does its parent.
    (GROUP, "workloads/finalizers", "update"),
    (GROUP, "clusterqueues resourceflavors admissionchecks", f"{_WATCH} patch"),
    (GROUP, "localqueues cohorts topologies workloadpriorityclasses", _WATCH),
    (
        GROUP,
        "workloads/status clusterqueues/status localqueues/status cohorts/status "
        "admissionchecks/status",
        "patch",
    ),
    ("events.k8s.io", "events", "create patch"),
)


def controller_roles(settings: Settings) -> list[Json]:
    namespace = settings.namespace
    return [
        named_object(_API, "ClusterRole", named("manager-role"), rules=_manager_rules(settings)),
        _cluster_binding("manager-rolebinding", "manager-role", namespace),
        named_object(_API, "ClusterRole", named("metrics-auth-role"), rules=_review_rules()),
        _cluster_binding("metrics-auth-rolebinding", "metrics-auth-role", namespace),
        named_object(
            _API,
            "ClusterRole",
            named("metrics-reader"),
            rules=[{"nonResourceURLs": ["/metrics"], "verbs": ["get"]}],
        ),
        _role("leader-election-role", namespace, _lease_rules()),
        _binding("leader-election-rolebinding", "leader-election-role", namespace),
        _role(
            "manager-secrets-role", namespace, [_rule("", "secrets", f"{_WATCH} update", SECRET)]
        ),
        _binding("manager-secrets-rolebinding", "manager-secrets-role", namespace),
        named_object(
            _API,
            "RoleBinding",
            named("visibility-server-auth-reader"),
            namespace="kube-system",
            roleRef=_reference("Role", "extension-apiserver-authentication-reader"),
            subjects=_subjects(namespace),
        ),
    ]


def _manager_rules(settings: Settings) -> list[Json]:
    """The table, and where the controller writes which authority its certificates have."""
    converted = [f"{each.plural}.{GROUP}" for each in KINDS if each.converted]
    aggregated = [each["metadata"]["name"] for each in api_services(settings)]
    kinds = "mutatingwebhookconfigurations", "validatingwebhookconfigurations"
    return [
        *(_rule(group, plurals, verbs) for group, plurals, verbs in _RULES),
        _rule("admissionregistration.k8s.io", kinds[0], f"{_WATCH} update", MUTATING_NAME),
        _rule("admissionregistration.k8s.io", kinds[1], f"{_WATCH} update", VALIDATING_NAME),
        _rule("apiextensions.k8s.io", "customresourcedefinitions", f"{_WATCH} update", *converted),
        _rule("apiregistration.k8s.io", "apiservices", f"{_WATCH} update", *aggregated),
    ]


def _review_rules() -> list[Json]:
    """Who asks for metrics or for pending workloads, and whether they may."""
    return [
        _rule("authentication.k8s.io", "tokenreviews", "create"),
        _rule("authorization.k8s.io", "subjectaccessreviews", "create"),
    ]


def _lease_rules() -> list[Json]:
    # The name of what is created is not known to the authorizer, so it cannot be granted by name.
    group = "coordination.k8s.io"
    return [_rule(group, "leases", "create"), _rule(group, "leases", "get update", LEASE)]


def _rule(group: str, plurals: str, verbs: str, *names: str) -> Json:
    rule: Json = {
        "apiGroups": [group],
        "resources": plurals.split(),
        "verbs": verbs.split(),
    }
    if names:
        rule["resourceNames"] = list(names)
    return rule


def _role(name: str, namespace: str, rules: list[Json]) -> Json:
    return named_object(_API, "Role", named(name), namespace=namespace, rules=rules)


def _binding(name: str, role: str, namespace: str) -> Json:
    return named_object(
        _API,
        "RoleBinding",
        named(name),
        namespace=namespace,
        roleRef=_reference("Role", named(role)),
        subjects=_subjects(namespace),
    )


def _cluster_binding(name: str, role: str, namespace: str) -> Json:
    return named_object(
        _API,
        "ClusterRoleBinding",
        named(name),
        roleRef=_reference("ClusterRole", named(role)),
        subjects=_subjects(namespace),
    )


def _reference(kind: str, name: str) -> Json:
    return {"apiGroup": _RBAC, "kind": kind, "name": name}


def _subjects(namespace: str) -> list[Json]:
    return [{"kind": "ServiceAccount", "name": CONTROLLER, "namespace": namespace}]
