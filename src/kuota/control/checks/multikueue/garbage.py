# SPDX-License-Identifier: Apache-2.0
"""Decides which objects in a worker cluster are left over. Pure.

A copy is left over if its local Workload is missing or being deleted. Only objects with the origin
label of this manager are considered. Of its owners, those with the label are left over, too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

from kuota.api.base import Json, Key
from kuota.api.owners import owners
from kuota.api.rules.report import mapping, text
from kuota.bridge.job_pass.injections import MULTI_KUEUE_ORIGIN
from kuota.bridge.jobs.ancestor import GroupKind, group_kind

from .identity import created_by_other
from .remote import WORKLOAD


class LeftoverObject(NamedTuple):
    """An object in a worker cluster to delete, if it still has this UID."""

    kind: GroupKind
    key: Key
    uid: str


Find = Callable[[GroupKind, Key], Json | None]


def left_over(
    copies: Iterable[Json], find: Find, local: Callable[[Key], Json | None], origin: str, own: str
) -> Iterator[LeftoverObject]:
    """Yield the objects to delete: the jobs of each copy, then the copy.

    `find` returns a remote object, `local` a Workload of this cluster. `own` is the identity of
    this cluster, or "" if it is unknown.
    """
    for copy in copies:
        if not _has_origin(copy, origin) or created_by_other(copy, own):
            continue
        meta = copy["metadata"]
        key = Key(meta.get("namespace") or "", meta["name"])
        kept = local(key)
        if kept is not None and not kept["metadata"].get("deletionTimestamp"):
            continue
        for each in owners(copy):
            kind, owner_key = group_kind(each), Key(key.namespace, text(each.get("name")))
            owner = find(kind, owner_key)
            if owner is not None and _has_origin(owner, origin):
                yield LeftoverObject(kind, owner_key, text(owner["metadata"].get("uid")))
        yield LeftoverObject(WORKLOAD, key, text(meta.get("uid")))


def _has_origin(obj: Json, origin: str) -> bool:
    return mapping(obj["metadata"].get("labels")).get(MULTI_KUEUE_ORIGIN) == origin
