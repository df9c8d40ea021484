# SPDX-License-Identifier: Apache-2.0
"""Decision -> effects: the status of each Workload, and the events.

There is at most one status patch per Workload, and none without a change.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Mapping
from typing import assert_never

import msgspec
from msgspec.structs import replace

from kuota.api.base import Json, Key, is_true
from kuota.api.gates import Gate, Gates
from kuota.api.quantity import units, written
from kuota.api.workload import PREEMPTOR_UID, Admission, Workload
from kuota.engine.assignment import PodSetAssignment, WorkloadAssignment
from kuota.engine.decisions import Admit, Decision, Evict, Migrate, Preempt, Victim, Wait, WaitCause
from kuota.engine.model import PodSet
from kuota.engine.reasons import EvictionReason, WaitReason

from .admission import reserve, sync_admitted
from .conditions import Conditions
from .effects import Effect, Event, Patch, StatusPatch
from .eviction import evicted_status, eviction_event
from .inbound_workload import REPLACED
from .lifetime import waited_s
from .messages import (
    assignment_text,
    preempting_text,
    priorities_text,
    victim_text,
    wait_text,
)


class Outbound:
    """Converts decisions to effects. `workload` returns the stored object, if it exists.

    `sizes` are resources that are written with binary suffixes, as memory is.
    """

    def __init__(
        self,
        gates: Gates,
        workload: Callable[[Key], Workload | None],
        sizes: Container[str] = (),
    ) -> None:
        self._gates = gates
        self._workload = workload
        self._sizes = sizes

    def effects(self, decision: Decision, now: float) -> list[Effect]:
        """Return the writes that carry out the decision. Deleted objects are skipped."""
        return [each for batch in self.batches(decision, now) for each in batch]

    def batches(self, decision: Decision, now: float) -> list[list[Effect]]:
        """Return the same writes in batches. The failure of one batch does not affect others."""
        match decision:
            case Admit():
                return [self._admit(decision, now)]
            case Preempt():
                return self._preempt(decision, now)
            case Migrate():
                return [self._migrate(decision, now)]
            case Evict():
                return [self._evict(decision, now)]
            case Wait():
                return [self._wait(decision, now)]
            case _:
                assert_never(decision)

    def _conditions(self, obj: Workload, now: float) -> Conditions:
        return Conditions(obj.status.conditions, now, obj.metadata.generation)

    def _admit(self, decision: Admit, now: float) -> list[Effect]:
        """Write the reservation, and Admitted if all checks are listed."""
        obj = self._workload(decision.workload.key)
        if obj is None:
            return []
        conditions = self._conditions(obj, now)
        reserve(conditions, decision.cluster_queue)
        states = {check.name: check.state for check in obj.status.admission_checks or ()}
        if states.keys() >= set(decision.checks):
            placed = not any(each.topology_pending for each in decision.assignment.pod_sets)
            sync_admitted(conditions, states.values(), self._gates, placed=placed)
        admission = admission_json(decision.cluster_queue, decision.assignment, self._sizes)
        if decision.second_pass and obj.status.admission is not None:
            admission = with_places(obj.status.admission, decision.assignment)
        status: Json = {"admission": admission, "conditions": conditions.json()}
        if obj.status.unhealthy_nodes:
            status["unhealthyNodes"] = None
        if obj.status.resource_requests:
            status["resourceRequests"] = None
        effects: list[Effect] = [*_clear_stale_admission(obj), _patch(obj, status)]
        effects += _progress(obj, conditions, decision.cluster_queue, now)
        return effects + self._replace(decision, now)

    def _replace(self, decision: Admit, now: float) -> list[Effect]:
        """Finish the slice that the admitted workload replaces."""
        old = decision.replaced
        obj = self._workload(old.key) if old is not None else None
        if obj is None:
            return []
        note = f"Replaced by {decision.workload.key}, which holds its quota now"
        conditions = self._conditions(obj, now)
        conditions.put("Finished", True, REPLACED, note)
        return [
            _patch(obj, {"conditions": conditions.json()}),
            Event.about(obj.key, REPLACED, note),
        ]

    def _wait(self, decision: Wait, now: float) -> list[Effect]:
        if decision.why is WaitCause.SECOND_PASS:
            return []
        if decision.workload.reservation is not None:
            key, note = decision.workload.key, wait_text(decision)
            return [Event.about(key, "SecondPassFailed", note, warning=True)]
        return self._pending(
            decision,
            decision.reason,
            wait_text(decision),
            now,
            blocked=decision.why is WaitCause.GATED,
        )

    def _pending(
        self,
        decision: Wait | Preempt | Migrate,
        reason: WaitReason,
        message: str,
        now: float,
        *,
        blocked: bool = False,
    ) -> list[Effect]:
        """Report on the Workload and in an event why it is pending."""
        key, pod_sets = decision.workload.key, decision.workload.pod_sets
        obj = self._workload(key)
        if obj is None:
            return []
        condition_reason = pending_reason(reason, self._gates)
        conditions = self._conditions(obj, now)
        conditions.put("QuotaReserved", False, condition_reason, message)
        sync_admitted(conditions, (), self._gates)
        if blocked:
            conditions.put("BlockedOnPreemptionGates", True, "PreemptionGated", message)
        status: Json = {}
        if conditions.changed:
            status["conditions"] = conditions.json()
        if not shows_requests(obj, pod_sets):
            status["resourceRequests"] = requests_json(pod_sets, self._sizes)
        event = Event.about(key, condition_reason, message, warning=True)
        return [_patch(obj, status), event] if status else [event]

    def _preempt(self, decision: Preempt, now: float) -> list[list[Effect]]:
        """Return a batch for each eviction, and one for the preemptor."""
        victims = [each for each in decision.victims if not each.leaving]
        evictions = [self._displace(decision, each, now) for each in victims]
        reason = WaitReason.WAITING_FOR_PREEMPTED
        return [*evictions, self._pending(decision, reason, preempting_text(decision), now)]

    def _displace(self, decision: Preempt, victim: Victim, now: float) -> list[Effect]:
        obj = self._workload(victim.workload.key)
        if obj is None:
            return []
        message = victim_text(decision, victim)
        conditions = self._conditions(obj, now)
        conditions.put("Preempted", True, victim.reason.value, message, observed=False)
        status = evicted_status(obj, conditions, EvictionReason.PREEMPTED, message, now)
        priorities = priorities_text(decision.workload, victim.workload)
        gone = f"{victim.workload.key} (UID: {victim.workload.uid}) in {victim.cluster_queue}"
        return [
            _patch(obj, status),
            *_preemptor_noted(obj, decision.workload.uid),
            *eviction_event(obj, EvictionReason.PREEMPTED, message),
            Event.about(obj.key, "Preempted", f"{message}; {priorities}"),
            Event.about(
                decision.workload.key, "PreemptedWorkload", f"Preempted {gone}; {priorities}"
            ),
        ]

    def _migrate(self, decision: Migrate, now: float) -> list[Effect]:
        reason = EvictionReason.FLAVOR_MIGRATION
        message = f"making room for its sibling (UID: {decision.workload.uid}) on a better flavor"
        waiting = f"{assignment_text(decision.assignment)}. A sibling variant is being evicted"
        sibling = decision.sibling.key
        evicted = [] if decision.leaving else self._evicted(sibling, reason, message, now)
        return evicted + self._pending(decision, WaitReason.WAITING_FOR_PREEMPTED, waiting, now)

    def _evict(self, decision: Evict, now: float) -> list[Effect]:
        message = f"no replacement for unhealthy node(s): {decision.detail}"
        return self._evicted(decision.workload.key, decision.reason, message, now)

    def _evicted(self, key: Key, reason: EvictionReason, message: str, now: float) -> list[Effect]:
        obj = self._workload(key)
        if obj is None:
            return []
        conditions = self._conditions(obj, now)
        status = evicted_status(obj, conditions, reason, message, now)
        return [_patch(obj, status), *eviction_event(obj, reason, message)]


def _clear_stale_admission(obj: Workload) -> list[Effect]:
    """Unset an admission without a reservation: an admission is set or unset, never changed.

    This happens if another writer ended the reservation without owning the admission.
    """
    if obj.status.admission is None or is_true(obj.status.conditions, "QuotaReserved"):
        return []
    return [_patch(obj, {"admission": None})]


def pending_reason(reason: WaitReason, gates: Gates) -> str:
    """Return the scheduler's reason of QuotaReserved=False; without the gate, always Pending."""
    return reason.value if gates.on(Gate.UnadmittedWorkloadsObservability) else "Pending"


def _progress(obj: Workload, conditions: Conditions, queue: str, now: float) -> list[Event]:
    """The events of what has just become true. A second pass makes at most Admitted true.

    Admitted implies QuotaReserved, so the latter can wait where both become true at once.
    """
    events = []
    admitted = conditions.true("Admitted") and not is_true(obj.status.conditions, "Admitted")
    since = f"{conditions.age_s('QuotaReserved')}s after the reservation"
    if not is_true(obj.status.conditions, "QuotaReserved"):
        since = f"{waited_s(obj, now)}s after it was queued"
        note = f"Quota reserved in ClusterQueue {queue}, {since}"
        events.append(replace(Event.about(obj.key, "QuotaReserved", note), can_wait=admitted))
    if admitted:
        note = f"Admitted by ClusterQueue {queue}, {since}"
        events.append(Event.about(obj.key, "Admitted", note))
    return events


def _preemptor_noted(obj: Workload, uid: str) -> list[Effect]:
    """Annotate the UID of the preemptor, for programs that display it."""
    if obj.metadata.annotation(PREEMPTOR_UID) == uid:
        return []
    body = {"metadata": {"annotations": {PREEMPTOR_UID: uid}}}
    return [Patch(key=obj.key, resource_version=obj.metadata.resource_version, body=body)]


def _patch(obj: Workload, status: Json) -> StatusPatch:
    version = obj.metadata.resource_version
    return StatusPatch(key=obj.key, resource_version=version, status=status)


def admission_json(queue: str, assignment: WorkloadAssignment, sizes: Container[str] = ()) -> Json:
    """Return the admission: flavors, usage of the resources with a flavor, and nodes if known."""
    return {
        "clusterQueue": queue,
        "podSetAssignments": [_pod_set_json(each, sizes) for each in assignment.pod_sets],
    }


def _pod_set_json(given: PodSetAssignment, sizes: Container[str]) -> Json:
    usage = {name: given.requests.get(name, 0) for name in given.flavors}
    found: Json = {
        "name": given.name,
        "flavors": {name: choice.flavor for name, choice in given.flavors.items()},
        "resourceUsage": _quantities(usage, sizes),
        "count": given.count,
    }
    return found | _places_json(given)


def _places_json(given: PodSetAssignment) -> Json:
    found: Json = {}
    if given.topology is not None:
        found["topologyAssignment"] = msgspec.to_builtins(given.topology)
    if given.delayed_topology:
        found["delayedTopologyRequest"] = given.delayed_topology
    return found


def with_places(admission: Admission, assignment: WorkloadAssignment) -> Json:
    """Return a stored admission with the nodes of a second pass, and everything else unchanged."""
    places = {each.name: _places_json(each) for each in assignment.pod_sets}
    found: Json = msgspec.to_builtins(admission)
    found["podSetAssignments"] = [
        each | places.get(each["name"], {}) for each in found.get("podSetAssignments") or ()
    ]
    return found


def requests_json(pod_sets: tuple[PodSet, ...], sizes: Container[str] = ()) -> list[Json]:
    """Return the requests of every pod set for the status of a pending Workload."""
    return [
        {"name": each.name, "resources": _quantities(each.requests, sizes)}
        if each.requests
        else {"name": each.name}
        for each in pod_sets
    ]


def shows_requests(obj: Workload, pod_sets: tuple[PodSet, ...]) -> bool:
    """Whether the status shows exactly these requests, in any notation."""
    shown = {
        each.name: {name: units(amount, name) for name, amount in (each.resources or {}).items()}
        for each in obj.status.resource_requests or ()
    }
    return shown == {each.name: each.requests for each in pod_sets}


def _quantities(amounts: Mapping[str, int], sizes: Container[str]) -> dict[str, str]:
    return {name: written(amount, name, sizes) for name, amount in amounts.items()}
