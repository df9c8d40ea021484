# SPDX-License-Identifier: Apache-2.0
"""Which of two flavors is better, and when a flavor is good enough."""

from __future__ import annotations

from enum import IntEnum

from .assignment import Mode, Possibility
from .model import Fungibility

TRY_NEXT = "TryNextFlavor"
PREEMPTION_FIRST = "PreemptionOverBorrowing"


class PreemptionMode(IntEnum):
    """How well a flavor does for a request, finer than `Mode`: worst to best."""

    NO_FIT = 0
    NO_CANDIDATES = 1
    PREEMPT = 2
    RECLAIM = 3
    FIT = 4


# Names of their own, because looking a member up in its enum is slow and this is the hot path.
NO_FIT, NO_CANDIDATES, PREEMPT, RECLAIM, FIT = PreemptionMode

MODES = (Mode.NO_FIT, Mode.PREEMPT, Mode.PREEMPT, Mode.PREEMPT, Mode.FIT)
"""The mode users see of each grade."""

PREEMPTION_MODES = (NO_CANDIDATES, PREEMPT, RECLAIM)
"""The grade of each possibility."""

POSSIBILITIES = ("", *map(str, Possibility), "")
"""What `Attempt.preemption` says of each grade; nothing where the oracle was not asked."""

GranularMode = tuple[PreemptionMode, int]
"""A grade and the borrowing height that goes with it."""


def preferred(a: GranularMode, b: GranularMode, fungibility: Fungibility | None) -> bool:
    """Whether `a` is strictly better than `b`. Without fungibility the height does not count."""
    (mode, height), (other, other_height) = a, b
    if fungibility is None or mode == NO_FIT or other == NO_FIT:
        return mode > other
    if (mode == NO_CANDIDATES) != (other == NO_CANDIDATES):
        return other == NO_CANDIDATES
    if fungibility.preference == PREEMPTION_FIRST:
        return (-height, mode) > (-other_height, other)
    return (mode, -height) > (other, -other_height)


def good_enough(granular_mode: GranularMode, fungibility: Fungibility | None) -> bool:
    """Whether the search stops at a flavor, without a look at those after it."""
    mode, height = granular_mode
    if fungibility is None:
        return mode is FIT
    if mode <= NO_CANDIDATES:
        return False
    if mode is not FIT and fungibility.when_can_preempt == TRY_NEXT:
        return False
    return height == 0 or fungibility.when_can_borrow != TRY_NEXT
