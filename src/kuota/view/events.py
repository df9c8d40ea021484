# SPDX-License-Identifier: Apache-2.0
"""What happened to workloads, and when: the raw material of a timeline."""

from __future__ import annotations

from enum import StrEnum

from kuota.api.base import Key
from kuota.engine.explanation import Explanation
from kuota.engine.model import Instant, Struct
from kuota.engine.reasons import PreemptionReason


class Happening(StrEnum):
    ARRIVED = "Arrived"
    ADMITTED = "Admitted"
    RESERVED = "QuotaReserved"
    PREEMPTED = "Preempted"
    EVICTED = "Evicted"
    FINISHED = "Finished"


class Event(Struct):
    """One happening. `by` and `reason` tell for whom a workload was preempted, and why.

    `why` is said of one that arrived and had to wait.
    """

    at: Instant
    what: Happening
    workload: Key
    by: Key | None = None
    reason: PreemptionReason | None = None
    why: Explanation | None = None
