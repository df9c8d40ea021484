# SPDX-License-Identifier: Apache-2.0
"""How long a workload ran, may still run, waited, and took to be sent back: for limits and metrics.

Times are whole seconds, as conditions have no finer ones.
"""

from __future__ import annotations

from datetime import datetime

from kuota.api.base import condition, true_condition
from kuota.api.workload import Workload
from kuota.engine.model import Struct

from .admission import lost_quota, phase
from .conditions import stamp


class CompletedEviction(Struct):
    """An eviction that came to its end: the quota of that ClusterQueue is free again."""

    cluster_queue: str
    reason: str
    took_s: float


def execution_s(obj: Workload) -> float | None:
    """How long a finished workload ran in all; None unless it finished while admitted."""
    admitted, finished = _true_since(obj, "Admitted"), _true_since(obj, "Finished")
    if admitted is None or finished is None:
        return None
    return _past_s(obj) + (finished - admitted).total_seconds()


def remaining_s(obj: Workload, now: float) -> float | None:
    """How long an admitted workload may still run, negative if it ran too long; None: no limit."""
    limit, admitted = obj.spec.maximum_execution_time_seconds, _true_since(obj, "Admitted")
    if limit is None or admitted is None:
        return None
    return limit - _past_s(obj) - (now - admitted.timestamp())


def waited_s(obj: Workload, now: float) -> int:
    """How long it has been queued: since it came back, or else since it was created."""
    requeued = condition(obj.status.conditions, "Requeued")
    since = requeued.last_transition_time if requeued is not None else None
    since = since or obj.metadata.creation_timestamp
    return max(0, int((stamp(now) - since).total_seconds())) if since is not None else 0


def eviction_end(old: Workload | None, new: Workload, now: float) -> CompletedEviction | None:
    """What the change from `old` to `new` ends: an eviction; None when it does not."""
    evicted = true_condition(new.status.conditions, "Evicted")
    if old is None or evicted is None or not lost_quota(phase(old), phase(new)):
        return None
    admission = old.status.admission or new.status.admission
    since = evicted.last_transition_time
    return CompletedEviction(
        cluster_queue=admission.cluster_queue if admission is not None else "",
        reason=evicted.reason,
        took_s=now - since.timestamp() if since is not None else 0.0,
    )


def _past_s(obj: Workload) -> int:
    return obj.status.accumulated_past_execution_time_seconds or 0


def _true_since(obj: Workload, type_: str) -> datetime | None:
    found = true_condition(obj.status.conditions, type_)
    return found.last_transition_time if found is not None else None
