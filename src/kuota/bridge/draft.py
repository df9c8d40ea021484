# SPDX-License-Identifier: Apache-2.0
"""One pass over an object: the resulting effects, and the object with its pending changes."""

from __future__ import annotations

import msgspec

from kuota.api.base import Json, Key, by_type
from kuota.api.defaults import FINALIZER
from kuota.api.merge_patch import combined, merged
from kuota.api.podset import FlavorMissing
from kuota.api.priority import ClassMissing
from kuota.api.workload import Workload
from kuota.engine.model import Struct

from .conditions import Conditions
from .effects import Effect, Event, Patch, StatusPatch


class PassResult(Struct):
    """The effects of a pass, in order, and when to run the next pass without a change.

    `fault` is why the pass failed; it is retried later. `missing` is the priority class or the
    flavor that it did not find, if that was the reason. The job itself is `invalid` if its pods
    cannot be determined.
    """

    effects: tuple[Effect, ...] = ()
    requeue_after_s: float | None = None
    fault: str = ""
    missing: ClassMissing | FlavorMissing | None = None
    invalid: bool = False


class StoredWorkload(Struct):
    """A Workload as stored, and decoded."""

    json: Json
    obj: Workload
    true_conditions: frozenset[str]

    @classmethod
    def of(cls, json: Json) -> StoredWorkload:
        obj = msgspec.convert(json, Workload)
        found = by_type(obj.status.conditions).items()
        true = frozenset(type_ for type_, each in found if each.status == "True")
        return cls(json=json, obj=obj, true_conditions=true)

    @property
    def key(self) -> Key:
        return self.obj.key

    @property
    def reserved(self) -> bool:
        return "QuotaReserved" in self.true_conditions

    @property
    def deleting(self) -> bool:
        return self.obj.metadata.deletion_timestamp is not None

    def true(self, type_: str) -> bool:
        return type_ in self.true_conditions


class Draft:
    """A Workload with its pending changes. Every write is visible in `current` at once."""

    def __init__(self, stored: StoredWorkload, now: float) -> None:
        self._original = stored
        self.current = stored
        self.now = now
        self.requeue_after_s: float | None = None
        self._status: Json = {}
        self._body: Json = {}
        self._others: list[Effect] = []

    @property
    def obj(self) -> Workload:
        return self.current.obj

    @property
    def active(self) -> bool:
        return self.obj.spec.active is not False

    @property
    def changed(self) -> bool:
        return bool(self._status or self._body)

    def conditions(self) -> Conditions:
        obj = self.obj
        return Conditions(obj.status.conditions, self.now, obj.metadata.generation)

    def put(self, conditions: Conditions) -> bool:
        """Write the conditions if they changed. Returns whether they did."""
        if conditions.changed:
            self.write({"conditions": conditions.json()})
        return conditions.changed

    def set_condition(self, type_: str, status: bool, reason: str, message: str) -> bool:
        """Write one condition if it changes. Returns whether it does."""
        conditions = self.conditions()
        conditions.put(type_, status, reason, message)
        return self.put(conditions)

    def write(self, status: Json) -> None:
        """Apply a merge patch to the status."""
        if status:
            self._status = combined(self._status, status)
            self.current = StoredWorkload.of(merged(self.current.json, {"status": status}))

    def patch(self, body: Json) -> None:
        """Apply a merge patch to everything but the status."""
        if body:
            self._body = combined(self._body, body)
            self.current = StoredWorkload.of(merged(self.current.json, body))

    def drop_finalizer(self) -> bool:
        """Remove the finalizer. Returns whether it was set."""
        held = self.obj.metadata.finalizers or []
        if FINALIZER in held:
            left = [each for each in held if each != FINALIZER]
            self.patch({"metadata": {"finalizers": left or None}})
        return FINALIZER in held

    def record_event(self, reason: str, note: str, *, warning: bool = False) -> None:
        self.add(Event.about(self.obj.key, reason, note, warning=warning))

    def add(self, *effects: Effect) -> None:
        self._others += effects

    def requeue_after(self, after_s: float) -> None:
        """Run the next pass after this time at the latest."""
        self.requeue_after_s = (
            after_s if self.requeue_after_s is None else min(self.requeue_after_s, after_s)
        )

    def done(self, fault: str = "") -> PassResult:
        """Return the result.

        The status comes first: without its finalizer the object may be deleted.
        """
        obj = self._original.obj
        key, version = obj.key, obj.metadata.resource_version
        effects: list[Effect] = []
        if self._status:
            effects.append(StatusPatch(key=key, resource_version=version, status=self._status))
        if self._body:
            effects.append(Patch(key=key, resource_version=version, body=self._body))
        return PassResult(
            effects=(*effects, *self._others), requeue_after_s=self.requeue_after_s, fault=fault
        )
