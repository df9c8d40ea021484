# SPDX-License-Identifier: Apache-2.0
"""Answers to "who am I" and "may I": the same function decides as for real requests."""

from __future__ import annotations

from kuota.api.base import Json

from .auth import EVERY, Access, Roles
from .columns import dig, mapped
from .kinds import Kinds
from .requests import Target, User


def reviewed(target: Target, body: Json, user: User, roles: Roles, kinds: Kinds) -> Json:
    """The review with its answer."""
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
        access = Access(
            verb=_text(asked, "verb"),
            group=_text(asked, "group"),
            resource=_text(asked, "resource"),
            subresource=_text(asked, "subresource"),
            namespace=_text(asked, "namespace"),
            name=_text(asked, "name"),
        )
    allowed = roles.allows(user, access)
    return {"allowed": allowed} | ({} if allowed else {"reason": "no role allows it"})


def _text(values: Json, name: str) -> str:
    return str(values.get(name) or "")


def _rules(review: Json, user: User, roles: Roles, kinds: Kinds) -> Json:
    """What the user may do in one namespace, resource by resource."""
    namespace = _text(mapped(review.get("spec")), "namespace")
    resources = []
    for kind in kinds:
        place = namespace if kind.namespaced else ""
        verbs = [
            verb
            for verb in kind.verbs
            if roles.allows(
                user,
                Access(verb=verb, group=kind.group, resource=kind.plural, namespace=place),
            )
        ]
        if verbs:
            rule = {"verbs": verbs, "apiGroups": [kind.group], "resources": [kind.plural]}
            resources.append(rule)
    paths = [{"verbs": ["get"], "nonResourceURLs": [EVERY]}]
    return {"resourceRules": resources, "nonResourceRules": paths, "incomplete": False}
