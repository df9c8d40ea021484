# SPDX-License-Identifier: Apache-2.0
"""Who may block the deletion of an owner.

An object with `blockOwnerDeletion` delays the foreground deletion of its owner until it is gone
itself, and a finalizer can delay that for ever. Members may do so within their namespaces. Objects
without a namespace belong to everybody, so only admins may block their deletion.
"""

from __future__ import annotations

from collections.abc import Iterator

from kuota.api.base import Json

from .admission import Hook, Review
from .columns import listed, mapped
from .kinds import Kinds
from .requests import ADMINS, SYSTEM_USER
from .status import forbidden


def owner_hook(kinds: Kinds) -> Hook:
    """Rejects new references of members that block the deletion of cluster-scoped owners."""

    def hook(review: Review) -> Json:
        if ADMINS not in review.user.groups and review.user.name != SYSTEM_USER:
            for owner in _blocked(review):
                group = str(owner.get("apiVersion")).rpartition("/")[0]
                kind = kinds.of_kind(group, str(owner.get("kind")))
                if kind is not None and not kind.namespaced:
                    why = (
                        f"cannot set blockOwnerDeletion for {kind.kind} {owner.get('name')}, "
                        "whose deletion only admins may block; leave it out"
                    )
                    raise forbidden(review.kind, str(review.object["metadata"]["name"]), why)
        return review.object

    return hook


def _blocked(review: Review) -> Iterator[Json]:
    """The new references whose owners this object would block."""
    before = [] if review.old is None else listed(review.old["metadata"].get("ownerReferences"))
    for each in listed(review.object["metadata"].get("ownerReferences")):
        owner = mapped(each)
        if owner.get("blockOwnerDeletion") is True and each not in before:
            yield owner
