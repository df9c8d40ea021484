# SPDX-License-Identifier: Apache-2.0
"""What a Workload takes from its queue and its priority class: checks, gates, priority."""

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
    """Return the status patch that lists exactly the required checks; empty if none is needed."""
    listed = obj.status.admission_checks or []
    wanted = listed_checks(listed, required_checks(queue, obj.status.admission), now)
    if [each.name for each in wanted] == sorted(each.name for each in listed):
        return {}
    return {"admissionChecks": [check_json(each) for each in wanted] or None}


def listed_checks(
    listed: Iterable[AdmissionCheckState], required: Iterable[str], now: float
) -> list[AdmissionCheckState]:
    """Return the required checks by name: known ones unchanged, others Pending."""
    known = {each.name: each for each in listed}
    return [
        known.get(name)
        or AdmissionCheckState(name=name, state="Pending", last_transition_time=stamp(now))
        for name in sorted(set(required))
    ]


def check_json(check: AdmissionCheckState) -> Json:
    """Convert a check for a patch. The API server requires a message, even an empty one."""
    return {"message": "", **msgspec.to_builtins(check)}


def synced_preemption_gates(obj: Workload, now: float) -> Json:
    """Return the status patch that lists the preemption gates of the spec; empty if not needed.

    Listed gates keep their position. New gates are closed.
    """
    listed = obj.status.preemption_gates or []
    names = [each.name for each in obj.spec.preemption_gates or ()]
    kept = [each for each in listed if each.name in names]
    known = {each.name for each in kept}
    closed = {"position": "Closed", "lastTransitionTime": timestamp(now)}
    added = [{"name": name, **closed} for name in names if name not in known]
    if kept == listed and not added:
        return {}
    return {"preemptionGates": [*msgspec.to_builtins(kept), *added] or None}


KIND = "WorkloadPriorityClass"


def priority_updates(
    value: WorkloadPriorityClass, workloads: Iterable[StoredWorkload]
) -> list[Effect]:
    """Return the writes that give every unfinished Workload of the class its priority.

    It does not matter whether a Workload has quota.
    """
    return [
        Patch(
            key=stored.key,
            resource_version=stored.obj.metadata.resource_version,
            body={"spec": {"priority": value.value}},
        )
        for stored in workloads
        if not stored.true("Finished")
        and priority_class_of(stored) == value.metadata.name
        and stored.obj.spec.priority != value.value
    ]


def priority_class_of(stored: StoredWorkload) -> str:
    """Return the WorkloadPriorityClass of a Workload, "" for none."""
    ref = stored.obj.spec.priority_class_ref
    return ref.name if ref is not None and ref.kind == KIND else ""
