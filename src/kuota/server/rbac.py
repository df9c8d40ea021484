# SPDX-License-Identifier: Apache-2.0
"""The roles of this server as RBAC objects: which ones exist, and what may be written.

Roles and cluster-wide bindings describe what the code decides (`auth`); the server writes them, and
nobody changes them. So does the RoleBinding of a team, which follows from the label of its
namespace. Admins may write RoleBindings that give users and groups one of these roles in another
namespace. What the server cannot enforce is rejected, because an object without effect would
mislead its author.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from datetime import datetime

from kuota.api.base import Json, Key
from kuota.api.faults import FieldError, immutable, invalid, not_supported

from .auth import EDIT, RBAC, TEAM, VIEW, AccessAttributes, Roles, is_viewed
from .columns import dig, listed, mapped
from .kinds import Kinds
from .metadata import timestamp
from .requests import ADMINS, RequestTarget, User
from .reviews import access_rules
from .status import forbidden
from .store import Store
from .tokens import EVERYBODY

BINDINGS = f"rolebindings.{RBAC}"
_ROLES, _CLUSTER_BINDINGS = f"clusterroles.{RBAC}", f"clusterrolebindings.{RBAC}"
CLUSTER_ADMIN, EVERYONE = "cluster-admin", "kuota:everyone"
TEAM_BINDING = "kuota:team"
_WRITES = ("create", "update", "patch", "delete", "deletecollection")
_HOW = {
    "clusterroles": f"the roles are fixed; bind the ClusterRole `{EDIT}` or `{VIEW}` in a "
    "namespace with a RoleBinding",
    "roles": f"the roles are fixed; bind the ClusterRole `{EDIT}` or `{VIEW}` with a RoleBinding",
    "clusterrolebindings": "roles cannot be bound in all namespaces; bind one in each namespace "
    f"with a RoleBinding, or make the user an admin (group {ADMINS}) with `kuota token create`",
}
_ANONYMOUS = ("system:anonymous", "system:unauthenticated")


def check_write(target: RequestTarget, verb: str) -> None:
    """Raise StatusError for a write to an object that only the server writes."""
    if target.kind.group != RBAC or verb not in _WRITES:
        return
    plural = target.kind.plural
    if plural in _HOW:
        raise forbidden(target.kind, target.name, _HOW[plural])
    if target.name == TEAM_BINDING or verb == "deletecollection":
        why = f"{TEAM_BINDING} follows from the label {TEAM} of the namespace; change the label"
        raise forbidden(target.kind, target.name, why)


def binding_faults(binding: Json) -> Iterator[FieldError]:
    """Faults of a RoleBinding that an admin writes."""
    if dig(binding, "metadata", "name") == TEAM_BINDING:
        yield invalid("metadata.name", TEAM_BINDING, "is reserved for the server")
    role = mapped(binding.get("roleRef"))
    if role.get("kind") != "ClusterRole":
        yield not_supported("roleRef.kind", role.get("kind"), ["ClusterRole"])
    if role.get("name") not in (EDIT, VIEW):
        yield not_supported("roleRef.name", role.get("name"), [EDIT, VIEW])
    if role.get("apiGroup") not in (None, "", RBAC):
        yield not_supported("roleRef.apiGroup", role.get("apiGroup"), [RBAC])
    for at, subject in enumerate(listed(binding.get("subjects"))):
        yield from _subject_faults(mapped(subject), binding, f"subjects[{at}]")


def _subject_faults(subject: Json, binding: Json, path: str) -> Iterator[FieldError]:
    kind, name = subject.get("kind"), subject.get("name")
    if kind not in ("User", "Group", "ServiceAccount"):
        yield not_supported(f"{path}.kind", kind, ["User", "Group", "ServiceAccount"])
    if not name or name in _ANONYMOUS:
        why = "must name a user or group with credentials; nobody else has access"
        yield invalid(f"{path}.name", name, why)
    place = subject.get("namespace")
    if kind == "ServiceAccount" and place != dig(binding, "metadata", "namespace"):
        why = (
            "a service account acts in its own namespace only, because every member of its team "
            "can create tokens for it"
        )
        yield invalid(f"{path}.namespace", place, why, "bind the users or a group instead")


def binding_update_faults(new: Json, old: Json) -> Iterator[FieldError]:
    if new.get("roleRef") != old.get("roleRef"):
        fix = "delete the RoleBinding and create it again"
        yield immutable("roleRef", new.get("roleRef"), "a role cannot be replaced", fix)


def bound_roles(store: Store) -> Callable[[str, User], frozenset[str]]:
    """Returns the roles that RoleBindings give to a user in a namespace."""

    def bound(namespace: str, user: User) -> frozenset[str]:
        return frozenset(
            str(dig(each, "roleRef", "name"))
            for each in store.list(BINDINGS, namespace).items
            if dig(each, "metadata", "name") != TEAM_BINDING and _binds(each, user)
        )

    return bound


def _binds(binding: Json, user: User) -> bool:
    return any(
        subject.get("name") in (user.groups if subject.get("kind") == "Group" else ())
        or (subject.get("kind") == "User" and subject.get("name") == user.name)
        for subject in listed(binding.get("subjects"))
    )


class RoleObjects:
    """Keeps the objects that describe the roles in the store."""

    def __init__(self, store: Store, kinds: Kinds, clock: Callable[[], datetime]) -> None:
        self._store = store
        self._kinds = kinds
        self._clock = clock
        self._edition = -1

    def refresh(self) -> None:
        """Write the roles, whose rules depend on the served kinds, and all bindings."""
        self._write_roles()
        for name, role, group in (
            (CLUSTER_ADMIN, CLUSTER_ADMIN, ADMINS),
            (EVERYONE, EVERYONE, EVERYBODY),
        ):
            self._put(_CLUSTER_BINDINGS, Key("", name), _binding(role, group))
        for each in self._store.list("namespaces").items:
            self.namespace_changed(each)

    def namespace_changed(self, namespace: Json) -> None:
        """Write or remove the RoleBinding of the team to which the namespace belongs."""
        if dig(namespace, "metadata", "deletionTimestamp"):
            return
        key = Key(str(dig(namespace, "metadata", "name")), TEAM_BINDING)
        team = str(dig(namespace, "metadata", "labels", TEAM) or "")
        if team:
            self._put(BINDINGS, key, _binding(EDIT, team))
        elif self._store.get(BINDINGS, key) is not None:
            self._store.delete(BINDINGS, key)

    def kinds_changed(self) -> None:
        """Update the rules of the roles."""
        if self._edition != self._kinds.edition:
            self._write_roles()

    def _write_roles(self) -> None:
        self._edition = self._kinds.edition
        everything: Json = {"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]}
        paths: Json = {"nonResourceURLs": ["*"], "verbs": ["*"]}
        self._put(_ROLES, Key("", CLUSTER_ADMIN), _role([everything, paths]))
        place, member = "kuota-example", User("", ("kuota-member",))
        roles = Roles(lambda namespace: "kuota-member" if namespace == place else "")

        def edits(access: AccessAttributes) -> bool:
            return bool(access.namespace) and roles.allows(member, access)

        def views(access: AccessAttributes) -> bool:
            return edits(access) and is_viewed(access)

        def reads(access: AccessAttributes) -> bool:
            return roles.allows(User(""), access)

        for name, allows in ((EDIT, edits), (VIEW, views), (EVERYONE, reads)):
            rules = [*access_rules(self._kinds, place, allows)]
            self._put(_ROLES, Key("", name), _role(rules))

    def _put(self, resource: str, key: Key, obj: Json) -> None:
        """Write the object unless the store has the same."""
        old = self._store.get(resource, key)
        if old is None:
            named = {"name": key.name} | ({"namespace": key.namespace} if key.namespace else {})
            metadata = named | {
                "uid": str(uuid.uuid4()),
                "creationTimestamp": timestamp(self._clock()),
            }
            self._store.create(resource, obj | {"metadata": metadata})
        elif any(old.get(field) != value for field, value in obj.items()):
            self._store.update(resource, old | obj, None)


def _role(rules: list[Json]) -> Json:
    return {"apiVersion": f"{RBAC}/v1", "kind": "ClusterRole", "rules": rules}


def _binding(role: str, group: str) -> Json:
    return {
        "apiVersion": f"{RBAC}/v1",
        "kind": "RoleBinding" if role == EDIT else "ClusterRoleBinding",
        "roleRef": {"apiGroup": RBAC, "kind": "ClusterRole", "name": role},
        "subjects": [{"apiGroup": RBAC, "kind": "Group", "name": group}],
    }
