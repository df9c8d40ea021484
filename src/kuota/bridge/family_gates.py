# SPDX-License-Identifier: Apache-2.0
"""Which variant of a family may preempt: one after the other, the most preferred first.

Whoever is let through has five minutes before the next one is, and stays so.
"""

from __future__ import annotations

from datetime import datetime

import msgspec

from kuota.api.base import Json
from kuota.api.gates import Gate, Gates
from kuota.api.rules.metadata import ADMISSION_GATED_BY
from kuota.engine.reasons import WaitReason

from .conditions import stamp
from .draft import Draft
from .family import Family
from .variants import PREEMPTION_GATE

ALONE_S = 300.0
"""How long one variant may preempt before another may."""


def gate_opened(family: Family) -> bool:
    """Open the gate of whoever is next, if it is time to."""
    waiting = [each for each in family.variants if _waits(each, family.view.rules.gates)]
    chosen = _next(waiting)
    if chosen is None:
        return False
    last = max((at.timestamp() for at in map(_open_since, waiting) if at is not None), default=None)
    left_s = last + ALONE_S - family.now if last is not None else 0.0
    if left_s > 0:
        chosen.look_again(left_s)
        return False
    chosen.write({"preemptionGates": _opened(chosen, family.now)})
    chosen.tell("PreemptionUngatedVariant", "It may preempt from now on")
    chosen.look_again(ALONE_S)
    return False


def _next(waiting: list[Draft]) -> Draft | None:
    """The first that needs to preempt; nobody while a preferred one has not been looked at."""
    for each in waiting:
        if _open_since(each) is not None:
            continue
        if each.seen.true("BlockedOnPreemptionGates"):
            return each
        if each.conditions().get("QuotaReserved") is None:
            return None
    return None


def _waits(draft: Draft, gates: Gates) -> bool:
    """Whether nothing but room keeps the variant from being admitted."""
    seen, said = draft.seen, draft.conditions().get("QuotaReserved")
    gated = gates.on(Gate.AdmissionGatedBy) and draft.obj.metadata.annotation(ADMISSION_GATED_BY)
    over = draft.obj.spec.active is False or seen.true("Finished") or seen.reserved
    on_hold = said is not None and said.reason == WaitReason.ON_HOLD
    return not (gated or over or on_hold or seen.true("WaitingForReplacementPods"))


def _open_since(draft: Draft) -> datetime | None:
    for each in draft.obj.status.preemption_gates or ():
        if each.name == PREEMPTION_GATE and each.position == "Open":
            return each.last_transition_time
    return None


def _opened(draft: Draft, now: float) -> list[Json]:
    """The gates of the status, ours open."""
    at = stamp(now).isoformat().replace("+00:00", "Z")
    ours = {"name": PREEMPTION_GATE, "position": "Open", "lastTransitionTime": at}
    listed = draft.obj.status.preemption_gates or ()
    return [*(msgspec.to_builtins(e) for e in listed if e.name != PREEMPTION_GATE), ours]
