# SPDX-License-Identifier: Apache-2.0
"""What a Workload takes over from its queue and its priority class: checks, gates, and a value."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from kuota.api.base import Json
from kuota.api.kueue import WorkloadPriorityClass
from kuota.api.workload import AdmissionCheckState, Workload
from kuota.engine.model import ClusterQueue

from .admission import required_checks
from .conditions import stamp, timestamp
from .draft import StoredWorkload
from .effects import Effect, Patch


def synced_checks(obj: Workload, queue: ClusterQueue, now: float) -> Json:
    """The status patch that lists exactly the required checks; empty when it does."""
    listed = obj.status.admission_checks or []
    wanted = listed_checks(listed, required_checks(queue, obj.status.admission), now)
    if [each.name for each in wanted] == sorted(each.name for each in listed):
        return {}
    return {"admissionChecks": [check_json(each) for each in wanted] or None}


def listed_checks(
    listed: Iterable[AdmissionCheckState], required: Iterable[str], now: float
) -> list[AdmissionCheckState]:
    """The required checks by name: those known as they are, the others Pending."""
    known = {each.name: each for each in listed}
    return [
        known.get(name)
        or AdmissionCheckState(name=name, state="Pending", last_transition_time=stamp(now))
        for name in sorted(set(required))
    ]


def check_json(check: AdmissionCheckState) -> Json:
    """For a patch. An API server refuses one without a message, even an empty."""
    return {"message": "", **msgspec.to_builtins(check)}


def missing_gates(obj: Workload, now: float) -> Json:
    """The status patch that lists the preemption gates of the spec; empty when it does."""
    known = {each.name: each for each in obj.status.preemption_gates or ()}
    names = [each.name for each in obj.spec.preemption_gates or ()]
    if list(known) == names:
        return {}
    at = timestamp(now)
    closed = {"position": "Closed", "lastTransitionTime": at}
    gates = [
        msgspec.to_builtins(known[name]) if name in known else {"name": name, **closed}
        for name in names
    ]
    return {"preemptionGates": gates or None}


KIND = "WorkloadPriorityClass"


def followers(value: WorkloadPriorityClass, workloads: Iterable[StoredWorkload]) -> list[Effect]:
    """Give every unfinished Workload of the class its value, whether it holds quota or not."""
    return [
        Patch(
            key=stored.key,
            resource_version=stored.obj.metadata.resource_version,
            body={"spec": {"priority": value.value}},
        )
        for stored in workloads
        if not stored.true("Finished")
        and named(stored) == value.metadata.name
        and stored.obj.spec.priority != value.value
    ]


def named(stored: StoredWorkload) -> str:
    """The WorkloadPriorityClass that a Workload has its priority from, "" for none."""
    ref = stored.obj.spec.priority_class_ref
    return ref.name if ref is not None and ref.kind == KIND else ""
