# SPDX-License-Identifier: Apache-2.0
"""Decides about the garbage collection of dependents. Pure.

An object is deleted when all its owners are gone. An object that is deleted in the *foreground*
stays, with a finalizer, until its blocking dependents are gone. An object that *orphans* its
dependents stays until they no longer refer to it. Each decision concerns one item and the current
state of the store; the caller asks again after each change.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from enum import Enum, auto

import msgspec

from kuota.api.base import Json, Key

FOREGROUND = "foregroundDeletion"
ORPHAN = "orphan"


class StoredRef(msgspec.Struct, frozen=True, order=True, gc=False):
    """The location of an object in the store."""

    resource: str
    key: Key


class StoredOwner(msgspec.Struct, frozen=True, rename="camel", gc=False):
    """An owner reference."""

    uid: str
    api_version: str = ""
    kind: str = ""
    name: str = ""
    block_owner_deletion: bool | None = None


class _Metadata(msgspec.Struct, frozen=True, rename="camel", gc=False):
    uid: str = ""
    owner_references: tuple[StoredOwner, ...] | None = None
    finalizers: tuple[str, ...] | None = None
    deletion_timestamp: str | None = None


class _Object(msgspec.Struct, frozen=True, gc=False):
    metadata: _Metadata


_DECODER = msgspec.json.Decoder(_Object)


class Item(msgspec.Struct, frozen=True, gc=False):
    """The relevant part of an object. The uid is "" if its metadata is unreadable."""

    ref: StoredRef
    uid: str
    owners: tuple[StoredOwner, ...] = ()
    finalizers: tuple[str, ...] = ()
    terminating: bool = False

    @property
    def waiting(self) -> bool:
        """Whether it waits for the deletion of its blocking dependents."""
        return self.terminating and FOREGROUND in self.finalizers

    @property
    def orphaning(self) -> bool:
        """Whether it waits until its dependents are orphaned."""
        return self.terminating and ORPHAN in self.finalizers

    def blocks(self, uid: str) -> bool:
        """Whether a waiting owner must wait for this item."""
        return any(each.uid == uid and bool(each.block_owner_deletion) for each in self.owners)


def item_of(ref: StoredRef, body: bytes) -> Item:
    """The item in a stored body."""
    try:
        metadata = _DECODER.decode(body).metadata
    except msgspec.ValidationError:
        metadata = _Metadata()
    return Item(
        ref,
        metadata.uid,
        metadata.owner_references or (),
        metadata.finalizers or (),
        metadata.deletion_timestamp is not None,
    )


class OwnerState(Enum):
    """The state of an owner from the perspective of a dependent."""

    SOLID = auto()
    """It exists, and does not wait for the dependent if it is being deleted."""

    WAITING = auto()
    """It waits for the deletion of its dependents."""

    GONE = auto()
    """It does not exist, or another object has its name."""

    UNKNOWN = auto()
    """Its kind is not served or cannot own such an object, so its state is unknown."""


class DeleteItem(msgspec.Struct, frozen=True):
    """Delete the item, with this propagation policy."""

    item: Item
    policy: str


class Disown(msgspec.Struct, frozen=True):
    """Remove the references to these owners from the item."""

    item: Item
    owners: frozenset[str]


class Unblock(msgspec.Struct, frozen=True):
    """Make the item no longer block its owners."""

    item: Item


class Release(msgspec.Struct, frozen=True):
    """Remove the finalizer from the item."""

    item: Item
    finalizer: str


Action = DeleteItem | Disown | Unblock | Release


def in_ring(item: Item, owned: Callable[[Item], Sequence[Item]]) -> bool:
    """Whether the item is part of a cycle of objects that wait for each other."""
    seen: set[StoredRef] = set()
    ahead = [item]
    while ahead:
        at = ahead.pop()
        for each in owned(at):
            if at.waiting and each.waiting and each.blocks(at.uid) and each.ref not in seen:
                seen.add(each.ref)
                ahead.append(each)
    return item.ref in seen


def decided(
    item: Item, standings: Mapping[str, OwnerState], dependents: Sequence[Item], ring: bool = False
) -> list[Action]:
    """The actions that are due for `item`, or for its dependents because of it.

    `standings` are the states of its owners, by uid. `dependents` are the items that it owns.
    `ring` is the result of `in_ring`. (Kubernetes leaves such a cycle waiting forever.)
    """
    if item.orphaning:
        forget = [Disown(each, frozenset({item.uid})) for each in dependents]
        return [*forget, Release(item, ORPHAN)]
    if item.waiting:
        held = any(each.blocks(item.uid) for each in dependents)
        if not held:
            return [Release(item, FOREGROUND)]
        return [Unblock(item)] if ring else []
    if item.terminating or not item.owners:
        return []
    return _decided_by_owners(item, standings, dependents)


def _decided_by_owners(
    item: Item, standings: Mapping[str, OwnerState], dependents: Sequence[Item]
) -> list[Action]:
    found = set(standings.values())
    if OwnerState.UNKNOWN in found:
        return []
    if OwnerState.SOLID in found:
        lost = frozenset(uid for uid, each in standings.items() if each is not OwnerState.SOLID)
        return [Disown(item, lost)] if lost else []
    if OwnerState.WAITING in found and dependents:
        # In a cycle of owners, each would wait for the next, so this one unblocks its own.
        ring = any(each.waiting for each in dependents)
        return [*([Unblock(item)] if ring else []), DeleteItem(item, "Foreground")]
    return [DeleteItem(item, _own_policy(item))]


def _own_policy(item: Item) -> str:
    """The propagation policy of an item, which it may have set before its deletion."""
    if ORPHAN in item.finalizers:
        return "Orphan"
    return "Foreground" if FOREGROUND in item.finalizers else "Background"


def applied_to(obj: Json, action: Disown | Unblock | Release) -> Json:
    """The object after the action. The argument is not changed."""
    metadata = dict(obj["metadata"])
    match action:
        case Disown(owners=owners):
            kept = [each for each in _references(metadata) if each["uid"] not in owners]
            _set(metadata, "ownerReferences", kept)
        case Unblock():
            free = [each | {"blockOwnerDeletion": False} for each in _references(metadata)]
            _set(metadata, "ownerReferences", free)
        case Release(finalizer=finalizer):
            rest = [each for each in metadata.get("finalizers") or () if each != finalizer]
            _set(metadata, "finalizers", rest)
    return obj | {"metadata": metadata}


def _references(metadata: Json) -> list[Json]:
    return metadata.get("ownerReferences") or []


def _set(metadata: Json, field: str, value: list[Json] | list[str]) -> None:
    metadata[field] = value
    if not value:
        del metadata[field]
