# SPDX-License-Identifier: Apache-2.0
"""Roles for people: who runs the cluster, who works in a team, who only looks.

Nothing is bound here. A team's member gets `kueue-batch-user-role` in the team's namespaces, by a
RoleBinding: it holds no right on anything that sets quota. Labels put each small role into the
larger ones, Kubernetes' own `view`, `edit` and `admin` among them.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from kuota.api.base import Json

from .settings import named, named_object

READ = ("get", "list", "watch")
WRITE = ("create", "delete", "get", "list", "patch", "update", "watch")
_RBAC = "rbac.authorization.k8s.io/v1"
_BATCH_ADMIN = "rbac.kueue.x-k8s.io/batch-admin"
_BATCH_USER = "rbac.kueue.x-k8s.io/batch-user"
_TO = "rbac.authorization.k8s.io/aggregate-to-"
_EVERY_ROLE = (f"{_TO}view", f"{_TO}edit", f"{_TO}admin")
_KUEUE = "kueue.x-k8s.io"


class _Kind(msgspec.Struct, frozen=True):
    """A kind that roles are for, and the larger roles that its two roles are part of."""

    name: str
    group: str
    plural: str
    edited_by: tuple[str, ...]
    viewed_by: tuple[str, ...]
    has_status: bool = True


def _of_cluster(name: str, plural: str, *, has_status: bool = True) -> _Kind:
    viewed_by = (_BATCH_ADMIN, f"{_TO}admin")
    return _Kind(name, _KUEUE, plural, (_BATCH_ADMIN,), viewed_by, has_status)


def _of_team(name: str, plural: str) -> _Kind:
    viewed_by = (_BATCH_ADMIN, _BATCH_USER, *_EVERY_ROLE)
    return _Kind(name, _KUEUE, plural, (_BATCH_ADMIN,), viewed_by)


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
    """The two large roles, then the small ones that make them up."""
    large = [
        _aggregate("batch-admin-role", _BATCH_ADMIN),
        _aggregate("batch-user-role", _BATCH_USER),
    ]
    small = [role for kind in _KINDS for role in (_editor(kind), _viewer(kind))]
    return large + small + _pending_viewers()


def _aggregate(name: str, label: str) -> Json:
    # `rules` is left out: the control plane fills it, and whoever named it would fight for it.
    selector = {"matchLabels": {label: "true"}}
    rule = {"clusterRoleSelectors": [selector]}
    return named_object(_RBAC, "ClusterRole", named(name), aggregationRule=rule)


def _editor(kind: _Kind) -> Json:
    return _role(kind, f"{kind.name}-editor-role", WRITE, kind.edited_by)


def _viewer(kind: _Kind) -> Json:
    return _role(kind, f"{kind.name}-viewer-role", READ, kind.viewed_by)


def _role(kind: _Kind, name: str, verbs: Sequence[str], part_of: Sequence[str]) -> Json:
    rules = [_rule(kind.group, kind.plural, verbs)]
    if kind.has_status:
        rules.append(_rule(kind.group, f"{kind.plural}/status", ("get",)))
    return _cluster_role(name, part_of, rules)


def _pending_viewers() -> list[Json]:
    group = f"visibility.{_KUEUE}"
    return [
        _cluster_role(
            "pending-workloads-cq-viewer-role",
            (_BATCH_ADMIN, *_EVERY_ROLE),
            [_rule(group, "clusterqueues/pendingworkloads", READ)],
        ),
        _cluster_role(
            "pending-workloads-lq-viewer-role",
            (_BATCH_ADMIN, _BATCH_USER, *_EVERY_ROLE),
            [_rule(group, "localqueues/pendingworkloads", READ)],
        ),
    ]


def _cluster_role(name: str, part_of: Sequence[str], rules: list[Json]) -> Json:
    labels = dict.fromkeys(part_of, "true")
    return named_object(_RBAC, "ClusterRole", named(name), labels=labels, rules=rules)


def _rule(group: str, resource: str, verbs: Sequence[str]) -> Json:
    return {"apiGroups": [group], "resources": [resource], "verbs": list(verbs)}
