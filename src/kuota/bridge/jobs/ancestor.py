# SPDX-License-Identifier: Apache-2.0
"""The managed job above a job, if there is one: it queues for both.

Controller references are followed upward, as far as kinds are known. Kinds of integrations that
are switched off are followed too, but do not queue for anybody.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from kuota.api.base import Json, Key, Struct
from kuota.api.config.frameworks import FRAMEWORKS, GroupVersionKind
from kuota.api.rules.job_common import queue_name
from kuota.api.rules.report import child, elements, mapping, text

DEEPEST = 10
"""How many owners above a job are looked at."""

GroupKind = tuple[str, str]

JOB: GroupKind = ("batch", "Job")
_REPLICA_SET: GroupKind = ("apps", "ReplicaSet")


class NestingError(Exception):
    """The owners of a job cannot be followed to the top."""


class NestingTooDeep(NestingError):
    """There are more owners above a job than anybody looks at."""


class OwnerNotFound(NestingError):
    """An owner of a known kind does not exist, or does not yet."""


class Owners(Struct):
    """Kinds of owners: those that are looked up and followed, and those that may be managed."""

    followed: frozenset[GroupKind] = frozenset({JOB})
    managed: frozenset[GroupKind] = frozenset({JOB})

    def following(self, kinds: Iterable[GroupKind]) -> Owners:
        """The same, where only these kinds can be looked up."""
        return Owners(followed=self.followed & frozenset(kinds), managed=self.managed)


def owners_of(frameworks: Iterable[str], external: Iterable[str] = ()) -> Owners:
    """The owners that a configuration of integrations makes known."""
    others = {_group_kind(found) for found in map(GroupVersionKind.parse, external) if found}
    enabled = {_group_kind(FRAMEWORKS[name]) for name in frameworks if name in FRAMEWORKS}
    every = {_group_kind(kind) for kind in FRAMEWORKS.values()}
    return Owners(
        followed=frozenset({*every, *others, _REPLICA_SET}),
        managed=frozenset({*enabled, *others}),
    )


Lookup = Callable[[GroupKind, Key], Json | None]
"""Finds a stored object; None if it does not exist. Cluster-scoped kinds have no namespace."""


def ancestor(job: Json, owners: Owners, look_up: Lookup, *, manage_all: bool) -> Json | None:
    """The topmost owner that is managed: that has a queue name, or any with `manage_all`.

    Raises Nesting.
    """
    found: Json | None = None
    seen = {_uid(job)} - {""}
    at, namespace = job, namespace_of(job)
    for depth in range(DEEPEST + 1):
        above = _above(at, namespace, owners, look_up)
        if above is None:
            return found
        if depth == DEEPEST:
            raise NestingTooDeep("the job is nested too deep")
        kind, at = above
        if _uid(at) in seen:
            raise NestingError("the owners of the job own each other")
        seen.add(_uid(at))
        if kind in owners.managed and (manage_all or queue_name(at)):
            found = at
    return found


def owned(job: Json, owners: Owners) -> bool:
    """Whether the controller of a job is of a kind that may be managed."""
    return any(_kind_of(owner) in owners.managed for owner in _controllers(job))


def _above(
    job: Json, namespace: str, owners: Owners, look_up: Lookup
) -> tuple[GroupKind, Json] | None:
    """The controller of a job; None when it has none, of a known kind, and of that uid."""
    for owner in _controllers(job):
        kind = _kind_of(owner)
        if kind not in owners.followed:
            continue
        name = text(owner.get("name"))
        found = look_up(kind, Key(namespace, name))
        if found is None:
            raise OwnerNotFound(f"{kind[1]} {name}, the owner of the job, does not exist")
        return (kind, found) if _uid(found) == text(owner.get("uid")) else None
    return None


def namespace_of(job: Json) -> str:
    return text(child(job, "metadata").get("namespace"))


def _controllers(job: Json) -> Iterator[Json]:
    """The references of a job to its controller: one, unless somebody wrote nonsense."""
    for each in elements(child(job, "metadata").get("ownerReferences")):
        if mapping(each).get("controller") is True:
            yield mapping(each)


def _kind_of(owner: Json) -> GroupKind:
    return text(owner.get("apiVersion")).rpartition("/")[0], text(owner.get("kind"))


def _uid(obj: Json) -> str:
    return text(child(obj, "metadata").get("uid"))


def _group_kind(kind: GroupVersionKind) -> GroupKind:
    return kind.group, kind.kind
