# SPDX-License-Identifier: Apache-2.0
"""The operational log: one structured line per admission, preemption, eviction and rejection.

These lines have verbosity 2; a summary of every cycle has verbosity 4. Admissions and evictions are
logged when the API server has stored them, regardless of who wrote them. Preemptions and rejections
are logged when they are decided, and a rejection only when its reason changes.
"""

from __future__ import annotations

import logging
from collections import Counter
from typing import Any

from kuota.api.base import Key, condition
from kuota.api.workload import Workload
from kuota.bridge.draft import StoredWorkload
from kuota.bridge.lifetime import waited_s
from kuota.bridge.messages import wait_text
from kuota.engine.decisions import CycleResult, Decision, Preempt, Wait
from kuota.kube.clock import Clock

from .cached_object import CachedObject

V2 = logging.INFO - 2
V4 = logging.INFO - 4

_log = logging.getLogger("kuota.decisions")


class DecisionLog:
    """Logs every cycle, and every change of a Workload."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._rejections: dict[Key, str] = {}

    def cycle(self, outcome: CycleResult, took_s: float) -> None:
        """Log the preemptions and rejections of a cycle with decisions, and its summary."""
        if not outcome.decisions or not _log.isEnabledFor(V2):
            return
        for decision in outcome.decisions:
            if isinstance(decision, Preempt):
                _preempted(decision)
            elif isinstance(decision, Wait):
                self._rejected(decision)
        _log.log(V4, "Scheduling cycle", extra={"fields": _summary(outcome, took_s)})

    def changed(
        self, old: CachedObject[StoredWorkload] | None, new: CachedObject[StoredWorkload] | None
    ) -> None:
        """Log that a Workload got or lost its quota."""
        before = old.value if old is not None else None
        after = new.value if new is not None else None
        if old is not None and (after is None or after.reserved):
            self._rejections.pop(old.key, None)
        if before is None or after is None or before.obj.status == after.obj.status:
            return
        if not _log.isEnabledFor(V2):
            return
        if after.true("Admitted") and not before.true("Admitted"):
            self._admitted(after.obj, "Workload admitted")
        elif after.reserved and not before.reserved:
            self._admitted(after.obj, "Quota reserved")
        if after.true("Evicted") and not before.true("Evicted"):
            _evicted(after.obj)

    def _admitted(self, obj: Workload, message: str) -> None:
        admission = obj.status.admission
        fields = {
            "workload": str(obj.key),
            "localQueue": obj.spec.queue_name,
            "clusterQueue": admission.cluster_queue if admission is not None else "",
            "flavors": {each.name: dict(each.flavors or {}) for each in obj.assignments},
            "waitedSeconds": waited_s(obj, self._clock.now().timestamp()),
        }
        _log.log(V2, message, extra={"fields": fields})

    def _rejected(self, wait: Wait) -> None:
        key, reason = wait.workload.key, wait.why.value
        if self._rejections.get(key) == reason:
            return
        self._rejections[key] = reason
        fields = {
            "workload": str(key),
            "clusterQueue": wait.cluster_queue,
            "reason": wait.reason.value,
            "detail": wait_text(wait),
        }
        _log.log(V2, "Workload rejected", extra={"fields": fields})


def _preempted(decision: Preempt) -> None:
    for victim in decision.victims:
        if victim.leaving:
            continue
        fields = {
            "workload": str(victim.workload.key),
            "clusterQueue": victim.cluster_queue,
            "reason": victim.reason.value,
            "preemptor": str(decision.workload.key),
            "preemptorClusterQueue": decision.cluster_queue,
        }
        _log.log(V2, "Workload preempted", extra={"fields": fields})


def _evicted(obj: Workload) -> None:
    found = condition(obj.status.conditions, "Evicted")
    fields = {
        "workload": str(obj.key),
        "localQueue": obj.spec.queue_name,
        "reason": found.reason if found is not None else "",
        "detail": found.message if found is not None else "",
    }
    _log.log(V2, "Workload evicted", extra={"fields": fields})


def _summary(outcome: CycleResult, took_s: float) -> dict[str, Any]:
    counts = Counter(_kind(each) for each in outcome.decisions)
    return {
        "heads": len(outcome.decisions),
        **dict(sorted(counts.items())),
        "skippedPreemptions": sum(outcome.skipped_preemptions.values()),
        "durationMilliseconds": round(took_s * 1000, 3),
    }


def _kind(decision: Decision) -> str:
    return type(decision).__name__.lower()
