# SPDX-License-Identifier: Apache-2.0
"""Groups of plain Pods: composition, contradictions, surplus and replaced Pods."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from bridge.jobs.pods import CONFIG, GROUP, KEY, NOON, PREFIX, created, events, passed, pod, stored
from kuota.api.base import Json
from kuota.api.gates import Gates
from kuota.bridge.draft import PassResult, StoredWorkload
from kuota.bridge.effects import Create, Delete, Event, Patch, StatusPatch
from kuota.bridge.job_pass.job_pass import JobPass
from kuota.bridge.job_pass.steps import stop_evicted as evict
from kuota.bridge.jobs.composable import composed, members_of
from kuota.bridge.jobs.pod_group import PodGroup
from kuota.bridge.lifecycle_view import JobPassInput


def deleted(result: PassResult) -> list[str]:
    return [each.key.name for each in result.effects if isinstance(each, Delete)]


def patched(result: PassResult) -> list[tuple[str, str]]:
    return [(each.kind, each.key.name) for each in result.effects if isinstance(each, Patch)]


def test_a_complete_group_gets_one_workload_that_all_its_pods_own() -> None:
    made = created(passed(pod("a"), pod("b")))
    assert "team" == made["metadata"]["name"]
    assert ["a", "b"] == [each["name"] for each in made["metadata"]["ownerReferences"]]
    assert not any(each.get("controller") for each in made["metadata"]["ownerReferences"])
    assert [2] == [each["count"] for each in made["spec"]["podSets"]]


def test_an_incomplete_group_waits_and_says_how_many_pods_it_has() -> None:
    result = passed(pod("a"))
    note = next(each.note for each in result.effects if isinstance(each, Event))
    assert "the group has 1 of 2 pods; create the missing ones" == note
    assert [("a", "ErrWorkloadCompose")] == events(result)
    assert not result.fault


@pytest.mark.parametrize(
    "other",
    [
        pod("b", queue="another"),
        pod("b", of=3),
    ],
    ids=["queue", "size"],
)
def test_pods_that_contradict_each_other_are_reported_and_not_queued(other: Json) -> None:
    result = passed(pod("a"), other)
    assert [("a", "InvalidPodGroup")] == events(result)
    assert not any(isinstance(each, Create) for each in result.effects)


def test_failed_pods_may_contradict_the_others() -> None:
    result = passed(pod("a"), pod("b"), pod("c", queue="old", phase="Failed"))
    assert any(isinstance(each, Create) for each in result.effects)


def test_a_group_with_too_many_roles_is_reported() -> None:
    pods = [pod(f"p{i:02}", of=19, cpu=str(i + 1)) for i in range(19)]
    assert [("p00", "InvalidPodGroup")] == events(passed(*pods))


@pytest.mark.parametrize("size", ["", "0", "-1", "x", "1.5", "9" * 30])
def test_a_size_that_is_not_a_number_is_a_fault(size: str) -> None:
    result = passed(pod("a", annotations={f"{PREFIX}pod-group-total-count": size}))
    assert result.fault
    assert not result.effects


def test_surplus_pods_are_deleted_before_admission_youngest_first() -> None:
    young = pod("a", created="2026-01-01T11:30:00Z")
    result = passed(young, pod("b"), pod("c"))
    assert ["a"] == deleted(result)
    assert 2 == created(result)["spec"]["podSets"][0]["count"]
    assert ("a", "ExcessPodDeleted") in events(result)


def test_a_started_pod_is_kept_rather_than_an_older_gated_one() -> None:
    workload = stored(pod("a"), pod("b"), admitted=True)
    started = pod("late", gated=False, phase="Running", created="2026-01-01T11:59:00Z")
    result = passed(pod("a"), started, pod("b", gated=False, phase="Running"), workload=workload)
    assert ["a"] == deleted(result)


def test_a_replacement_releases_the_pod_that_failed() -> None:
    workload = stored(pod("a"), pod("b"), admitted=True)
    failed = pod("a", gated=False, phase="Failed")
    running = pod("b", gated=False, phase="Running")
    assert ("Pod", "a") not in patched(passed(failed, running, workload=workload))
    result = passed(failed, running, pod("c"), workload=workload)
    assert ("Pod", "a") in patched(result)
    assert ("c", "Started") in events(result)


def test_a_group_that_lacks_pods_waits_for_replacements() -> None:
    workload = stored(pod("a"), pod("b"), admitted=True)
    result = passed(pod("a", gated=False, phase="Running"), workload=workload)
    status = next(each.status for each in result.effects if isinstance(each, StatusPatch))
    found = {each["type"]: each["reason"] for each in status["conditions"]}
    assert "PodsFailed" == found["WaitingForReplacementPods"]


def test_a_group_that_is_known_to_wait_after_an_eviction_is_not_written_again() -> None:
    workload = stored(pod("a"), pod("b"), admitted=True)
    reason = {"status": "True", "reason": "Preempted", "message": "m", "observedGeneration": 1}
    known = [{"type": each} | reason for each in ("Evicted", "WaitingForReplacementPods")]
    status = workload["status"]
    changed = workload | {
        "metadata": workload["metadata"] | {"generation": 2},
        "status": status | {"conditions": [*status["conditions"], *known]},
    }
    result = passed(pod("a", gated=False, phase="Running"), workload=changed)
    assert ("a", "Stopped") in events(result)


def test_a_pod_that_was_created_again_replaces_the_owner_of_the_same_name() -> None:
    workload = stored(pod("a"), pod("b"))
    result = passed(pod("a", uid="new"), pod("b"), workload=workload)
    body = next(e.body for e in result.effects if isinstance(e, Patch) and e.kind == "Workload")
    owners = {each["name"]: each["uid"] for each in body["metadata"]["ownerReferences"]}
    assert {"a": "new", "b": "uid-b"} == owners


def test_a_workload_of_another_job_with_the_name_of_the_group_is_left_alone() -> None:
    workload = stored(pod("a"), pod("b"))
    del workload["metadata"]["annotations"]
    leaving = pod("b", deleted="2026-01-01T11:58:00Z")
    result = passed(pod("a"), leaving, workload=workload)
    assert [("a", "WorkloadNameConflict")] == events(result)
    assert [("Pod", "b")] == patched(result)


def test_a_group_without_pods_releases_its_workload_without_finishing_it() -> None:
    workload = stored(pod("a"), pod("b"))
    result = passed(workload=workload)
    assert [("Workload", "team")] == patched(result)
    assert not any(isinstance(each, StatusPatch) for each in result.effects)


def test_the_pods_of_a_deleted_workload_are_deleted_with_the_reason_and_released() -> None:
    workload = stored(pod("a"), pod("b"), admitted=True)
    workload["metadata"]["deletionTimestamp"] = "2026-01-01T11:59:00Z"
    done = pod("b", gated=False, phase="Succeeded")
    result = passed(pod("a", gated=False, phase="Running"), done, workload=workload)
    assert {"a", "b"} == set(deleted(result))
    first = next(each for each in result.effects if isinstance(each, StatusPatch))
    target = first.status["conditions"][-1]
    assert ("TerminationTarget", "WorkloadDeleted") == (target["type"], target["reason"])
    assert {("Pod", "a"), ("Pod", "b")} <= set(patched(result))


def test_a_group_that_cannot_be_retried_ends_when_its_last_pod_ends() -> None:
    kind, last = PodGroup(), {f"{PREFIX}retriable-in-group": "false"}
    pods = [pod("a", gated=False, phase="Failed", annotations=last), pod("b", phase="Running")]
    assert kind.end(composed(kind, KEY, pods, Gates(), NOON)) is None
    pods[1] = pod("b", gated=False, phase="Succeeded")
    end = kind.end(composed(kind, KEY, pods, Gates(), NOON))
    assert end is not None
    assert "Pods succeeded: 1/2." == end.message


def test_a_serving_group_never_ends_and_does_not_follow_the_queue_of_its_pods() -> None:
    kind, serving = PodGroup(), {f"{PREFIX}pod-group-serving": "true"}
    pods = [pod("a", of=1, gated=False, phase="Succeeded", annotations=serving)]
    job = composed(kind, KEY, pods, Gates(), NOON)
    assert kind.end(job) is None
    assert not kind.reclaimable(job, exact=False)
    assert not kind.follows_queue(job)


def test_the_oldest_pod_speaks_for_the_group() -> None:
    old = pod("z", created="2025-12-31T00:00:00Z", queue="first")
    job = composed(PodGroup(), KEY, [pod("a"), old], Gates(), NOON)
    assert "first" == job["metadata"]["labels"][f"{PREFIX}queue-name"]


def test_a_member_that_cannot_be_read_does_not_prevent_the_deletion_of_the_others() -> None:
    pods = {each: pod(each) for each in ("a", "b")}
    made = stored(*pods.values())
    evicted = {"type": "Evicted", "status": "True", "reason": "DeactivatedDueToRequeuingLimit"}
    evicted |= {"message": "", "lastTransitionTime": "2026-01-01T11:00:00Z"}
    made |= {"spec": made["spec"] | {"active": False}, "status": {"conditions": [evicted]}}
    job = composed(GROUP, KEY, tuple(pods.values()), CONFIG.gates, NOON)
    del pods["b"]
    members_of(job)._read = lambda key: pods.get(key.name)
    config = replace(CONFIG, retain_deactivated_s=0.0)
    job_pass = JobPass(
        JobPassInput(key=KEY, kind=GROUP, job=job, namespace={}, config=config), NOON
    )
    job_pass.workload = StoredWorkload.of(made)
    assert evict(job_pass)
    assert {"a"} == set(deleted(job_pass.done()))
