# SPDX-License-Identifier: Apache-2.0
"""Authorization. One function decides about requests and about access reviews.

Admins (group `system:masters`) may do everything. A namespace belongs to the team in its label
`kuota.dev/team`. Members of the group of that name have access to jobs, pods, logs, related objects
and custom kinds in it. They cannot write what defines quota: cluster-scoped objects, everything in
`kueue.x-k8s.io` and `kuota.dev`, ResourceQuotas, LimitRanges and status. Every authenticated user
may read ClusterQueues, flavors, priority classes, nodes and namespaces. A RoleBinding gives a user
or group the role of a member (`edit`), or the right to read (`view`), in one more namespace. The
token of a service account gives the role of a member in its namespace. Members of the group
`kuota:multikueue-managers` have the rights of `kuota.api.worker_role`. See
docs/decisions/007-roles.md and 035-streams-tokens-metrics.md.
"""

from __future__ import annotations

from collections.abc import Callable, Container

import msgspec

from kuota.api.worker_role import MANAGERS, granted

from .requests import ADMINS, User

TEAM = "kuota.dev/team"
READ = ("get", "list", "watch")
EVERY = "*"

_KUEUE = "kueue.x-k8s.io"
RBAC = "rbac.authorization.k8s.io"
EDIT, VIEW = "edit", "view"
"""The roles that can be bound in a namespace, by the names that Kubernetes has for them."""
SERVICE_ACCOUNTS = "system:serviceaccounts"
METRICS_READERS = "kuota:metrics-readers"
"""The group of scrapers, which read the metrics of all teams and have no other rights."""
_OF_ADMINS = (_KUEUE, "kuota.dev", RBAC)
_READ_BY_ALL: dict[str, frozenset[str]] = {
    "": frozenset({"namespaces", "nodes"}),
    "scheduling.k8s.io": frozenset({"priorityclasses"}),
    "node.k8s.io": frozenset({"runtimeclasses"}),
    "apiextensions.k8s.io": frozenset({"customresourcedefinitions"}),
    "metrics.k8s.io": frozenset({"nodes"}),
    RBAC: frozenset({"clusterroles", "clusterrolebindings"}),
    _KUEUE: frozenset(
        {
            "admissionchecks",
            "clusterqueues",
            "cohorts",
            "multikueueclusters",
            "multikueueconfigs",
            "provisioningrequestconfigs",
            "resourceflavors",
            "topologies",
            "workloadpriorityclasses",
        }
    ),
}
_REVIEWS = ("authentication.k8s.io", "authorization.k8s.io")
_READ_BY_TEAM = frozenset({"limitranges", "resourcequotas"})
_WRITTEN_BELOW = frozenset({"", "scale", "eviction", "exec", "attach", "portforward", "token"})
_OPEN_PATHS = ("/version", "/healthz", "/livez", "/readyz")


class AccessAttributes(msgspec.Struct, frozen=True, kw_only=True):
    """One access to authorize. An empty namespace means all namespaces."""

    verb: str
    group: str = ""
    resource: str = ""
    subresource: str = ""
    namespace: str = ""
    name: str = ""
    path: str = ""


class Roles:
    """Authorizes by groups and by the labels of namespaces, which `team_of` looks up.

    `bound` returns the roles that RoleBindings give to a user in a namespace.
    """

    def __init__(
        self,
        team_of: Callable[[str], str],
        bound: Callable[[str, User], Container[str]] = lambda *_: (),
    ) -> None:
        self._team_of = team_of
        self._bound = bound

    def allows(self, user: User, access: AccessAttributes) -> bool:
        if ADMINS in user.groups:
            return True
        if access.path:
            return access.path in _OPEN_PATHS or (access.verb == "get" and known(user))
        if not known(user):
            return False
        if access.verb in READ and access.resource in _READ_BY_ALL.get(access.group, ()):
            return True
        if MANAGERS in user.groups and _granted_to_managers(access):
            return True
        if access.group in _REVIEWS:
            return access.verb == "create" and access.resource.startswith("selfsubject")
        if not access.namespace or not _within_team(access):
            return False
        if access.subresource == "token" and is_service_account(user):
            return False  # Otherwise a token could be renewed for ever.
        return self._may_edit(user, access.namespace) or self._may_by_binding(user, access)

    def _may_edit(self, user: User, namespace: str) -> bool:
        team = self._team_of(namespace)
        own = f"{SERVICE_ACCOUNTS}:{namespace}"
        return (bool(team) and team in user.groups) or own in user.groups

    def _may_by_binding(self, user: User, access: AccessAttributes) -> bool:
        roles = self._bound(access.namespace, user)
        return EDIT in roles or (VIEW in roles and is_viewed(access))


def _granted_to_managers(access: AccessAttributes) -> bool:
    """Whether a MultiKueue manager may do this. Pods run here only as parts of jobs."""
    if access.resource == "pods" and access.verb not in READ:
        return False
    return granted(access.verb, access.group, access.resource, access.subresource, access.name)


def is_service_account(user: User) -> bool:
    return SERVICE_ACCOUNTS in user.groups


def is_viewed(access: AccessAttributes) -> bool:
    """Whether the role `view` includes the access, given that the role `edit` does."""
    return access.verb in READ and access.resource != "secrets"


def known(user: User) -> bool:
    return "system:unauthenticated" not in user.groups


def _within_team(access: AccessAttributes) -> bool:
    """Whether a member may do this in a namespace of the team."""
    if access.verb in READ:
        return access.subresource != "status" or access.verb == "get"
    if access.group in _OF_ADMINS or access.subresource not in _WRITTEN_BELOW:
        return False
    core = access.group == ""
    return not (core and access.resource in (*_READ_BY_TEAM, "namespaces", "nodes", "bindings"))


def refusal(user: User, access: AccessAttributes) -> str:
    """The reason of a rejection, as kubectl shows it."""
    if access.path:
        return f'User "{user.name}" cannot {access.verb} path "{access.path}"'
    what = f"{access.resource}/{access.subresource}" if access.subresource else access.resource
    where = f'in the namespace "{access.namespace}"' if access.namespace else "at the cluster scope"
    return (
        f'User "{user.name}" cannot {access.verb} resource "{what}" '
        f'in API group "{access.group}" {where}'
    )
