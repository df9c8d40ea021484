# SPDX-License-Identifier: Apache-2.0
"""The garbage collector: carries out the decisions of `collection`.

It only stores ownership. Before each decision it processes all changes, and it reads and writes
without an await in between, so that decisions are based on the current state. A failed item is
retried later and does not block others.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from contextlib import suppress
from datetime import datetime

from kuota.api.base import Json, Key, group_of
from kuota.failures import report

from .changes import Change, Watch
from .collection import (
    Action,
    DeleteItem,
    Item,
    OwnerState,
    StoredOwner,
    StoredRef,
    applied_to,
    decided,
    in_ring,
    item_of,
)
from .deletion import ANYWHERE, DeleteOptions, PodDeletion, ended, marked, terminating
from .kinds import Kind, Kinds
from .store import Gone, Store, StoreError, key_of

RETRY_S = 10.0
"""The delay before failed items are retried."""
BATCH = 100
"""The number of items that are processed before other tasks may run."""


class StoreWriter:
    """Changes objects as the API server would, with all consequences.

    `written` is called for each object, with whether it was removed.
    """

    def __init__(
        self,
        store: Store,
        kinds: Kinds,
        clock: Callable[[], datetime],
        written: Callable[[Kind, Json, bool], None] = lambda kind, obj, gone: None,
        pods: PodDeletion = ANYWHERE,
    ) -> None:
        self._store = store
        self._kinds = kinds
        self._clock = clock
        self._written = written
        self._pods = pods

    def delete(self, resource: str, obj: Json, policy: str) -> None:
        """Remove the object, or mark it as being deleted if it has finalizers."""
        self._put(resource, obj, self._waiting(resource, obj, policy))

    def replace(self, resource: str, obj: Json) -> None:
        """Store the object, or remove it if it is being deleted and has no finalizers."""
        self._put(resource, obj, None if ended(resource, obj, self._pods) else obj)

    def _waiting(self, resource: str, obj: Json, policy: str) -> Json | None:
        kind, now = self._kinds.get(resource), self._clock()
        if kind is None:  # its definition is gone: nobody is left to care for its finalizers
            return None
        if resource == "namespaces":
            return terminating(obj, now)
        return marked(kind, obj, DeleteOptions(policy), now, self._pods)

    def _put(self, resource: str, old: Json, new: Json | None) -> None:
        if new is None:
            stored = self._store.delete(resource, key_of(old))
        else:
            stored = self._store.update(resource, new, None)
        kind = self._kinds.get(resource)
        if kind is not None:
            self._written(kind, stored, new is None)


class Collector:
    """Collects objects whose owners are gone. `run` never returns; `settle` is one round."""

    def __init__(self, store: Store, kinds: Kinds, writer: StoreWriter) -> None:
        self._store = store
        self._kinds = kinds
        self._writer = writer
        self._dependents: dict[str, set[StoredRef]] = {}
        self._held: dict[
            str, StoredRef
        ] = {}  # items that stay on account of their dependents, by uid
        self._gone: set[str] = set()  # owners seen to go, though their kind may be unknown by now
        self._due: dict[StoredRef, None] = {}
        self._failed: dict[StoredRef, None] = {}
        self._retry_at: float | None = None
        self._watch = self._begun()

    async def run(self) -> None:
        """Collect until the store is closed."""
        while not self._watch.closed:
            try:
                while not self.settle(BATCH):
                    await asyncio.sleep(0)
                self._take(await self._news())
            except Gone:
                self._watch = self._begun()

    async def _news(self) -> list[Change]:
        """The next changes, or nothing when it is time to retry failed items."""
        if not self._failed:
            return await self._watch.batch()
        now = asyncio.get_running_loop().time()
        if self._retry_at is None:
            self._retry_at = now + RETRY_S
        if now < self._retry_at:
            with suppress(TimeoutError):
                async with asyncio.timeout_at(self._retry_at):
                    return await self._watch.batch()
        self._due |= self._failed
        self._failed, self._retry_at = {}, None
        return []

    def settle(self, most: int | None = None) -> bool:
        """Process at most this number of items. Returns whether nothing is left to do."""
        while most is None or most > 0:
            self._take(self._watch.pending())
            if not self._due or self._watch.closed:
                return True
            ref = next(iter(self._due))
            del self._due[ref]
            self._try(ref)
            most = None if most is None else most - 1
        return False

    def _try(self, ref: StoredRef) -> None:
        try:
            self._visit(ref)
        except StoreError:
            raise  # all items would fail
        except Exception as error:
            report("garbage collector", error, f"collecting {ref} failed; trying again later")
            self._failed[ref] = None

    def _begun(self) -> Watch:
        """A watch from now on, after processing all existing objects."""
        self._dependents.clear()
        self._held.clear()
        self._gone.clear()
        self._due.clear()
        self._failed.clear()
        for resource, key, body in self._store.objects():
            self._note(item_of(StoredRef(resource, key), body))
        return self._store.watch(None)

    def _take(self, changes: Iterable[Change]) -> None:
        for change in changes:
            ref = StoredRef(change.resource, change.key)
            item = item_of(ref, change.body)
            old = None if change.replaced is None else item_of(ref, change.replaced)
            gone = change.type == "DELETED"
            if gone or item != old:
                self._note(item, old, gone)

    def _note(self, item: Item, old: Item | None = None, gone: bool = False) -> None:
        """Record ownership, and which items must be processed because of this change."""
        before = {owner.uid for owner in old.owners} if old else set()
        after = set() if gone else {owner.uid for owner in item.owners}
        for uid in before - after:
            self._forget(uid, item.ref)
        for uid in after - before:
            self._dependents.setdefault(uid, set()).add(item.ref)
        if item.owners or item.terminating:
            self._due[item.ref] = None
        if gone and item.uid in self._dependents:
            self._gone.add(item.uid)
        self._hold(item, not gone and (item.waiting or item.orphaning))
        if gone or item.waiting:
            self._due |= dict.fromkeys(sorted(self._dependents.get(item.uid, ())))
        self._due |= {self._held[uid]: None for uid in before | after if uid in self._held}

    def _forget(self, uid: str, ref: StoredRef) -> None:
        refs = self._dependents.get(uid, set())
        refs.discard(ref)
        if not refs:
            self._dependents.pop(uid, None)
            self._gone.discard(uid)

    def _hold(self, item: Item, held: bool) -> None:
        if held:
            self._held[item.uid] = item.ref
        else:
            self._held.pop(item.uid, None)

    def _visit(self, ref: StoredRef) -> None:
        item = self._item(ref)
        if item is None:
            return
        standings = {owner.uid: self._standing(item, owner) for owner in item.owners}
        ring = item.waiting and in_ring(item, self._owned)
        for action in decided(item, standings, self._owned(item), ring):
            self._act(action)

    def _item(self, ref: StoredRef) -> Item | None:
        body = self._store.body(ref.resource, ref.key)
        return None if body is None else item_of(ref, body)

    def _owned(self, item: Item) -> list[Item]:
        """The dependents of the item. Owners are in the same namespace or cluster-scoped."""
        refs = sorted(self._dependents.get(item.uid, set()) - {item.ref})
        namespace = item.ref.key.namespace
        reached = (self._item(ref) for ref in refs if namespace in ("", ref.key.namespace))
        return [each for each in reached if each is not None]

    def _standing(self, item: Item, owner: StoredOwner) -> OwnerState:
        if owner.uid in self._gone:
            return OwnerState.GONE
        kind = self._kinds.of_kind(group_of(owner.api_version), owner.kind)
        namespace = item.ref.key.namespace
        if kind is None or (kind.namespaced and not namespace):
            return OwnerState.UNKNOWN
        key = Key(namespace if kind.namespaced else "", owner.name)
        found = self._item(StoredRef(kind.stored_as, key))
        if found is None or found.uid not in ("", owner.uid):
            return OwnerState.GONE
        if not found.uid:
            return OwnerState.UNKNOWN
        return OwnerState.WAITING if found.waiting else OwnerState.SOLID

    def _act(self, action: Action) -> None:
        ref = action.item.ref
        obj = self._store.get(ref.resource, ref.key)
        if obj is None or obj["metadata"].get("uid") != action.item.uid:
            return
        if isinstance(action, DeleteItem):
            self._writer.delete(ref.resource, obj, action.policy)
        else:
            self._writer.replace(ref.resource, applied_to(obj, action))
