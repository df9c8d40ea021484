# SPDX-License-Identifier: Apache-2.0
"""Finds the managed ancestor of a job, which is queued on behalf of both.

Controller references are followed upward while their kinds are known. Kinds of disabled
integrations are followed too, but they are never managed; if such an owner does not exist, the
chain ends.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from msgspec.structs import replace

from kuota.api.base import Json, Key, Struct, group_of
from kuota.api.config.frameworks import FRAMEWORKS, GroupVersionKind
from kuota.api.rules.job_common import queue_name
from kuota.api.rules.metadata import annotation
from kuota.api.rules.report import child, elements, mapping, text

DEEPEST = 10
"""The maximum number of owners above a job."""

GroupKind = tuple[str, str]

CREATED_FOR = "kuota.dev/created-for"
"""The UID of the owner for which a controller created an object, where users are not trusted.

The API server sets this annotation, and accepts it from nobody.
"""

JOB: GroupKind = ("batch", "Job")
REPLICA_SET: GroupKind = ("apps", "ReplicaSet")


class NestingError(Exception):
    """The owners of a job cannot be followed to the top."""


class NestingTooDeep(NestingError):
    """There are too many owners above a job."""


class OwnerNotFound(NestingError):
    """An owner of a known kind does not exist (yet)."""


class Owners(Struct):
    """Kinds of owners: those that are followed, and those that may be managed.

    Users write owner references themselves. Where they are not trusted, `queues_owned` is set: only
    references of objects with the annotation CREATED_FOR count then. Other jobs need quota of their
    own, whatever owns them.
    """

    followed: frozenset[GroupKind] = frozenset({JOB})
    managed: frozenset[GroupKind] = frozenset({JOB})
    queues_owned: bool = False

    def following(self, kinds: Iterable[GroupKind]) -> Owners:
        """Return the same, restricted to kinds that can be looked up."""
        return replace(self, followed=self.followed & frozenset(kinds))


def owners_of(frameworks: Iterable[str], external: Iterable[str] = ()) -> Owners:
    """Return the owners that the configured integrations define."""
    others = {_group_kind(found) for found in map(GroupVersionKind.parse, external) if found}
    enabled = {_group_kind(FRAMEWORKS[name]) for name in frameworks if name in FRAMEWORKS}
    return Owners(
        followed=KNOWN.union(others),
        managed=frozenset({*enabled, *others}),
    )


def _group_kind(kind: GroupVersionKind) -> GroupKind:
    return kind.group, kind.kind


KNOWN = frozenset({*map(_group_kind, FRAMEWORKS.values()), REPLICA_SET})
"""The kinds that may stand between a job and its managed owner, whether or not they are enabled."""

Lookup = Callable[[GroupKind, Key], Json | None]
"""Looks up a stored object; None if it does not exist. Cluster-scoped keys have no namespace."""


def ancestor(
    job: Json, owners: Owners, look_up: Lookup, *, manage_all: bool
) -> tuple[GroupKind, Json] | None:
    """Return the topmost managed owner: one with a queue name, or any with `manage_all`.

    Raises NestingError.
    """
    found: tuple[GroupKind, Json] | None = None
    seen = {_uid(job)} - {""}
    at, namespace = job, namespace_of(job)
    for depth in range(DEEPEST + 1):
        above = _above(at, namespace, owners, look_up)
        if above is None:
            return found
        if depth == DEEPEST:
            raise NestingTooDeep("the job is nested too deeply")
        kind, at = above
        if _uid(at) in seen:
            raise NestingError("the owner references of the job form a cycle")
        seen.add(_uid(at))
        if kind in owners.managed and (manage_all or queue_name(at)):
            found = above
    return found


def owned(job: Json, owners: Owners) -> bool:
    """Whether the controller of a job is of a kind that may be managed for both."""
    return any(
        group_kind(owner) in owners.managed and _counts(job, owner, owners)
        for owner in _controllers(job)
    )


def _counts(job: Json, owner: Json, owners: Owners) -> bool:
    """Whether the reference to an owner is trusted."""
    return not owners.queues_owned or annotation(job, CREATED_FOR) == text(owner.get("uid"))


def _above(
    job: Json, namespace: str, owners: Owners, look_up: Lookup
) -> tuple[GroupKind, Json] | None:
    """Return the controller of a job; None without one of a known kind and the right UID."""
    for owner in _controllers(job):
        kind = group_kind(owner)
        if kind not in owners.followed or not _counts(job, owner, owners):
            continue
        name = text(owner.get("name"))
        found = look_up(kind, Key(namespace, name))
        if found is None and kind not in owners.managed:
            return None  # What it belonged to cannot be known any more.
        if found is None:
            raise OwnerNotFound(f"{kind[1]} {name}, the owner of the job, does not exist")
        return (kind, found) if _uid(found) == text(owner.get("uid")) else None
    return None


def namespace_of(job: Json) -> str:
    return text(child(job, "metadata").get("namespace"))


def _controllers(job: Json) -> Iterator[Json]:
    """Yield the references of a job to its controller. A valid job has at most one."""
    for each in elements(child(job, "metadata").get("ownerReferences")):
        if mapping(each).get("controller") is True:
            yield mapping(each)


def group_kind(obj: Json) -> GroupKind:
    """Return the group and kind of an object or an owner reference."""
    return group_of(text(obj.get("apiVersion"))), text(obj.get("kind"))


def _uid(obj: Json) -> str:
    return text(child(obj, "metadata").get("uid"))
