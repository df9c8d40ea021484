# SPDX-License-Identifier: Apache-2.0
"""Rejects pods of members that use directories or users of the machine which are not theirs.

The namespace lists what is allowed (`kuota.api.host_paths`, `kuota.api.run_as_users`). The runner
checks it again before it starts a pod, because a list may have become shorter since.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import msgspec

from kuota.accounts import own_home
from kuota.api import host_paths, run_as_users
from kuota.api.base import Json, Key
from kuota.api.faults import FieldError, Invalid, forbidden
from kuota.api.host_paths import HostDirectory
from kuota.api.rules.report import child, objects, text

from .admission import Hook, Review
from .columns import dig, mapped
from .job_kinds import BY_RESOURCE, at_path
from .requests import ADMINS
from .run_as import TEMPLATES
from .store import Store


class PodPolicy(msgspec.Struct, frozen=True):
    """The policy of one server. With `users`, pods run as the users who submitted them."""

    state_dir: str
    users: bool = False


_Namespaces = Callable[[str], Json]


def pod_policy_hook(store: Store, policy: PodPolicy) -> Hook:
    """Return a hook that applies the policy to everything with pods, and to Namespaces."""

    def namespace(name: str) -> Json:
        return store.get("namespaces", Key("", name)) or {}

    def hook(review: Review) -> Json:
        found = list(_faults(review, policy, namespace))
        if found:
            raise Invalid(found)
        return review.object

    return hook


def _faults(review: Review, policy: PodPolicy, namespace: _Namespaces) -> Iterator[FieldError]:
    if review.kind.resource == "namespaces":
        yield from host_paths.annotation_faults(review.object)
        yield from run_as_users.annotation_faults(review.object)
        return
    if review.subresource:
        return
    before = dict(_pod_specs(review.kind.resource, review.old))
    for where, spec in _pod_specs(review.kind.resource, review.object):
        if before.get(where) == spec:
            continue
        yield from _state_faults(spec, where, policy.state_dir)
        if ADMINS not in review.user.groups:
            name = text(child(review.object, "metadata").get("namespace"))
            yield from _member_faults(review, spec, where, policy, namespace(name))


def _pod_specs(resource: str, obj: Json | None) -> Iterator[tuple[str, Json]]:
    """Yield the pod specs of an object, each with its path."""
    if resource in TEMPLATES:
        path = (*TEMPLATES[resource], "spec")
        yield ".".join(path), mapped(dig(obj, *path))
    elif resource in BY_RESOURCE:
        for path in BY_RESOURCE[resource].templates:
            yield from at_path(obj, (*path, "spec"))


def _member_faults(
    review: Review, spec: Json, path: str, policy: PodPolicy, namespace: Json
) -> Iterator[FieldError]:
    uid = int(review.user.uid) if review.user.uid.isdecimal() else None
    directories = host_paths.listed_directories(namespace)
    if policy.users:
        allowed = run_as_users.listed_uids(namespace)
        yield from run_as_users.run_as_user_faults(spec, path, uid, allowed)
        home = own_home(uid) if uid is not None else ""
        directories += (HostDirectory(home, writable=True),) if home else ()
    name = text(child(namespace, "metadata").get("name"))
    yield from host_paths.host_path_faults(spec, path, directories, name)


def _state_faults(spec: Json, path: str, state_dir: str) -> Iterator[FieldError]:
    """Reject the state directory for everyone. The runner also detects links to it."""
    state = HostDirectory(state_dir)
    for place, volume in objects(spec.get("volumes"), f"{path}.volumes"):
        if state.contains(text(child(volume, "hostPath").get("path")) or "/"):
            message = "is in the state directory of Kuota, which no pod may use"
            yield forbidden(f"{place}.hostPath.path", message)
