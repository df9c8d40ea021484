# SPDX-License-Identifier: Apache-2.0
"""Which of two flavors is better, and when a flavor is good enough."""

from __future__ import annotations

from enum import IntEnum

from .assignment import AssignmentMode, PreemptionPossibility
from .model import Fungibility

TRY_NEXT = "TryNextFlavor"
PREEMPTION_FIRST = "PreemptionOverBorrowing"


class PreemptionMode(IntEnum):
    """How well a flavor serves a request, worst to best; more detailed than `AssignmentMode`."""

    NO_FIT = 0
    NO_CANDIDATES = 1
    PREEMPT = 2
    RECLAIM = 3
    FIT = 4


# Module-level names avoid the slow lookup of enum members on the hot path.
NO_FIT, NO_CANDIDATES, PREEMPT, RECLAIM, FIT = PreemptionMode

MODES = (
    AssignmentMode.NO_FIT,
    AssignmentMode.PREEMPT,
    AssignmentMode.PREEMPT,
    AssignmentMode.PREEMPT,
    AssignmentMode.FIT,
)
"""The `AssignmentMode` of each PreemptionMode."""

PREEMPTION_MODES = (NO_CANDIDATES, PREEMPT, RECLAIM)
"""The PreemptionMode of each PreemptionPossibility."""

POSSIBILITIES = ("", *map(str, PreemptionPossibility), "")
"""`FlavorAttempt.preemption` for each PreemptionMode; "" if the oracle was not asked."""

GranularMode = tuple[PreemptionMode, int]
"""A PreemptionMode and the borrowing height."""


def preferred(a: GranularMode, b: GranularMode, fungibility: Fungibility | None) -> bool:
    """Whether `a` is strictly better than `b`. Without fungibility the height is ignored."""
    (mode, height), (other, other_height) = a, b
    if fungibility is None or mode == NO_FIT or other == NO_FIT:
        return mode > other
    if (mode == NO_CANDIDATES) != (other == NO_CANDIDATES):
        return other == NO_CANDIDATES
    if fungibility.preference == PREEMPTION_FIRST:
        return (-height, mode) > (-other_height, other)
    return (mode, -height) > (other, -other_height)


def good_enough(granular_mode: GranularMode, fungibility: Fungibility | None) -> bool:
    """Whether the search stops at this flavor without trying later ones."""
    mode, height = granular_mode
    if fungibility is None:
        return mode is FIT
    if mode <= NO_CANDIDATES:
        return False
    if mode is not FIT and fungibility.when_can_preempt == TRY_NEXT:
        return False
    return height == 0 or fungibility.when_can_borrow != TRY_NEXT
