# SPDX-License-Identifier: Apache-2.0
"""Measures the time from the eviction of a workload to its next admission. Pure."""

from __future__ import annotations

import msgspec

from kuota.api.base import is_true, true_condition
from kuota.api.workload import Workload

from .device_time import eviction_reason


class Restart(msgspec.Struct, frozen=True):
    """A workload was admitted again."""

    cluster_queue: str
    reason: str
    took_s: float


class Restarts:
    """The evicted workloads that were not admitted again, by uid."""

    def __init__(self) -> None:
        self._evicted: dict[str, tuple[float, str]] = {}

    def __len__(self) -> int:
        return len(self._evicted)

    def changed(self, old: Workload | None, new: Workload | None, now: float) -> Restart | None:
        """Take a change, and return the restart that it is; None if it is none."""
        if new is None or is_true(new.status.conditions, "Finished"):
            self._forget(new or old)
            return None
        evicted = true_condition(new.status.conditions, "Evicted")
        if evicted is not None:
            at = evicted.last_transition_time
            since = at.timestamp() if at is not None else now
            self._evicted[new.metadata.uid] = since, eviction_reason(new)
        elif is_true(new.status.conditions, "Admitted"):
            return self._restarted(new, now)
        return None

    def _restarted(self, new: Workload, now: float) -> Restart | None:
        found = self._evicted.pop(new.metadata.uid, None)
        admission = new.status.admission
        if found is None or admission is None:
            return None
        since, reason = found
        return Restart(admission.cluster_queue, reason, max(0.0, now - since))

    def _forget(self, workload: Workload | None) -> None:
        if workload is not None:
            self._evicted.pop(workload.metadata.uid, None)
