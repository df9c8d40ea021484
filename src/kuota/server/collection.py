# SPDX-License-Identifier: Apache-2.0
"""Decides what becomes of objects when their owners go, or go only after them. Pure.

An object whose owners are all gone goes too. One that is deleted in the *foreground* stays, held by
a finalizer, until those that it owns and that block it are gone; one that is deleted as an *orphan
maker* stays until those that it owns have forgotten it. Everything is decided for one item at a
time, from what is stored now: whoever applies the decisions asks again after each change.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from enum import Enum, auto

import msgspec

from kuota.api.base import Json, Key

FOREGROUND = "foregroundDeletion"
ORPHAN = "orphan"


class Ref(msgspec.Struct, frozen=True, order=True, gc=False):
    """Where an object lies in the store."""

    resource: str
    key: Key


class Owner(msgspec.Struct, frozen=True, rename="camel", gc=False):
    """An owner reference."""

    uid: str
    api_version: str = ""
    kind: str = ""
    name: str = ""
    block_owner_deletion: bool | None = None


class _Metadata(msgspec.Struct, frozen=True, rename="camel", gc=False):
    uid: str = ""
    owner_references: tuple[Owner, ...] | None = None
    finalizers: tuple[str, ...] | None = None
    deletion_timestamp: str | None = None


class _Object(msgspec.Struct, frozen=True, gc=False):
    metadata: _Metadata


_DECODER = msgspec.json.Decoder(_Object)


class Item(msgspec.Struct, frozen=True, gc=False):
    """What matters here about an object. The uid is "" if its metadata cannot be read."""

    ref: Ref
    uid: str
    owners: tuple[Owner, ...] = ()
    finalizers: tuple[str, ...] = ()
    terminating: bool = False

    @property
    def waiting(self) -> bool:
        """Whether it stays until those that it owns, and that block it, are gone."""
        return self.terminating and FOREGROUND in self.finalizers

    @property
    def orphaning(self) -> bool:
        """Whether it stays until those that it owns have forgotten it."""
        return self.terminating and ORPHAN in self.finalizers

    def blocks(self, uid: str) -> bool:
        """Whether an owner that waits has to wait for this item."""
        return any(each.uid == uid and bool(each.block_owner_deletion) for each in self.owners)


def item_of(ref: Ref, body: bytes) -> Item:
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
    """How an owner stands, seen from an object that names it."""

    SOLID = auto()
    """It is there; also if it is being deleted, as long as it does not wait for the object."""

    WAITING = auto()
    """It waits for those that it owns to go."""

    GONE = auto()
    """It is not there, or another of the same name is."""

    UNKNOWN = auto()
    """Its kind is not served, or cannot own such an object. Nothing may be concluded from that."""


class Delete(msgspec.Struct, frozen=True):
    """Delete the item, with this propagation policy."""

    item: Item
    policy: str


class Disown(msgspec.Struct, frozen=True):
    """Take the references to these owners from the item."""

    item: Item
    owners: frozenset[str]


class Unblock(msgspec.Struct, frozen=True):
    """Let the item no longer hold back its owners."""

    item: Item


class Release(msgspec.Struct, frozen=True):
    """Take the finalizer from the item."""

    item: Item
    finalizer: str


Action = Delete | Disown | Unblock | Release


def in_ring(item: Item, owned: Callable[[Item], Sequence[Item]]) -> bool:
    """Whether the item waits for others that wait, in the end, for the item itself."""
    seen: set[Ref] = set()
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
    """What is to be done now about `item`, or about its dependents on its account.

    `standings` are those of its owners, by uid; `dependents` are the items that it owns; `ring`
    says that it is `in_ring`. (Kubernetes leaves such a ring waiting for ever.)
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
        # Where owners form a ring each would wait for the next: this one lets go of its own.
        ring = any(each.waiting for each in dependents)
        return [*([Unblock(item)] if ring else []), Delete(item, "Foreground")]
    return [Delete(item, _own_policy(item))]


def _own_policy(item: Item) -> str:
    """How an item wants its dependents treated: it may have said so before its deletion."""
    if ORPHAN in item.finalizers:
        return "Orphan"
    return "Foreground" if FOREGROUND in item.finalizers else "Background"


def applied_to(obj: Json, action: Disown | Unblock | Release) -> Json:
    """The object after the action. The argument is left as it is."""
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
