# SPDX-License-Identifier: Apache-2.0
"""Roles of the controller and of users.

The controller has exactly the permissions that its code uses; each line of the table states the
purpose. Single objects (webhook configurations, definitions, the Lease, the Secret) are granted by
name.

Roles for users (admins, team members, viewers) are not bound here. A team member gets
`kueue-batch-user-role` in the namespaces of the team by a RoleBinding; it grants no permission on
objects that define quota. Labels aggregate the small roles into larger ones, including Kubernetes'
own `view`, `edit` and `admin`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import msgspec

from kuota.api.base import Json
from kuota.api.crds import GROUP, KINDS
from kuota.bridge.jobs.kind import JobKind, referred
from kuota.bridge.jobs.registry import BUILT_IN
from kuota.webhook.manifests import MUTATING_NAME, VALIDATING_NAME

from .deployment import SECRET
from .network import EXPLANATIONS, HISTORY, api_services
from .settings import (
    CONTROLLER,
    HISTORY_ACCOUNT,
    HISTORY_SECRET,
    Settings,
    named,
    named_object,
)

LEASE = "c1f6bfd2.kueue.x-k8s.io"
_RBAC = "rbac.authorization.k8s.io"
_API = f"{_RBAC}/v1"
_WATCH = "get list watch"

_RULES: tuple[tuple[str, str, str], ...] = (
    # Decisions depend on these objects.
    ("", "namespaces nodes pods limitranges", _WATCH),
    ("scheduling.k8s.io", "priorityclasses", _WATCH),
    ("node.k8s.io", "runtimeclasses", _WATCH),
    ("resource.k8s.io", "deviceclasses resourceclaimtemplates resourceslices", _WATCH),
    # Pods on lost nodes are marked as failed and deleted.
    ("", "pods", "delete"),
    ("", "pods/status", "patch"),
    # Scheduling gates of pods of elastic jobs and of placed pods are removed.
    ("", "pods", "patch"),
    # Pods and jobs belong to the owner of their ReplicaSet.
    ("apps", "replicasets", "get"),
    (GROUP, "workloads", f"{_WATCH} create patch delete"),
    # A variant has one to its parent.
    (GROUP, "workloads/finalizers", "update"),
    (GROUP, "clusterqueues resourceflavors admissionchecks topologies", f"{_WATCH} patch"),
    (GROUP, "localqueues cohorts workloadpriorityclasses", _WATCH),
    # Nodes are requested from an autoscaler, for pods as in these templates.
    (GROUP, "provisioningrequestconfigs", _WATCH),
    ("autoscaling.x-k8s.io", "provisioningrequests", f"{_WATCH} create delete"),
    ("autoscaling.x-k8s.io", "provisioningrequests/finalizers", "update"),
    ("", "podtemplates", f"{_WATCH} create patch delete"),
    # MultiKueue connects to these clusters, whose kubeconfigs are Secrets of its namespace.
    (GROUP, "multikueueclusters multikueueconfigs", "list watch"),
    (
        GROUP,
        "workloads/status clusterqueues/status localqueues/status cohorts/status "
        "admissionchecks/status multikueueclusters/status",
        "patch",
    ),
    ("", "events", "create patch"),
    # A job kind works as soon as its definition is installed.
    ("apiextensions.k8s.io", "customresourcedefinitions", "list watch"),
)


def controller_roles(settings: Settings) -> list[Json]:
    own = settings.namespace
    # The certificates of webhooks, and the kubeconfigs of worker clusters.
    secrets = [
        _rule("", "secrets", f"{_WATCH} update", SECRET),
        _rule("", "secrets", "list watch"),
    ]
    # The other source of worker clusters, read if MultiKueueClusterProfile is enabled.
    profiles = _rule("multicluster.x-k8s.io", "clusterprofiles", "list watch")
    profile_role = "manager-clusterprofiles-role"
    scraping: Json = {"nonResourceURLs": ["/metrics"], "verbs": ["get"]}
    return [
        _cluster_role("manager-role", _manager_rules(settings)),
        _binding("manager-rolebinding", named("manager-role"), own),
        _cluster_role("metrics-auth-role", _review_rules()),
        _binding("metrics-auth-rolebinding", named("metrics-auth-role"), own),
        _cluster_role("metrics-reader", [scraping]),
        _role("leader-election-role", own, _lease_rules()),
        _binding("leader-election-rolebinding", named("leader-election-role"), own, own),
        _role("manager-secrets-role", own, secrets),
        _binding("manager-secrets-rolebinding", named("manager-secrets-role"), own, own),
        _role(profile_role, own, [profiles]),
        _binding("manager-clusterprofiles-rolebinding", named(profile_role), own, own),
        _binding(
            "visibility-server-auth-reader",
            "extension-apiserver-authentication-reader",
            own,
            "kube-system",
        ),
    ]


def history_roles(settings: Settings) -> list[Json]:
    """The permissions of the recorder, and of its readers.

    Every user may send requests for the history. The recorder itself responds only to those who
    may list the Workloads of the namespace.
    """
    own, of = settings.namespace, HISTORY_ACCOUNT
    watched = [
        _rule(GROUP, "clusterqueues cohorts localqueues workloads", "list watch"),
        # The pod that holds an idle device names its Workload.
        _rule("", "pods", "get"),
        _rule("apiregistration.k8s.io", "apiservices", f"{_WATCH} update", f"v1alpha1.{HISTORY}"),
    ]
    group = "coordination.k8s.io"
    stored = [
        _rule("", "secrets", f"{_WATCH} update", HISTORY_SECRET),
        _rule(group, "leases", "create"),
        _rule(group, "leases", "get update", f"{LEASE}-history"),
    ]
    everyone = {"apiGroup": _RBAC, "kind": "Group", "name": "system:authenticated"}
    reader = _binding("history-reader-rolebinding", named("history-reader-role"), own)
    proxy = "extension-apiserver-authentication-reader"
    return [
        _cluster_role("history-role", watched),
        _binding("history-rolebinding", named("history-role"), own, account=of),
        _binding("history-auth-rolebinding", named("metrics-auth-role"), own, account=of),
        _role("history-store-role", own, stored),
        _binding("history-store-rolebinding", named("history-store-role"), own, own, of),
        _binding("history-auth-reader", proxy, own, "kube-system", of),
        _cluster_role("history-reader-role", [_rule(HISTORY, "*", "get list")]),
        reader | {"subjects": [everyone]},
    ]


def job_plurals() -> dict[str, list[str]]:
    """Return the resources of all job kinds that are built in, by API group."""
    plurals: dict[str, list[str]] = {}
    for kind in BUILT_IN:
        if kind.objects == kind.group_kind:
            plurals.setdefault(kind.gvk.group, []).append(kind.plural)
    return dict(sorted(plurals.items()))


def _job_rules() -> Iterator[Json]:
    """Yield the permissions on jobs of all kinds that are built in, by API group.

    They do not depend on the enabled kinds: those of other kinds may own jobs, and the
    configuration may change.
    """
    kinds = [each for each in BUILT_IN if each.objects == each.group_kind]
    for group in sorted({each.gvk.group for each in kinds}):
        members = [each for each in kinds if each.gvk.group == group]
        queued = [each for each in members if each.queued]
        # Jobs are started, suspended, and deleted when their retention expires.
        yield from _kinds_rule(group, queued, f"{_WATCH} patch delete")
        # Jobs that run in other clusters show the status from there. The start time of a stopped
        # Job is removed.
        dispatched = [each for each in queued if each.dispatch() is not None]
        yield from _kinds_rule(group, dispatched, "patch", "/status")
        # A Workload has an owner reference with blockOwnerDeletion to its job.
        yield from _kinds_rule(group, queued, "update", "/finalizers")
        # The pods of other kinds are queued, so their objects are only read.
        yield from _kinds_rule(group, [each for each in members if not each.queued], _WATCH)
    needed = [each.gvk for each in referred(BUILT_IN).values()]
    for group in sorted({each.group for each in needed}):
        # The pods of a TrainJob are defined by its runtime.
        yield _rule(group, " ".join(e.plural for e in needed if e.group == group), _WATCH)


def _kinds_rule(
    group: str, kinds: Sequence[JobKind], verbs: str, below: str = ""
) -> Iterator[Json]:
    """Yield the permission on these kinds, or on a subresource of theirs, if there are any."""
    if kinds:
        yield _rule(group, " ".join(f"{each.plural}{below}" for each in kinds), verbs)


def _manager_rules(settings: Settings) -> list[Json]:
    """The table, permissions on jobs, and those to write the CA bundle of its certificates."""
    converted = [f"{each.plural}.{GROUP}" for each in KINDS if each.converted]
    aggregated = [each["metadata"]["name"] for each in api_services(settings)]
    kinds = "mutatingwebhookconfigurations", "validatingwebhookconfigurations"
    return [
        *(_rule(group, plurals, verbs) for group, plurals, verbs in _RULES),
        *_job_rules(),
        _rule("admissionregistration.k8s.io", kinds[0], f"{_WATCH} update", MUTATING_NAME),
        _rule("admissionregistration.k8s.io", kinds[1], f"{_WATCH} update", VALIDATING_NAME),
        _rule("apiextensions.k8s.io", "customresourcedefinitions", "get update", *converted),
        _rule("apiregistration.k8s.io", "apiservices", f"{_WATCH} update", *aggregated),
    ]


def _review_rules() -> list[Json]:
    """Permissions to authenticate and authorize clients of metrics and visibility."""
    return [
        _rule("authentication.k8s.io", "tokenreviews", "create"),
        _rule("authorization.k8s.io", "subjectaccessreviews", "create"),
    ]


def _lease_rules() -> list[Json]:
    # The authorizer does not know the name of an object that is created, so it cannot be granted by
    # name.
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


def _cluster_role(name: str, rules: list[Json], part_of: Sequence[str] = ()) -> Json:
    labels = dict.fromkeys(part_of, "true")
    return named_object(_API, "ClusterRole", named(name), labels=labels, rules=rules)


def _binding(name: str, role: str, own: str, within: str = "", account: str = CONTROLLER) -> Json:
    """Binds an account in namespace `own` to a ClusterRole, or to a Role in `within`."""
    kind = "Role" if within else "ClusterRole"
    return named_object(
        _API,
        f"{kind}Binding",
        named(name),
        namespace=within,
        roleRef={"apiGroup": _RBAC, "kind": kind, "name": role},
        subjects=[{"kind": "ServiceAccount", "name": account, "namespace": own}],
    )


_WRITE = "create delete get list patch update watch"
_BATCH_ADMIN = "rbac.kueue.x-k8s.io/batch-admin"
_BATCH_USER = "rbac.kueue.x-k8s.io/batch-user"
_TO = "rbac.authorization.k8s.io/aggregate-to-"
_EVERY_ROLE = (f"{_TO}view", f"{_TO}edit", f"{_TO}admin")


class _Kind(msgspec.Struct, frozen=True):
    """A kind, and the larger roles that its two roles are aggregated into."""

    name: str
    group: str
    plural: str
    edited_by: tuple[str, ...]
    viewed_by: tuple[str, ...]
    has_status: bool = True


def _of_cluster(name: str, plural: str, *, has_status: bool = True) -> _Kind:
    viewed_by = (_BATCH_ADMIN, f"{_TO}admin")
    return _Kind(name, GROUP, plural, (_BATCH_ADMIN,), viewed_by, has_status)


def _of_team(name: str, plural: str) -> _Kind:
    viewed_by = (_BATCH_ADMIN, _BATCH_USER, *_EVERY_ROLE)
    return _Kind(name, GROUP, plural, (_BATCH_ADMIN,), viewed_by)


def _job(name: str, group: str, plural: str, *, viewed_by_users: bool = True) -> _Kind:
    both = (_BATCH_ADMIN, _BATCH_USER)
    viewers = both if viewed_by_users else (_BATCH_ADMIN,)
    return _Kind(name, group, plural, both, (*viewers, *_EVERY_ROLE))


_KINDS = (
    _of_cluster("clusterqueue", "clusterqueues"),
    _of_cluster("cohort", "cohorts"),
    _of_team("localqueue", "localqueues"),
    _of_cluster("resourceflavor", "resourceflavors", has_status=False),
    _of_cluster("topology", "topologies", has_status=False),
    _of_team("workload", "workloads"),
    _job("job", "batch", "jobs"),
    _job("jobset", "jobset.x-k8s.io", "jobsets"),
    _job("leaderworkerset", "leaderworkerset.x-k8s.io", "leaderworkersets"),
    _job("mpijob", "kubeflow.org", "mpijobs"),
    _job("jaxjob", "kubeflow.org", "jaxjobs"),
    _job("paddlejob", "kubeflow.org", "paddlejobs"),
    _job("pytorchjob", "kubeflow.org", "pytorchjobs"),
    _job("tfjob", "kubeflow.org", "tfjobs"),
    _job("xgboostjob", "kubeflow.org", "xgboostjobs"),
    _job("trainjob", "trainer.kubeflow.org", "trainjobs"),
    _job("raycluster", "ray.io", "rayclusters", viewed_by_users=False),
    _job("rayjob", "ray.io", "rayjobs"),
    _job("rayservice", "ray.io", "rayservices", viewed_by_users=False),
    _job("sparkapplication", "sparkoperator.k8s.io", "sparkapplications"),
)


def people_roles() -> list[Json]:
    """The two aggregated roles, then the small roles that they contain."""
    large = [
        _aggregate("batch-admin-role", _BATCH_ADMIN),
        _aggregate("batch-user-role", _BATCH_USER),
    ]
    small: list[Json] = []
    for kind in _KINDS:
        small.append(_kind_role(kind, "editor", _WRITE, kind.edited_by))
        small.append(_kind_role(kind, "viewer", _WATCH, kind.viewed_by))
    return [*large, *small, *_pending_viewers(), _explanation_viewer(), _remote_pod_viewer()]


def _aggregate(name: str, label: str) -> Json:
    # `rules` is omitted: the control plane sets it, and setting it here would cause conflicts.
    selector = {"matchLabels": {label: "true"}}
    rule = {"clusterRoleSelectors": [selector]}
    return named_object(_API, "ClusterRole", named(name), aggregationRule=rule)


def _kind_role(kind: _Kind, name: str, verbs: str, part_of: Sequence[str]) -> Json:
    rules = [_rule(kind.group, kind.plural, verbs)]
    if kind.has_status:
        rules.append(_rule(kind.group, f"{kind.plural}/status", "get"))
    return _cluster_role(f"{kind.name}-{name}-role", rules, part_of)


def _pending_viewers() -> list[Json]:
    group = f"visibility.{GROUP}"
    return [
        _cluster_role(
            f"pending-workloads-{short}-viewer-role",
            [_rule(group, f"{plural}/pendingworkloads", _WATCH)],
            (*part_of, *_EVERY_ROLE),
        )
        for short, plural, part_of in (
            ("cq", "clusterqueues", (_BATCH_ADMIN,)),
            ("lq", "localqueues", (_BATCH_ADMIN, _BATCH_USER)),
        )
    ]


def _explanation_viewer() -> Json:
    """Return the role to read explanations, for everyone who may read Workloads."""
    return _cluster_role(
        "workload-explanation-viewer-role",
        [_rule(EXPLANATIONS, "workloads/explanation", "get")],
        (_BATCH_ADMIN, _BATCH_USER, *_EVERY_ROLE),
    )


def _remote_pod_viewer() -> Json:
    """Return the role to read pods in other clusters, for everyone who may read pods here."""
    below = [f"workloads/{each}" for each in ("log", "pods")]
    return _cluster_role(
        "workload-remote-pods-viewer-role",
        [_rule(EXPLANATIONS, " ".join(below), "get")],
        (_BATCH_ADMIN, _BATCH_USER, *_EVERY_ROLE),
    )
