# SPDX-License-Identifier: Apache-2.0
"""A family on its way through one pass: parent and variants as they will be, and the writes."""

from __future__ import annotations

from collections.abc import Iterator

from kuota.engine.model import ConcurrentAdmission

from .draft import Draft, Pass
from .effects import Create, Delete, Effect
from .lifecycle_view import FamilyView
from .variants import flavor_of, variant


class Family:
    """One pass over a parent and its variants, which are kept most preferred first."""

    def __init__(self, view: FamilyView, now: float) -> None:
        groups = view.queue.groups if view.queue is not None else ()
        self.view = view
        self.now = now
        self.flavors = groups[0].flavors if groups else ()
        self._parent = Draft(view.parent, now) if view.parent is not None else None
        made = [Draft(seen, now) for seen in view.variants]
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
        """How much the flavor of a variant is preferred: 0 is best, unknown ones come last."""
        return self.place(flavor_of(draft.seen))

    def place(self, flavor: str) -> int:
        return self.flavors.index(flavor) if flavor in self.flavors else len(self.flavors)

    @property
    def winner(self) -> Draft | None:
        """The variant that is admitted, the most preferred if there are several."""
        return next((each for each in self.variants if each.seen.true("Admitted")), None)

    @property
    def own(self) -> Draft | None:
        """The admitted variant whose quota the parent holds."""
        used = _used(self.parent)
        admitted = (each for each in self.variants if each.seen.true("Admitted"))
        return next((each for each in admitted if _used(each) == used), None)

    def make(self, flavor: str) -> None:
        key, made = variant(self.parent.seen, flavor, self.view.rules.gates)
        self._effects.append(Create(key=key, object=made))
        self.parent.tell("CreatedVariant", f"Created variant {key} for flavor {flavor}")

    def drop(self, draft: Draft, why: str) -> None:
        """Delete a variant. The parent, if there is one, is told why."""
        self.variants.remove(draft)
        self._effects.append(Delete(key=draft.obj.key, uid=draft.obj.metadata.uid))
        if self._parent is not None:
            self._parent.tell("DeletedVariant", f"Deleted variant {draft.obj.key}: {why}")

    def done(self) -> Pass:
        passes = [each.done() for each in self._members()]
        after_s = [each.again_s for each in passes if each.again_s is not None]
        return Pass(
            effects=(*self._effects, *(effect for each in passes for effect in each.effects)),
            again_s=min(after_s, default=None),
        )

    def _members(self) -> Iterator[Draft]:
        if self._parent is not None:
            yield self._parent
        yield from self.variants


def _used(draft: Draft) -> frozenset[str]:
    """The flavors of an admission."""
    admission = draft.obj.status.admission
    assigned = (admission.pod_set_assignments if admission is not None else None) or ()
    return frozenset(name for each in assigned for name in (each.flavors or {}).values())
