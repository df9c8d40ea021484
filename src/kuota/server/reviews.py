# SPDX-License-Identifier: Apache-2.0
"""Responses to reviews: who somebody is, and what somebody may do. Nothing is stored.

Everyone may ask about themselves. Only admins may ask about others, or about a token.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Protocol

from msgspec.structs import replace

from kuota.api.base import Json
from kuota.api.status import bad_request

from .auth import EVERY, SERVICE_ACCOUNTS, AccessAttributes, Roles
from .columns import dig, listed, mapped
from .discovery import subresource_verbs
from .kinds import Kind, Kinds
from .requests import RequestTarget, User
from .tokens import EVERYBODY

_ATTRIBUTES = ("verb", "group", "resource", "subresource", "namespace", "name")


class Authenticator(Protocol):
    """Finds the user of a token."""

    def user(self, token: str) -> User | None:
        """The user with this token; None if it is not valid."""


class LocalReviews:
    """Answers reviews with the roles of this server."""

    def __init__(self, roles: Roles, kinds: Kinds, authenticator: Authenticator) -> None:
        self._roles = roles
        self._kinds = kinds
        self._authenticator = authenticator

    def reviewed(self, target: RequestTarget, body: Json, user: User) -> Json:
        """The review with its result. Raises StatusError."""
        answers: dict[str, Callable[[Json, User], Json]] = {
            "selfsubjectreviews": self._who,
            "selfsubjectaccessreviews": self._access,
            "selfsubjectrulesreviews": self._rules,
            "subjectaccessreviews": lambda review, _: self._access(review, _subject(review)),
            "localsubjectaccessreviews": lambda review, _: self._access(
                _local(review, target.namespace), _subject(review)
            ),
            "tokenreviews": self._token,
        }
        review = {name: value for name, value in body.items() if name in ("metadata", "spec")}
        shape = {"apiVersion": target.api_version, "kind": target.kind.kind, "metadata": {}}
        return shape | review | {"status": answers[target.kind.plural](review, user)}

    def _who(self, review: Json, user: User) -> Json:
        return {"userInfo": user_info(user)}

    def _access(self, review: Json, user: User) -> Json:
        asked = mapped(dig(review, "spec", "resourceAttributes"))
        path = mapped(dig(review, "spec", "nonResourceAttributes"))
        if path:
            access = AccessAttributes(verb=_text(path, "verb"), path=_text(path, "path"))
        else:
            access = AccessAttributes(**{field: _text(asked, field) for field in _ATTRIBUTES})
        allowed = self._roles.allows(user, access)
        return {"allowed": allowed} | ({} if allowed else {"reason": "no role allows it"})

    def _rules(self, review: Json, user: User) -> Json:
        """The permissions of the user in one namespace, by resource."""
        namespace = _text(mapped(review.get("spec")), "namespace")
        rules = [*access_rules(self._kinds, namespace, lambda each: self._roles.allows(user, each))]
        paths = [{"verbs": ["get"], "nonResourceURLs": [EVERY]}]
        return {"resourceRules": rules, "nonResourceRules": paths, "incomplete": False}

    def _token(self, review: Json, _: User) -> Json:
        found = self._authenticator.user(_text(mapped(review.get("spec")), "token"))
        if found is None:
            return {"authenticated": False, "error": "the token is not valid"}
        return {"authenticated": True, "user": user_info(found)}


def access_rules(
    kinds: Kinds, namespace: str, allows: Callable[[AccessAttributes], bool]
) -> Iterator[Json]:
    """Rules for what is allowed in a namespace and at the cluster scope, by resource."""
    for kind in kinds:
        for resource, verbs in _offered(kind):
            plural, _, below = resource.partition("/")
            every = AccessAttributes(
                verb="",
                group=kind.group,
                resource=plural,
                subresource=below,
                namespace=namespace if kind.namespaced else "",
            )
            allowed = [verb for verb in verbs if allows(replace(every, verb=verb))]
            if allowed:
                yield {"verbs": allowed, "apiGroups": [kind.group], "resources": [resource]}


def _offered(kind: Kind) -> Iterator[tuple[str, tuple[str, ...]]]:
    yield kind.plural, kind.verbs
    for name in kind.subresources:
        yield f"{kind.plural}/{name}", subresource_verbs(name)


def user_info(user: User) -> Json:
    """The user as reviews describe one."""
    found: Json = {"username": user.name, "groups": list(user.groups)}
    return found | ({"uid": user.uid} if user.uid else {})


def _subject(review: Json) -> User:
    """The user that a SubjectAccessReview asks about."""
    spec = mapped(review.get("spec"))
    name, groups = _text(spec, "user"), [str(each) for each in listed(spec.get("groups"))]
    if not name and not groups:
        raise bad_request("spec.user or spec.groups must name whom the review is about")
    if name.startswith("system:serviceaccount:"):
        groups += [SERVICE_ACCOUNTS, f"{SERVICE_ACCOUNTS}:{name.split(':')[2]}"]
    return User(name, tuple(dict.fromkeys([*groups, EVERYBODY])), _text(spec, "uid"))


def _local(review: Json, namespace: str) -> Json:
    """The review, which must be about the namespace in its path."""
    asked = mapped(dig(review, "spec", "resourceAttributes"))
    if asked.get("namespace") not in (None, "", namespace):
        raise bad_request(f"spec.resourceAttributes.namespace must be {namespace}")
    spec = mapped(review.get("spec"))
    return review | {"spec": spec | {"resourceAttributes": asked | {"namespace": namespace}}}


def _text(values: Json, name: str) -> str:
    return str(values.get(name) or "")
