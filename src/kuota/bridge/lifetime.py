# SPDX-License-Identifier: Apache-2.0
"""Durations of a workload for limits and metrics: execution, waiting, eviction.

Times are whole seconds, the resolution of conditions.
"""

from __future__ import annotations

from datetime import datetime

from kuota.api.base import condition, true_condition
from kuota.api.workload import Workload
from kuota.engine.model import Struct

from .admission import lost_quota, phase
from .conditions import stamp


class CompletedEviction(Struct):
    """An eviction that ended: the quota of the ClusterQueue is released."""

    cluster_queue: str
    reason: str
    took_s: float


def execution_s(obj: Workload) -> float | None:
    """Return the total execution time of a finished workload; None if it was not admitted."""
    admitted, finished = _true_since(obj, "Admitted"), _true_since(obj, "Finished")
    if admitted is None or finished is None:
        return None
    return _past_s(obj) + (finished - admitted).total_seconds()


def remaining_s(obj: Workload, now: float) -> float | None:
    """Return the remaining execution time of an admitted workload; None without a limit.

    The result is negative if the limit is exceeded.
    """
    limit, admitted = obj.spec.maximum_execution_time_seconds, _true_since(obj, "Admitted")
    if limit is None or admitted is None:
        return None
    return limit - _past_s(obj) - (now - admitted.timestamp())


def waited_s(obj: Workload, now: float) -> int:
    """Return the time since the workload was requeued, or else since it was created."""
    requeued = condition(obj.status.conditions, "Requeued")
    since = requeued.last_transition_time if requeued is not None else None
    since = since or obj.metadata.creation_timestamp
    return max(0, int((stamp(now) - since).total_seconds())) if since is not None else 0


def eviction_end(old: Workload | None, new: Workload, now: float) -> CompletedEviction | None:
    """Return the eviction that ends with this change; None if there is none.

    It counts for the ClusterQueue that had admitted the workload, if that is known.
    """
    evicted = true_condition(new.status.conditions, "Evicted")
    if old is None or evicted is None or not lost_quota(phase(old), phase(new)):
        return None
    admission = old.status.admission
    if admission is None or not admission.cluster_queue:
        return None
    since = evicted.last_transition_time
    return CompletedEviction(
        cluster_queue=admission.cluster_queue,
        reason=evicted.reason,
        took_s=now - since.timestamp() if since is not None else 0.0,
    )


def _past_s(obj: Workload) -> int:
    return obj.status.accumulated_past_execution_time_seconds or 0


def _true_since(obj: Workload, type_: str) -> datetime | None:
    found = true_condition(obj.status.conditions, type_)
    return found.last_transition_time if found is not None else None
