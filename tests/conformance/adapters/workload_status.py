# SPDX-License-Identifier: Apache-2.0
"""Suites on the status of a Workload: conditions, checks, requeueing, times."""

from __future__ import annotations

from datetime import datetime

from msgspec import to_builtins

from conformance.case import Json, Run, refused, same, seconds
from conformance.recorder import convert, whole
from conformance.registry import suite
from conformance.world import cluster_queue, gates_of, go_seconds
from kuota.api.merge_patch import merged
from kuota.api.workload import Admission, AdmissionCheckState, ReclaimablePod, Workload
from kuota.bridge.admission import (
    WorkloadPhase,
    admitted_status,
    lost_quota,
    required_checks,
    reserve,
)
from kuota.bridge.conditions import Conditions
from kuota.bridge.job_pass.reclaimable import limited, reclaimable_status, same_pods
from kuota.bridge.lifecycle_reserved import delayed, retry_at
from kuota.bridge.lifetime import eviction_end, execution_s


def _workload(record: Json) -> Workload:
    return convert(record, Workload)


def _conditions(listed: list[Json] | None, *, timed: bool = False) -> Json:
    """Conditions by type, without their texts; and without their times unless those count."""
    dropped = {"message"} if timed else {"message", "lastTransitionTime"}
    return {
        each["type"]: {name: value for name, value in each.items() if name not in dropped}
        for each in listed or ()
    }


@suite("workload/workload-TestSyncAdmittedCondition")
def synced(run: Run) -> None:
    status = {
        "conditions": run.inputs.get("conditions"),
        "admissionChecks": run.inputs.get("checkStates"),
        "admission": run.inputs.get("admission"),
        "accumulatedPastExecutionTimeSeconds": run.inputs.get("pastAdmittedTime"),
    }
    obj = _workload({"metadata": {"generation": 1}, "status": status})
    patch = admitted_status(obj, seconds(run.inputs["shared"]["testTime"]), gates_of(run))
    same(run.expected["wantChange"], bool(patch))
    after = merged(status, patch)
    same(_conditions(run.expected["wantConditions"]), _conditions(after["conditions"]))
    # Zero means that the time is not looked at: it stands also where a second has passed.
    if run.expected["wantAdmittedTime"]:
        same(run.expected["wantAdmittedTime"], after["accumulatedPastExecutionTimeSeconds"])


@suite(
    "workload/workload-TestSetQuotaReservation",
    ignores={"inputs.shared": "the admission that is among the arguments too"},
)
def reserved(run: Run) -> None:
    given = whole(run.inputs["args"]["workload"])
    obj, admission = _workload(given), whole(run.inputs["args"]["admission"])
    conditions = Conditions(obj.status.conditions, run.now, obj.metadata.generation)
    reserve(conditions, convert(admission, Admission).cluster_queue)
    status = {"admission": admission, "conditions": _conditions(conditions.json(), timed=True)}
    wanted = whole(run.expected["want"])
    wanted["status"]["conditions"] = _conditions(wanted["status"]["conditions"], timed=True)
    same(wanted, given | {"status": given["status"] | status})


@suite("workload/workload-TestSetConditionAndUpdate")
def condition_set(run: Run) -> None:
    given = run.inputs
    before = _workload({"status": given["oldStatus"]}).status.conditions
    conditions = Conditions(before, run.now, 1)
    conditions.put(
        given["condType"], given["condStatus"] == "True", given["reason"], given["message"]
    )
    # A write that fails changes nothing and is reported as it is.
    failed = whole(run.inputs.get("err"))
    found = to_builtins(before) if failed else conditions.json()
    same(_conditions(run.expected["wantStatus"].get("conditions")), _conditions(found))
    refused(run.expected["wantErr"], failed)


@suite("workload/workload-TestFilterChecksForAdmission")
def checks_for_admission(run: Run) -> None:
    obj = _workload(run.inputs["wl"])
    found = required_checks(cluster_queue(run.inputs["cq"]), obj.status.admission)
    same(sorted(run.expected["wantAdmissionChecks"] or ()), sorted(found))


@suite("workload/workload-TestGetMaxRetryTime")
def retry_time(run: Run) -> None:
    found = retry_at(convert(run.inputs.get("checkStates") or [], list[AdmissionCheckState]))
    same(seconds(run.expected["wantRetryTime"]), found.timestamp() if found else None)


@suite("workload/workload-TestSetRequeueState")
def requeue_state(run: Run) -> None:
    before = _workload(run.inputs["workload"]).status.requeue_state
    until = convert(run.inputs["waitUntil"], datetime)
    after = delayed(before, until, counted=run.inputs["incrementCount"])
    same(run.expected["wantCount"], after.count)
    same(seconds(run.expected["wantRequeueAt"]), after.requeue_at and after.requeue_at.timestamp())
    same(run.expected["wantUpdated"], after != before)


@suite("workload/workload-TestTotalExecutionTime")
def execution_time(run: Run) -> None:
    record = run.inputs.get("wl")
    found = execution_s(_workload(record)) if record else None
    wanted = run.expected["want"]
    same(None if wanted is None else go_seconds(wanted), found)


@suite("workload/workload-TestEvictionPendingLatency")
def eviction_latency(run: Run) -> None:
    old = run.inputs.get("oldWl")
    new = _workload(run.inputs["newWl"])
    found = eviction_end(_workload(old) if old else None, new, seconds(run.inputs["now"]))
    same(run.expected["wantOK"], found is not None)
    same(run.expected["wantCQ"], found and found.cluster_queue)
    same(run.expected["wantReason"], found and found.reason)
    same(go_seconds(run.expected["wantLatency"]), found and found.took_s)


@suite("workload/workload-TestFromQuotaReservedOrAdmittedToPending")
def back_to_pending(run: Run) -> None:
    same(
        run.expected["want"],
        lost_quota(WorkloadPhase(run.inputs["prev"]), WorkloadPhase(run.inputs["new"])),
    )


@suite("workload/workload-TestReclaimablePodsAreEqual")
def equal_reclaimable(run: Run) -> None:
    same(run.expected["wantResult"], same_pods(_pods(run, "a"), _pods(run, "b")))


@suite("workload/workload-TestLimitReclaimablePodsToPodSetSizes")
def limited_reclaimable(run: Run) -> None:
    found = limited(_pods(run, "reclaimablePods"), _workload(run.inputs["shared"]["wl"]))
    same(run.expected["want"], to_builtins(found))


@suite("workload/workload-TestUpdateReclaimablePods")
def recorded_reclaimable(run: Run) -> None:
    before = whole(run.inputs["oldStatus"])
    patch = reclaimable_status(_workload({"status": before}), _pods(run, "reclaimablePods"))
    failed = whole(run.inputs.get("err"))
    refused(run.expected["wantErr"], failed)
    same(run.expected["wantStatus"], before if failed else merged(before, patch))


def _pods(run: Run, name: str) -> list[ReclaimablePod]:
    return convert(run.inputs.get(name) or [], list[ReclaimablePod])
