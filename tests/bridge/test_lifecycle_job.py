# SPDX-License-Identifier: Apache-2.0
"""The writes of one pass over a Job."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest

from bridge.batch_jobs import FLAVORS, QUEUED, UNHURRIED, admitted, job_workload, queued_job
from bridge.objects import NOON, condition
from bridge.passes import Outcome, worked
from kuota.api.base import Json, Key, ObjectMeta
from kuota.api.config.shapes import Configuration, CustomLabel, Integrations, Metrics
from kuota.api.gates import Gates
from kuota.api.merge_patch import merged
from kuota.api.workload import TIMED_OUT, Workload
from kuota.bridge.draft import StoredWorkload
from kuota.bridge.effects import Create, Delete, Patch, StatusPatch
from kuota.bridge.job_pass.injections import injections
from kuota.bridge.job_pass.workload import workload as made_from
from kuota.bridge.jobs.ancestor import Owners
from kuota.bridge.jobs.kind import JobKey
from kuota.bridge.jobs.registry import JOB
from kuota.bridge.lifecycle_view import Ancestor, LifecycleConfig, lifecycle_config

DONE = {"type": "Complete", "status": "True", "message": "done"}


def _job_patches(found: Outcome) -> list[Json]:
    patches = []
    for each in found.result.effects:
        if isinstance(each, Patch) and each.kind == "Job.batch":
            patches.append(each.body)
        if isinstance(each, StatusPatch) and each.kind == "Job.batch":
            patches.append({"status": each.status})
    return patches


def test_a_queued_job_gets_a_workload_once() -> None:
    found = worked(queued_job())
    assert ["Workload"] == [e.kind for e in found.result.effects if isinstance(e, Create)]
    assert ["CreatedWorkload"] == found.events
    assert worked(queued_job(), job_workload(), config=UNHURRIED).idle


@pytest.mark.parametrize(
    ("job", "view"),
    [
        pytest.param(queued_job(labels={}), {}, id="no queue name"),
        pytest.param(queued_job(), {"namespace": None}, id="no namespace"),
        pytest.param(
            queued_job(),
            {"namespace": {"kubernetes.io/metadata.name": "kube-system"}},
            id="not managed",
        ),
        pytest.param(queued_job(status={"conditions": [DONE]}), {}, id="over before it was seen"),
        pytest.param(queued_job(status={"active": 2}), {}, id="pods still there"),
    ],
)
def test_some_jobs_get_none(job: Json, view: dict[str, Any]) -> None:
    assert worked(job, **view).idle


def test_a_job_starts_with_one_write_when_its_workload_is_admitted() -> None:
    found = worked(queued_job(), admitted(), config=UNHURRIED, flavors=FLAVORS)
    (patch,) = _job_patches(found)
    assert patch["spec"]["suspend"] is False
    assert (["Started"], 1) == (found.events, found.writes)


def test_an_admission_that_names_no_pod_set_goes_by_its_place() -> None:
    """Whoever wrote it, the Job starts, and is not stopped for it afterwards."""
    record = msgspec.to_builtins(admitted())
    record["status"]["admission"]["podSetAssignments"][0]["name"] = "c"
    obj = msgspec.convert(record, Workload)
    (patch,) = _job_patches(worked(queued_job(), obj, config=UNHURRIED, flavors=FLAVORS))
    assert patch["spec"]["suspend"] is False
    running = merged(queued_job(), patch)
    assert [] == _job_patches(worked(running, obj, config=UNHURRIED, flavors=FLAVORS))


def test_a_job_whose_flavor_is_missing_is_tried_again_later() -> None:
    found = worked(queued_job(), admitted(), config=UNHURRIED)
    assert found.idle
    assert found.result.fault


@pytest.mark.parametrize(
    ("obj", "ready", "expected"),
    [
        pytest.param(job_workload(), 0, "False/WaitForStart", id="not admitted"),
        pytest.param(admitted(), 0, "False/WaitForStart", id="admitted"),
        pytest.param(admitted(), 1, "True/Started", id="ready"),
        pytest.param(
            admitted(condition("PodsReady", reason="Started")),
            0,
            "False/WaitForRecovery",
            id="lost",
        ),
        pytest.param(
            admitted(condition("PodsReady", False, "WaitForRecovery")),
            1,
            "True/Recovered",
            id="back",
        ),
    ],
)
def test_readiness_is_reported(obj: Workload, ready: int, expected: str) -> None:
    status = {"active": 1, "ready": ready}
    found = worked(queued_job(suspend=False, status=status), obj, flavors=FLAVORS)
    assert expected == found.conditions["PodsReady"]
    again = worked(queued_job(suspend=False, status=status), found.after, flavors=FLAVORS)
    assert found.conditions == again.conditions


def test_the_end_of_a_job_is_reported_then_its_workload_is_released() -> None:
    over = queued_job(suspend=False, status={"conditions": [DONE]})
    first = worked(over, admitted(), flavors=FLAVORS)
    assert "True/Succeeded" == first.conditions["Finished"]
    assert 1 == first.writes
    second = worked(over, first.after, flavors=FLAVORS)
    assert {"metadata": {"finalizers": None}} == second.body
    assert 1 == second.writes


@pytest.mark.parametrize("reason", ["DeadlineExceeded", "BackoffLimitExceeded"])
def test_a_workload_records_that_its_job_exceeded_its_deadline(reason: str) -> None:
    end = {"type": "Failed", "status": "True", "reason": reason, "message": "late"}
    found = worked(queued_job(status={"conditions": [end]}), admitted(), flavors=FLAVORS)
    late = "True/DeadlineExceeded" if reason == "DeadlineExceeded" else None
    assert ("True/Failed", late) == tuple(map(found.conditions.get, ("Finished", TIMED_OUT)))


def test_quota_is_free_only_when_an_evicted_job_has_no_active_pods() -> None:
    evicted = admitted(condition("Evicted", reason="Preempted", message="make room"))
    there = worked(
        queued_job(suspend=False, status={"active": 1}), evicted, config=UNHURRIED, flavors=FLAVORS
    )
    assert "True/QuotaReserved" == there.conditions["QuotaReserved"]
    assert ["Stopped"] == there.events
    # A pod of a lost node may be terminating forever.
    stuck = queued_job(status={"active": 0, "terminating": 1})
    gone = worked(stuck, evicted, config=UNHURRIED, flavors=FLAVORS)
    assert "False/PendingEvaluation" == gone.conditions["QuotaReserved"]
    assert "True/Preempted" == gone.conditions["Requeued"]
    assert gone.after.status.admission is None


def test_a_stop_suspends_then_clears_the_start_then_restores() -> None:
    running = queued_job(suspend=False, status={"startTime": "2026-01-02T11:00:00Z"})
    running["spec"]["template"]["spec"]["nodeSelector"] = {"zone": "z1"}
    evicted = admitted(condition("Evicted", reason="Preempted"))
    first, second, third = _job_patches(worked(running, evicted, config=UNHURRIED, flavors=FLAVORS))
    assert first["spec"]["suspend"] is True
    assert {"status": {"startTime": None}} == second
    assert third["spec"]["template"]["spec"]["nodeSelector"] is None


@pytest.mark.parametrize(
    ("reason", "kept_s", "after_s", "deleted"),
    [
        ("DeactivatedDueToAdmissionCheck", 60, 60, True),
        ("DeactivatedDueToAdmissionCheck", 60, 59, False),
        ("DeactivatedDueToAdmissionCheck", None, 9999, False),
        ("Deactivated", 0, 9999, False),
    ],
)
def test_only_a_job_that_was_given_up_is_deleted_and_not_before_its_time(
    reason: str, kept_s: float | None, after_s: float, deleted: bool
) -> None:
    config = msgspec.structs.replace(UNHURRIED, retain_deactivated_s=kept_s)
    obj = job_workload(condition("Evicted", reason=reason), active=False)
    found = worked(queued_job(), obj, now=NOON + after_s, config=config)
    gone = (each for each in found.result.effects if isinstance(each, Delete))
    assert deleted == any(each.kind == "Job.batch" for each in gone)


def test_a_job_that_is_gone_takes_its_workload_along() -> None:
    found = worked(None, admitted())
    assert "True/OwnerNotFound" == found.conditions["Finished"]
    assert {"metadata": {"finalizers": None}} == found.body


def test_a_job_that_cannot_follow_its_owners_up_waits() -> None:
    found = worked(queued_job(), nesting="nobody there")
    assert ("nobody there", True) == (found.result.fault, found.idle)
    deep = worked(queued_job(), nesting="too deep", nested_too_deep=True)
    assert ["JobNestingTooDeep!"] == deep.events


def test_labels_and_annotations_are_copied_where_configured() -> None:
    config = LifecycleConfig(labels_to_copy=("team",), annotations_to_copy=("cost",))
    given = queued_job(labels={**QUEUED, "team": "blue"}, annotations={"cost": "7", "other": "8"})
    (made,) = (e for e in worked(given, config=config).result.effects if isinstance(e, Create))
    meta = made.object["metadata"]
    assert "blue" == meta["labels"]["team"]
    assert {"cost": "7"} == meta["annotations"]


def test_what_metrics_are_labelled_with_is_copied_to_workloads() -> None:
    labels = [
        CustomLabel(name="team", source_kind="Workload"),
        CustomLabel(name="cost", source_label_key="cost-center", source_kind="Workload"),
        CustomLabel(name="run", source_annotation_key="run-id", source_kind="Workload"),
        CustomLabel(name="site", source_kind="ClusterQueue"),
    ]
    config = Configuration(
        metrics=Metrics(custom_labels=labels),
        integrations=Integrations(frameworks=["batch/job"], label_keys_to_copy=["tier", "team"]),
    )
    found = lifecycle_config(config, Gates.of({"CustomMetricLabels": True}))
    assert ("tier", "team", "cost-center") == found.labels_to_copy
    assert ("run-id",) == found.annotations_to_copy
    off = lifecycle_config(config, Gates.of({"CustomMetricLabels": False}))
    assert (("tier", "team"), ()) == (off.labels_to_copy, off.annotations_to_copy)


def test_pods_of_another_cluster_s_job_say_so() -> None:
    """The origin is set by the manager cluster of MultiKueue, whose worker this cluster is."""
    remote = msgspec.structs.replace(
        admitted(), metadata=ObjectMeta(name="w", labels={"kueue.x-k8s.io/multikueue-origin": "m"})
    )
    label = "kueue.x-k8s.io/multikueue-worker-workload-pod"
    found = [injections(each, FLAVORS, Gates())[0].labels for each in (remote, admitted())]
    assert ["true", None] == [(each or {}).get(label) for each in found]


def test_jobs_are_left_alone_while_their_integration_is_disabled() -> None:
    config = LifecycleConfig(owners=Owners(managed=frozenset()))
    assert worked(queued_job(suspend=False), config=config).idle


EDITED = QUEUED | {"kueue.x-k8s.io/max-exec-time-seconds": "60"}


def test_a_suspended_job_that_was_edited_keeps_the_edit_and_loses_its_reservation() -> None:
    job = queued_job(labels=EDITED)
    job["spec"]["template"]["spec"]["nodeSelector"] = {"zone": "z1"}
    found = worked(job, admitted(), config=UNHURRIED, flavors=FLAVORS)
    assert [] == _job_patches(found)
    assert found.deleted
    assert (["DeletedWorkload"], True) == (found.events, bool(found.result.fault))


def test_a_workload_that_is_being_deleted_is_not_deleted_again() -> None:
    obj = admitted()
    since = datetime.fromtimestamp(NOON, UTC)
    leaving = msgspec.structs.replace(obj.metadata, deletion_timestamp=since)
    obj = msgspec.structs.replace(obj, metadata=leaving)
    found = worked(queued_job(labels=EDITED), obj, config=UNHURRIED, flavors=FLAVORS)
    assert {"metadata": {"finalizers": None}} == found.body
    assert not found.deleted
    assert "DeletedWorkload" not in found.events


def test_a_surplus_workload_goes_before_the_outdated_one_is_updated() -> None:
    second = msgspec.structs.replace(job_workload(), metadata=_named("zweit"))
    both = worked(queued_job(labels=EDITED), job_workload(), second, config=UNHURRIED)
    assert (["DeletedWorkload"], True) == (both.events, bool(both.result.fault))
    alone = worked(queued_job(labels=EDITED), job_workload(), config=UNHURRIED)
    assert (["UpdatedWorkload"], "") == (alone.events, alone.result.fault)
    assert {"spec": {"maximumExecutionTimeSeconds": 60}} == alone.body


def _named(name: str) -> ObjectMeta:
    return msgspec.structs.replace(job_workload().metadata, name=name)


def test_a_running_job_whose_flavor_is_gone_still_matches_its_workload() -> None:
    found = worked(queued_job(suspend=False), admitted(), config=UNHURRIED, flavors={})
    assert found.idle


def test_a_missing_priority_class_of_pods_is_not_reported_as_a_workload_priority_class() -> None:
    job = queued_job()
    job["spec"]["template"]["spec"]["priorityClassName"] = "high"
    found = worked(job)
    assert ([], True) == (found.events, bool(found.result.fault))
    named = queued_job(labels=QUEUED | {"kueue.x-k8s.io/priority-class": "high"})
    assert ["WorkloadPriorityClassNotFound!"] == worked(named).events


PREBUILT = {"kueue.x-k8s.io/prebuilt-workload-name": "mine"}


def test_a_finished_job_does_not_miss_its_prebuilt_workload() -> None:
    job = queued_job(labels=QUEUED | PREBUILT, suspend=False, status={"conditions": [DONE]})
    assert worked(job).idle
    missing = worked(queued_job(labels=QUEUED | PREBUILT, suspend=False))
    assert (["Stopped"], True) == (missing.events, bool(missing.result.fault))


def test_a_job_that_adopts_its_prebuilt_workload_leaves_the_other_owners() -> None:
    job = queued_job(labels=QUEUED | PREBUILT)
    other = {"apiVersion": "v1", "kind": "ConfigMap", "name": "author", "uid": "other"}
    own = {"apiVersion": "batch/v1", "kind": "Job", "name": "train", "uid": "u"}
    record = msgspec.to_builtins(job_workload())
    record["metadata"]["ownerReferences"] = [other, own]
    found = worked(job, prebuilt=StoredWorkload.of(record), config=UNHURRIED)
    owners = found.body["metadata"]["ownerReferences"]
    assert [("other", None), ("u", True)] == [(e["uid"], e.get("controller")) for e in owners]


@pytest.mark.parametrize("seconds", ["0", "-1", "3000000000", "soon"])
def test_a_time_limit_that_cannot_be_stored_is_no_limit(seconds: str) -> None:
    job = queued_job(labels=QUEUED | {"kueue.x-k8s.io/max-exec-time-seconds": seconds})
    assert "maximumExecutionTimeSeconds" not in made_from(JOB, job)["spec"]
    assert worked(job, job_workload(), config=UNHURRIED).idle


def test_a_job_whose_topology_cannot_be_parsed_gets_no_workload() -> None:
    job = queued_job()
    unparsable = {"kueue.x-k8s.io/podset-unconstrained-topology": "perhaps"}
    job["spec"]["template"]["metadata"]["annotations"] = unparsable
    found = worked(job)
    assert (True, True) == (found.idle, bool(found.result.fault))


@pytest.mark.parametrize(
    ("newest", "suspended", "stopped"),
    [
        (None, False, True),
        (job_workload(), False, True),
        (admitted(), False, False),
        (None, True, False),
    ],
)
def test_a_job_below_a_managed_one_only_runs_while_that_one_is_admitted(
    newest: Workload | None, suspended: bool, stopped: bool
) -> None:
    stored = StoredWorkload.of(msgspec.to_builtins(newest)) if newest is not None else None
    above = Ancestor(key=JobKey(JOB.group_kind, Key("ml", "above")), newest=stored)
    found = worked(queued_job(suspend=suspended), ancestor=above)
    assert ([{"spec": {"suspend": True}}] if stopped else []) == _job_patches(found)
    assert (["Suspended"] if stopped else []) == found.events


def test_a_job_that_is_over_is_not_suspended_for_the_one_above_it() -> None:
    above = Ancestor(key=JobKey(JOB.group_kind, Key("ml", "above")))
    over = queued_job(suspend=False, status={"conditions": [DONE]})
    assert worked(over, ancestor=above).idle
