# SPDX-License-Identifier: Apache-2.0
"""Records of jobs follow the conditions of their Workloads, whatever is observed when."""

from __future__ import annotations

from datetime import UTC, datetime

import msgspec
import pytest

from kuota.api.base import Json, OwnerReference
from kuota.api.core import PodTemplateSpec
from kuota.api.workload import PREEMPTOR_UID, PodSet, Workload
from kuota.bridge.held_amounts import held_amounts
from kuota.history.accounts import By, Period, merged, resource_hours, usage
from kuota.history.records import (
    RESIZED,
    Interval,
    JobRecord,
    RecordedOutcome,
    Run,
    forgotten,
    recorded,
)

GPU = "nvidia.com/gpu"
ALWAYS = Period(0, 1e9)


def at(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat().replace("+00:00", "Z")


def condition(type_: str, when: float, status: str = "True", reason: str = "x") -> Json:
    words = {"type": type_, "status": status, "reason": reason, "message": f"{type_} {reason}"}
    return words | {"lastTransitionTime": at(when)}


def workload(*conditions: Json, gpus: int = 0, **more: object) -> Workload:
    status: Json = {"conditions": list(conditions), **more}
    if gpus:
        held = {"name": "main", "count": 2, "flavors": {GPU: "a100"}}
        held |= {"resourceUsage": {GPU: str(gpus)}}
        status["admission"] = {"clusterQueue": "cq", "podSetAssignments": [held]}
    metadata: Json = {
        "name": "job-train",
        "namespace": "team",
        "uid": "u",
        "creationTimestamp": at(100),
    }
    metadata["annotations"] = {"kuota.dev/author": "ann"}
    pod_sets = [{"name": "main", "count": 2, "template": {}}]
    owner = {"apiVersion": "batch/v1", "kind": "Job", "name": "train", "uid": "j"}
    metadata["ownerReferences"] = [owner | {"controller": True}]
    return msgspec.convert(
        {
            "metadata": metadata,
            "spec": {"queueName": "main", "podSets": pod_sets},
            "status": status,
        },
        Workload,
    )


def admitted(when: float, gpus: int = 2, **more: object) -> Workload:
    conditions = condition("QuotaReserved", when), condition("Admitted", when)
    return workload(*conditions, gpus=gpus, **more)


def evicted(when: float, reason: str = "Preempted") -> Workload:
    return workload(
        condition("Evicted", when, reason=reason),
        condition("QuotaReserved", when + 5, "False"),
        condition("Admitted", when + 5, "False"),
    )


def finished(since: float, when: float, reason: str = "Succeeded") -> Workload:
    return workload(
        condition("Admitted", since), condition("Finished", when, reason=reason), gpus=2
    )


def test_a_job_requests_its_limits_and_what_the_controller_reports() -> None:
    limits = {"containers": [{"name": "c", "resources": {"limits": {GPU: "3"}}}]}
    created = workload()
    template = msgspec.convert({"spec": limits}, PodTemplateSpec)
    pods = msgspec.structs.replace((created.spec.pod_sets or [])[0], template=template)
    spec = msgspec.structs.replace(created.spec, pod_sets=[pods])
    created = msgspec.structs.replace(created, spec=spec)
    assert {GPU: 6} == observed(created).requests
    counted = {"name": "main", "resources": {"credits": "40"}}
    waits = workload(resourceRequests=[counted])
    assert {"credits": 40} == observed(created, waits).requests
    # The status no longer has the requests, but the job waited for them.
    assert {"credits": 40} == observed(created, waits, admitted(200)).requests


def observed(*states: Workload, now: float = 0.0) -> JobRecord:
    record = None
    for each in states:
        record = recorded(record, each, now)
        assert record == recorded(record, each, now + 1), "a repeated state changes nothing"
    assert record is not None
    return record


def hours(record: JobRecord, period: Period = ALWAYS) -> tuple[float, float]:
    found = resource_hours(record, period).get(GPU)
    return (found.hours * 3600, found.lost * 3600) if found else (0.0, 0.0)


def test_a_job_is_described_by_its_owner_and_its_author() -> None:
    record = observed(workload())
    assert ("Job", "train", "ann", "main", 100) == (
        record.kind,
        record.job,
        record.user,
        record.queue,
        record.submitted,
    )


def test_a_run_lasts_from_admission_to_the_end() -> None:
    record = observed(workload(), admitted(110), finished(110, 150))
    assert (80, 0) == hours(record)
    assert (RecordedOutcome.SUCCEEDED, 150) == (record.outcome, record.finished)
    assert 10 == record.waited_ms(0, 10**12) / 1000


def test_a_run_that_was_observed_only_after_its_end_counts() -> None:
    assert (80, 0) == hours(observed(finished(110, 150, "Failed")))


def test_a_preempted_run_lasts_until_its_quota_is_released() -> None:
    record = observed(admitted(110), evicted(120), admitted(140), finished(140, 150))
    assert (2 * 15 + 2 * 10, 30) == hours(record)
    assert 1 == record.preemptions
    assert 10 + 15 == record.waited_ms(0, 10**12) / 1000


def test_an_eviction_that_was_not_observed_ends_at_the_next_reservation() -> None:
    record = observed(admitted(110), admitted(140))
    assert [110, 140] == [each.started for each in record.runs]
    assert 140 == record.runs[0].ended


def test_another_run_within_the_same_second_is_a_run_of_its_own() -> None:
    record = observed(admitted(110), evicted(105), admitted(110))
    assert [(110, 110), (110, None)] == [(each.started, each.ended) for each in record.runs]


def test_pods_that_were_given_back_count_until_then() -> None:
    record = observed(admitted(110))
    reclaimed = [{"name": "main", "count": 1}]
    record = recorded(record, admitted(110, reclaimablePods=reclaimed), 130)
    record = recorded(record, finished(110, 150), 151)
    assert (2 * 20 + 1 * 20, 0) == hours(record)


def test_a_reservation_without_admission_uses_nothing() -> None:
    assert () == observed(workload(condition("QuotaReserved", 110), gpus=2)).runs


@pytest.mark.parametrize("state", [None, workload()])
def test_a_deleted_workload_ends_its_run(state: Workload | None) -> None:
    record = forgotten(observed(admitted(110)), state, 130)
    assert (RecordedOutcome.DELETED, 130) == (record.outcome, record.finished)
    assert record == forgotten(record, None, 200)


def test_a_finished_workload_that_is_deleted_later_keeps_its_outcome() -> None:
    record = observed(admitted(110), finished(110, 150, "Failed"))
    assert record == forgotten(record, finished(110, 150, "Failed"), 900)
    assert "Finished Failed" == record.cause


def test_usage_is_limited_to_the_period() -> None:
    record = observed(admitted(110), finished(110, 150))
    assert (2 * 10, 0) == hours(record, Period(120, 130))
    assert (0, 0) == hours(record, Period(150, 200))
    (account,) = usage([record], By.TEAM, Period(100, 120))
    assert ("team", 1, 10 / 3600) == (account.group, account.jobs, account.waiting_hours)


@pytest.mark.parametrize(
    ("by", "group"), [("team", "team"), ("queue", "cq"), ("user", "ann"), ("flavor", "a100")]
)
def test_accounts_add_up_however_they_are_grouped(by: str, group: str) -> None:
    runs = admitted(110), evicted(120), admitted(140), finished(140, 150)
    (account,) = usage([observed(*runs)], By(by), ALWAYS)
    assert (group, 1, 1) == (account.group, account.jobs, account.preemptions)
    assert (50, 30) == (
        round(account.resources[GPU].hours * 3600),
        round(account.resources[GPU].lost * 3600),
    )


def test_a_job_that_never_ran_counts_for_its_team_and_for_no_queue() -> None:
    waiting = observed(workload())
    assert ["team"] == [each.group for each in usage([waiting], By.TEAM, Period(0, 200))]
    (account,) = usage([waiting], By.QUEUE, Period(0, 200))
    assert ("", 100 / 3600) == (account.group, account.waiting_hours)


def owned(uid: str, given: Workload, job: str = "j", created: float = 100) -> Workload:
    """Return the Workload with another uid, as one of several Workloads of a job."""
    (owner,) = given.metadata.owner_references or []
    metadata = msgspec.structs.replace(
        given.metadata,
        uid=uid,
        owner_references=[msgspec.structs.replace(owner, uid=job)],
        creation_timestamp=datetime.fromtimestamp(created, UTC),
    )
    return msgspec.structs.replace(given, metadata=metadata)


def test_slices_of_an_elastic_job_are_one_job_and_overlap_nowhere() -> None:
    replaced = finished(110, 130, "WorkloadSliceReplaced")
    first = observed(owned("a", admitted(110)), owned("a", replaced))
    second = observed(
        owned("b", workload(), created=120),
        owned("b", admitted(130, gpus=4), created=120),
        owned("b", finished(130, 150), created=120),
    )
    (account,) = usage([second, first], By.TEAM, ALWAYS)
    assert (1, 2 * 20 + 4 * 20) == (account.jobs, round(account.resources[GPU].hours * 3600))
    # The second slice waited while the first ran, so the job waited only at first.
    assert 10 == round(account.waiting_hours * 3600)
    (job,) = merged([first, second])
    assert (100, 150, RecordedOutcome.SUCCEEDED) == (job.submitted, job.finished, job.outcome)


def test_losses_of_one_workload_do_not_depend_on_others_of_its_job() -> None:
    """The amounts of the first Workload change while another of the same job runs."""
    resized = Run(10, 10, "cq", {"a100": {GPU: 4}}, 30, RESIZED)
    rest = Run(10, 30, "cq", {"a100": {GPU: 2}}, 50, "Preempted")
    beside = Run(20, 20, "cq", {"a100": {GPU: 1}}, 40, "Finished")
    first = JobRecord("a", "ns", "w", "Job", "j", "q", "", 0, (resized, rest), job_uid="job")
    second = msgspec.structs.replace(first, uid="b", runs=(beside,))
    (job,) = merged([first, second])
    assert [(beside, False), (rest, True), (resized, True)] == list(job.losses())
    (account,) = usage([second, first], By.TEAM, ALWAYS)
    assert 4 * 20 + 2 * 20 == round(account.resources[GPU].lost * 3600)


def test_a_job_on_hold_does_not_wait() -> None:
    runs = Run(10, 10, "cq", {}, 30, "Evicted"), Run(60, 60, "cq", {}, 70, "Finished")
    held = Interval(2, 4), Interval(25, 40)
    job = JobRecord("a", "ns", "w", "Job", "j", "q", "", 0, runs, finished=70, held=held)
    waited = [Interval(0, 2), Interval(4, 10), Interval(40, 60)]
    assert waited == list(job.waiting())
    assert 28_000 == job.waited_ms(0, 100_000)
    stopped = msgspec.structs.replace(job, finished=None, held=(*held, Interval(80)))
    assert [*waited, Interval(70, 80)] == list(stopped.waiting())
    resumed = msgspec.structs.replace(stopped, held=(*held, Interval(80, 90)))
    assert [*waited, Interval(70, 80), Interval(90)] == list(resumed.waiting())


def test_a_job_waits_with_its_next_workload_if_the_first_was_deleted_on_hold() -> None:
    first = JobRecord("a", "ns", "w", "Job", "j", "q", "", 0, finished=20, job_uid="job")
    first = msgspec.structs.replace(first, held=(Interval(5),))
    second = msgspec.structs.replace(first, uid="b", submitted=20, finished=50, held=())
    (job,) = merged([second, first])
    assert [Interval(0, 5), Interval(20, 50)] == list(job.waiting())


def test_workloads_that_claim_the_owner_of_somebody_else_are_other_jobs() -> None:
    mine = observed(owned("a", finished(110, 130)))
    forged = msgspec.structs.replace(mine, uid="b", namespace="other")
    colleague = msgspec.structs.replace(mine, uid="c", user="ben")
    assert 3 == len(merged([mine, forged, colleague]))


def test_pods_given_back_count_from_the_size_of_the_job_as_in_the_scheduler() -> None:
    """Two of four pods were admitted: one that the job no longer needs changes nothing."""
    start = admitted(110)
    sized = msgspec.structs.replace(start.spec, pod_sets=[PodSet(name="main", count=4)])
    reclaimed = admitted(110, reclaimablePods=[{"name": "main", "count": 1}])
    states = [msgspec.structs.replace(each, spec=sized) for each in (start, reclaimed)]
    record = observed(*states, now=120)
    assert {"a100": {GPU: 2}} == held_amounts(states[1])
    assert 1 == len(record.runs)


def test_a_partial_admission_counts_what_was_admitted() -> None:
    # Two pods with two GPUs each were requested, and one pod was admitted.
    partly = admitted(110, gpus=2)
    assert partly.status.admission is not None
    (assigned,) = partly.status.admission.pod_set_assignments or []
    one = msgspec.structs.replace(assigned, count=1)
    admission = msgspec.structs.replace(partly.status.admission, pod_set_assignments=[one])
    status = msgspec.structs.replace(partly.status, admission=admission)
    record = observed(msgspec.structs.replace(partly, status=status))
    assert {"a100": {GPU: 2}} == record.runs[0].amounts


def test_a_group_of_pods_is_named_by_its_workload() -> None:
    given = workload()
    owners = [
        OwnerReference(api_version="v1", kind="Pod", name=f"p{number}", uid=f"p{number}")
        for number in range(2)
    ]
    metadata = msgspec.structs.replace(given.metadata, name="group", owner_references=owners)
    record = observed(msgspec.structs.replace(given, metadata=metadata))
    assert ("Pod", "group") == (record.kind, record.job)


@pytest.mark.parametrize("jump", [-1000, -15, 15])
def test_a_clock_that_jumps_neither_makes_time_negative_nor_hides_a_run(jump: float) -> None:
    states = [admitted(1110), evicted(1120 + jump), admitted(1140 + jump)]
    record = observed(*states, finished(1140 + jump, 1150 + jump))
    for run in record.runs:
        assert run.ended is not None
        assert run.started <= run.ended
        assert record.finished is not None
        assert run.ended <= max(record.finished, record.runs[0].ended or 0)
    whole = hours(record, Period(0, 1e6))[0]
    parts = [hours(record, Period(at, at + 100))[0] for at in range(0, 2000, 100)]
    assert whole == pytest.approx(sum(parts))
    assert whole >= 2 * 10


@pytest.mark.parametrize(
    ("reason", "message", "noted", "expected"),
    [
        ("Preempted", "Preempted for a workload (UID: a-1, JobUID: b) due to x", "", "a-1"),
        ("Preempted", "Preempted to accommodate another workload", "c-2", "c-2"),
        ("Deactivated", "(UID: a-1)", "c-2", ""),
    ],
)
def test_a_run_names_its_preemptor(reason: str, message: str, noted: str, expected: str) -> None:
    state = evicted(20, reason)
    (ended, *rest) = state.status.conditions or []
    conditions = [msgspec.structs.replace(ended, message=message), *rest]
    metadata = msgspec.structs.replace(state.metadata, annotations={PREEMPTOR_UID: noted})
    status = msgspec.structs.replace(state.status, conditions=conditions)
    state = msgspec.structs.replace(state, status=status, metadata=metadata)
    (run,) = observed(admitted(10), state).runs
    assert expected == run.preemptor
