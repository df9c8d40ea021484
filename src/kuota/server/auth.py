# SPDX-License-Identifier: Apache-2.0
"""Authorization, and responses to access reviews. One function decides for both.

Admins (group `system:masters`) may do everything. A namespace belongs to the team in its label
`kuota.dev/team`. Members of the group of that name have access to jobs, pods, logs, related objects
and custom kinds in it. They cannot write what defines quota: cluster-scoped objects, everything in
`kueue.x-k8s.io` and `kuota.dev`, ResourceQuotas, LimitRanges and status. Every authenticated user
may read queues, flavors, priority classes, nodes and namespaces. See docs/decisions/007-roles.md.
"""

from __future__ import annotations

from collections.abc import Callable

import msgspec
from msgspec.structs import replace

from kuota.api.base import Json

from .columns import dig, mapped
from .kinds import Kinds
from .requests import ADMINS, Target, User

TEAM = "kuota.dev/team"
READ = ("get", "list", "watch")
EVERY = "*"

_KUEUE = "kueue.x-k8s.io"
_OF_ADMINS = (_KUEUE, "kuota.dev")
_READ_BY_ALL: dict[str, frozenset[str]] = {
    "": frozenset({"namespaces", "nodes"}),
    "scheduling.k8s.io": frozenset({"priorityclasses"}),
    "node.k8s.io": frozenset({"runtimeclasses"}),
    "apiextensions.k8s.io": frozenset({"customresourcedefinitions"}),
    "metrics.k8s.io": frozenset({"nodes"}),
    _KUEUE: frozenset(
        {
            "admissionchecks",
            "clusterqueues",
            "cohorts",
            "localqueues",
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
_WRITTEN_BELOW = frozenset({"", "scale", "eviction", "exec", "attach", "portforward"})
_OPEN_PATHS = ("/version", "/healthz", "/livez", "/readyz")


class Access(msgspec.Struct, frozen=True, kw_only=True):
    """One access to authorize. An empty namespace means all namespaces."""

    verb: str
    group: str = ""
    resource: str = ""
    subresource: str = ""
    namespace: str = ""
    name: str = ""
    path: str = ""


class Roles:
    """Authorizes by groups and by the labels of namespaces, which `team_of` looks up."""

    def __init__(self, team_of: Callable[[str], str]) -> None:
        self._team_of = team_of

    def allows(self, user: User, access: Access) -> bool:
        if ADMINS in user.groups:
            return True
        if access.path:
            return access.path in _OPEN_PATHS or (access.verb == "get" and known(user))
        if not known(user):
            return False
        if access.verb in READ and access.resource in _READ_BY_ALL.get(access.group, ()):
            return True
        if access.group in _REVIEWS:
            return access.verb == "create" and access.resource.startswith("selfsubject")
        team = self._team_of(access.namespace) if access.namespace else ""
        return bool(team) and team in user.groups and _within_team(access)


def known(user: User) -> bool:
    return "system:unauthenticated" not in user.groups


def _within_team(access: Access) -> bool:
    """Whether a member may do this in a namespace of the team."""
    if access.verb in READ:
        return access.subresource != "status" or access.verb == "get"
    if access.group in _OF_ADMINS or access.subresource not in _WRITTEN_BELOW:
        return False
    core = access.group == ""
    return not (core and access.resource in (*_READ_BY_TEAM, "namespaces", "nodes", "bindings"))


def refusal(user: User, access: Access) -> str:
    """The reason of a rejection, as kubectl shows it."""
    if access.path:
        return f'User "{user.name}" cannot {access.verb} path "{access.path}"'
    what = f"{access.resource}/{access.subresource}" if access.subresource else access.resource
    where = f'in the namespace "{access.namespace}"' if access.namespace else "at the cluster scope"
    return (
        f'User "{user.name}" cannot {access.verb} resource "{what}" '
        f'in API group "{access.group}" {where}'
    )


def reviewed(target: Target, body: Json, user: User, roles: Roles, kinds: Kinds) -> Json:
    """The review with its result."""
    answer = {
        "selfsubjectreviews": _who,
        "selfsubjectaccessreviews": _access,
        "selfsubjectrulesreviews": _rules,
    }[target.kind.plural]
    review = {name: value for name, value in body.items() if name in ("metadata", "spec")}
    shape = {"apiVersion": target.api_version, "kind": target.kind.kind, "metadata": {}}
    return shape | review | {"status": answer(review, user, roles, kinds)}


def _who(review: Json, user: User, roles: Roles, kinds: Kinds) -> Json:
    found: Json = {"username": user.name, "groups": list(user.groups)}
    return {"userInfo": found | ({"uid": user.uid} if user.uid else {})}


def _access(review: Json, user: User, roles: Roles, kinds: Kinds) -> Json:
    asked = mapped(dig(review, "spec", "resourceAttributes"))
    path = mapped(dig(review, "spec", "nonResourceAttributes"))
    if path:
        access = Access(verb=_text(path, "verb"), path=_text(path, "path"))
    else:
        access = Access(**{field: _text(asked, field) for field in _ATTRIBUTES})
    allowed = roles.allows(user, access)
    return {"allowed": allowed} | ({} if allowed else {"reason": "no role allows it"})


_ATTRIBUTES = ("verb", "group", "resource", "subresource", "namespace", "name")


def _text(values: Json, name: str) -> str:
    return str(values.get(name) or "")


def _rules(review: Json, user: User, roles: Roles, kinds: Kinds) -> Json:
    """The permissions of the user in one namespace, by resource."""
    namespace = _text(mapped(review.get("spec")), "namespace")
    resources = []
    for kind in kinds:
        place = namespace if kind.namespaced else ""
        every = Access(verb="", group=kind.group, resource=kind.plural, namespace=place)
        verbs = [verb for verb in kind.verbs if roles.allows(user, replace(every, verb=verb))]
        if verbs:
            rule = {"verbs": verbs, "apiGroups": [kind.group], "resources": [kind.plural]}
            resources.append(rule)
    paths = [{"verbs": ["get"], "nonResourceURLs": [EVERY]}]
    return {"resourceRules": resources, "nonResourceRules": paths, "incomplete": False}
