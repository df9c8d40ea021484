# SPDX-License-Identifier: Apache-2.0
"""A parent and its variants with their pending changes in one pass.

Variants may preempt one after the other, the most preferred first.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime

import msgspec

from kuota.api.base import Json
from kuota.api.gates import Gate, Gates
from kuota.api.rules.metadata import ADMISSION_GATED_BY
from kuota.engine.model import ConcurrentAdmission

from .admission import on_hold
from .conditions import timestamp
from .draft import Draft, PassResult
from .effects import Create, Delete, Effect
from .lifecycle_view import VariantsPassInput
from .variants import PREEMPTION_GATE, flavor_of, variant


class VariantPass:
    """One pass over a parent and its variants, sorted by preference."""

    def __init__(self, view: VariantsPassInput, now: float) -> None:
        groups = view.queue.groups if view.queue is not None else ()
        self.view = view
        self.now = now
        self.flavors = groups[0].flavors if groups else ()
        self._parent = Draft(view.parent, now) if view.parent is not None else None
        made = [Draft(stored, now) for stored in view.variants]
        self.variants = sorted(made, key=lambda each: (self.rank(each), each.obj.key))
        self._effects: list[Effect] = []

    @property
    def parent(self) -> Draft:
        assert self._parent is not None, "the parent is gone"
        return self._parent

    @property
    def policy(self) -> ConcurrentAdmission | None:
        return self.view.queue.concurrent_admission if self.view.queue is not None else None

    def rank(self, draft: Draft) -> int:
        """Return the preference of a variant's flavor: 0 is best; unknown flavors come last."""
        return self.place(flavor_of(draft.current))

    def place(self, flavor: str) -> int:
        return self.flavors.index(flavor) if flavor in self.flavors else len(self.flavors)

    @property
    def winner(self) -> Draft | None:
        """The admitted variant; the most preferred if there are several."""
        return next((each for each in self.variants if each.current.true("Admitted")), None)

    @property
    def own(self) -> Draft | None:
        """The admitted variant whose quota the parent uses."""
        used = _used(self.parent)
        admitted = (each for each in self.variants if each.current.true("Admitted"))
        return next((each for each in admitted if _used(each) == used), None)

    def make(self, flavor: str) -> None:
        key, made = variant(self.parent.current, flavor, self.view.config.gates)
        self._effects.append(Create(key=key, object=made))
        self.parent.record_event("CreatedVariant", f"Created variant {key} for flavor {flavor}")

    def drop(self, draft: Draft, why: str) -> None:
        """Delete a variant and record the reason on the parent, if there is one."""
        self.variants.remove(draft)
        self._effects.append(Delete(key=draft.obj.key, uid=draft.obj.metadata.uid))
        if self._parent is not None:
            self._parent.record_event("DeletedVariant", f"Deleted variant {draft.obj.key}: {why}")

    def done(self) -> PassResult:
        passes = [each.done() for each in self._members()]
        after_s = [each.requeue_after_s for each in passes if each.requeue_after_s is not None]
        return PassResult(
            effects=(*self._effects, *(effect for each in passes for effect in each.effects)),
            requeue_after_s=min(after_s, default=None),
        )

    def _members(self) -> Iterator[Draft]:
        if self._parent is not None:
            yield self._parent
        yield from self.variants


def _used(draft: Draft) -> frozenset[str]:
    """Return the flavors of an admission."""
    assigned = draft.obj.assignments
    return frozenset(name for each in assigned for name in (each.flavors or {}).values())


PREEMPTION_INTERVAL_S = 300.0
"""How long one variant may preempt before the next one may."""


def open_preemption_gate(variant_pass: VariantPass) -> None:
    """Open the preemption gate of the next variant, if it is due."""
    waiting = [
        each for each in variant_pass.variants if _waits(each, variant_pass.view.config.gates)
    ]
    chosen = _next(waiting)
    if chosen is None:
        return
    last = max((at.timestamp() for at in map(_open_since, waiting) if at is not None), default=None)
    left_s = last + PREEMPTION_INTERVAL_S - variant_pass.now if last is not None else 0.0
    if left_s > 0:
        chosen.requeue_after(left_s)
        return
    chosen.write({"preemptionGates": _opened(chosen, variant_pass.now)})
    chosen.record_event("PreemptionUngatedVariant", "The variant may preempt now")
    chosen.requeue_after(PREEMPTION_INTERVAL_S)


def _next(waiting: list[Draft]) -> Draft | None:
    """Return the first variant that needs preemption; None while a better one is new."""
    for each in waiting:
        if _open_since(each) is not None:
            continue
        if each.current.true("BlockedOnPreemptionGates"):
            return each
        if each.conditions().get("QuotaReserved") is None:
            return None
    return None


def _waits(draft: Draft, gates: Gates) -> bool:
    """Whether only missing quota keeps the variant from being admitted."""
    stored = draft.current
    gated = gates.on(Gate.AdmissionGatedBy) and draft.obj.metadata.annotation(ADMISSION_GATED_BY)
    over = not draft.active or stored.true("Finished") or stored.reserved
    held = on_hold(draft.obj) or stored.true("WaitingForReplacementPods")
    return not (gated or over or held)


def _open_since(draft: Draft) -> datetime | None:
    for each in draft.obj.status.preemption_gates or ():
        if each.name == PREEMPTION_GATE and each.position == "Open":
            return each.last_transition_time
    return None


def _opened(draft: Draft, now: float) -> list[Json]:
    """Return the gates of the status with our gate open."""
    ours = {"name": PREEMPTION_GATE, "position": "Open", "lastTransitionTime": timestamp(now)}
    listed = draft.obj.status.preemption_gates or ()
    return [*(msgspec.to_builtins(e) for e in listed if e.name != PREEMPTION_GATE), ours]
