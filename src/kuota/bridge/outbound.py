# SPDX-License-Identifier: Apache-2.0
"""Decision -> effects: the status each Workload gets, and the events that tell of it.

At most one status patch a Workload, and none that changes nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import assert_never

import msgspec

from kuota.api.base import Json, Key
from kuota.api.gates import Gate, Gates
from kuota.api.quantity import text
from kuota.api.workload import Workload
from kuota.engine.assignment import Assignment
from kuota.engine.decisions import Admit, Decision, Evict, Migrate, Preempt, Victim, Wait, Why
from kuota.engine.model import PodSet
from kuota.engine.reasons import EvictionReason, WaitReason

from .conditions import Conditions, shortened
from .effects import MAX_NOTE, Effect, Event, StatusPatch
from .eviction import evicted_status
from .messages import (
    assignment_text,
    preempting_text,
    priorities_text,
    victim_text,
    wait_text,
)

NO_RESERVATION = "The workload has no reservation"
PREVIOUSLY = "Previously: "


class Outbound:
    """Makes effects of decisions. `workload` gives the stored object of a key, if there is one."""

    def __init__(self, gates: Gates, workload: Callable[[Key], Workload | None]) -> None:
        self._gates = gates
        self._workload = workload

    def effects(self, decision: Decision, now: float) -> list[Effect]:
        """The writes that make the decision true. Nothing for objects that are gone."""
        match decision:
            case Admit():
                return self._admit(decision, now)
            case Preempt():
                return self._preempt(decision, now)
            case Migrate():
                return self._migrate(decision, now)
            case Evict():
                return self._evict(decision, now)
            case Wait():
                return self._wait(decision, now)
            case _:
                assert_never(decision)

    # Admission

    def _admit(self, decision: Admit, now: float) -> list[Effect]:
        obj = self._workload(decision.workload.key)
        if obj is None:
            return []
        queue = decision.cluster_queue
        reserved = f"Quota reserved in ClusterQueue {queue}"
        conditions = Conditions(obj.status.conditions, now, obj.metadata.generation)
        conditions.put("QuotaReserved", True, "QuotaReserved", reserved)
        for type_ in ("Evicted", "Preempted", "BlockedOnPreemptionGates"):
            conditions.lower(type_, "QuotaReserved", PREVIOUSLY)
        admitted = _all_ready(decision, obj)
        if admitted:
            conditions.put("Admitted", True, "Admitted", "The workload is admitted")
        elif self._gates.on(Gate.UnadmittedWorkloadsObservability):
            message = "Not all admission checks of the workload are ready"
            conditions.put("Admitted", False, "UnsatisfiedAdmissionChecks", message)
        status: Json = {
            "admission": admission_json(queue, decision.assignment),
            "conditions": conditions.json(),
        }
        if obj.status.resource_requests:
            status["resourceRequests"] = None
        waited = max(0, int(now - decision.workload.created)) if decision.workload.created else 0
        note = f"{reserved}, {waited}s after it was queued"
        effects: list[Effect] = [
            _patch(obj, status),
            Event(key=obj.key, reason="QuotaReserved", note=note),
        ]
        if admitted:
            effects.append(_event(obj.key, "Admitted", f"Admitted by ClusterQueue {queue}"))
        return effects + self._replace(decision, now)

    def _replace(self, decision: Admit, now: float) -> list[Effect]:
        """Finish the slice that the admitted workload takes over from."""
        old = decision.replaced
        obj = self._workload(old.key) if old is not None else None
        if obj is None:
            return []
        note = f"Replaced by {decision.workload.key}, which holds its quota now"
        conditions = Conditions(obj.status.conditions, now, obj.metadata.generation)
        conditions.put("Finished", True, "WorkloadSliceReplaced", note)
        return [
            _patch(obj, {"conditions": conditions.json()}),
            Event(key=obj.key, reason="WorkloadSliceReplaced", note=note),
        ]

    # Waiting

    def _wait(self, decision: Wait, now: float) -> list[Effect]:
        if decision.why is Why.SECOND_PASS:
            return []
        if decision.workload.reservation is not None:
            note = shortened(wait_text(decision), MAX_NOTE)
            return [
                Event(key=decision.workload.key, reason="SecondPassFailed", note=note, warning=True)
            ]
        message = wait_text(decision)
        blocked = decision.why is Why.GATED
        return self._pending(
            decision.workload.key,
            decision.reason,
            message,
            now,
            decision.workload.pod_sets,
            blocked=blocked,
        )

    def _pending(
        self,
        key: Key,
        reason: WaitReason,
        message: str,
        now: float,
        pod_sets: tuple[PodSet, ...],
        *,
        blocked: bool = False,
    ) -> list[Effect]:
        """Say on the Workload, and in an event, why it waits."""
        obj = self._workload(key)
        if obj is None:
            return []
        granular = self._gates.on(Gate.UnadmittedWorkloadsObservability)
        said = reason.value if granular else "Pending"
        conditions = Conditions(obj.status.conditions, now, obj.metadata.generation)
        conditions.put("QuotaReserved", False, said, message)
        if granular:
            conditions.put("Admitted", False, "NoReservation", NO_RESERVATION)
        if blocked:
            conditions.put("BlockedOnPreemptionGates", True, "PreemptionGated", message)
        status: Json = {}
        if conditions.changed:
            status["conditions"] = conditions.json()
        requests = requests_json(pod_sets)
        if requests != msgspec.to_builtins(obj.status.resource_requests or []):
            status["resourceRequests"] = requests
        event = Event(key=key, reason=said, note=shortened(message, MAX_NOTE), warning=True)
        return [_patch(obj, status), event] if status else [event]

    # Preemption

    def _preempt(self, decision: Preempt, now: float) -> list[Effect]:
        effects: list[Effect] = []
        for victim in decision.victims:
            if not victim.leaving:
                effects += self._displace(decision, victim, now)
        return effects + self._pending(
            decision.workload.key,
            WaitReason.WAITING_FOR_PREEMPTED,
            preempting_text(decision),
            now,
            decision.workload.pod_sets,
        )

    def _displace(self, decision: Preempt, victim: Victim, now: float) -> list[Effect]:
        obj = self._workload(victim.workload.key)
        if obj is None:
            return []
        message = victim_text(decision, victim)
        conditions = Conditions(obj.status.conditions, now, obj.metadata.generation)
        conditions.put("Preempted", True, victim.reason.value, message, observed=False)
        status = evicted_status(obj, conditions, EvictionReason.PREEMPTED, message, now)
        priorities = priorities_text(decision.workload, victim.workload)
        gone = f"{victim.workload.key} (UID: {victim.workload.uid}) in {victim.cluster_queue}"
        return [
            _patch(obj, status),
            _event(obj.key, "EvictedDueToPreempted", message),
            _event(obj.key, "Preempted", f"{message}; {priorities}"),
            _event(decision.workload.key, "PreemptedWorkload", f"Preempted {gone}; {priorities}"),
        ]

    def _migrate(self, decision: Migrate, now: float) -> list[Effect]:
        reason = EvictionReason.FLAVOR_MIGRATION
        message = f"making room for its sibling (UID: {decision.workload.uid}) on a better flavor"
        waiting = f"{assignment_text(decision.assignment)}. A sibling is being moved away"
        return self._evicted(decision.sibling.key, reason, message, now) + self._pending(
            decision.workload.key,
            WaitReason.WAITING_FOR_PREEMPTED,
            waiting,
            now,
            decision.workload.pod_sets,
        )

    def _evict(self, decision: Evict, now: float) -> list[Effect]:
        message = f"no replacement for unhealthy node(s): {decision.detail}"
        return self._evicted(decision.workload.key, decision.reason, message, now)

    def _evicted(self, key: Key, reason: EvictionReason, message: str, now: float) -> list[Effect]:
        obj = self._workload(key)
        if obj is None:
            return []
        conditions = Conditions(obj.status.conditions, now, obj.metadata.generation)
        status = evicted_status(obj, conditions, reason, message, now)
        return [_patch(obj, status), _event(key, f"EvictedDueTo{reason.value}", message)]


def _event(key: Key, reason: str, note: str) -> Event:
    return Event(key=key, reason=reason, note=shortened(note, MAX_NOTE))


def _patch(obj: Workload, status: Json) -> StatusPatch:
    version = obj.metadata.resource_version
    return StatusPatch(key=obj.key, resource_version=version, status=status)


def _all_ready(decision: Admit, obj: Workload) -> bool:
    """Whether nothing stands between the reservation and running."""
    if any(each.topology_pending for each in decision.assignment.pod_sets):
        return False
    states = {check.name: check.state for check in obj.status.admission_checks or ()}
    return all(states.get(name) == "Ready" for name in {*decision.checks, *states})


def admission_json(queue: str, assignment: Assignment) -> Json:
    """The admission to record: flavors, and usage of the resources that got one."""
    return {
        "clusterQueue": queue,
        "podSetAssignments": [
            {
                "name": each.name,
                "flavors": {name: choice.flavor for name, choice in each.flavors.items()},
                "resourceUsage": _quantities(
                    {name: each.requests.get(name, 0) for name in each.flavors}
                ),
                "count": each.count,
            }
            for each in assignment.pod_sets
        ],
    }


def requests_json(pod_sets: tuple[PodSet, ...]) -> list[Json]:
    """What every pod set asks for, as shown in the status of a waiting Workload."""
    return [
        {"name": each.name, "resources": _quantities(each.requests)}
        if each.requests
        else {"name": each.name}
        for each in pod_sets
    ]


def _quantities(amounts: Mapping[str, int]) -> dict[str, str]:
    return {name: text(amount, name) for name, amount in amounts.items()}
