# SPDX-License-Identifier: Apache-2.0
"""The rules of MultiKueue for one Workload and its copies."""

from __future__ import annotations

import pytest

from control.multikueue_groups import (
    EARLIER,
    EMPTY,
    NOW,
    SPEC,
    T,
    check_after,
    deleted,
    job,
    local,
    plan,
    remote,
    remote_job,
    status_after,
    true,
)
from kuota.api.base import Json
from kuota.api.merge_patch import merged
from kuota.bridge.draft import StoredWorkload
from kuota.bridge.effects import Create, Delete, Event, Patch, StatusPatch
from kuota.control.checks.multikueue.copies import outdated
from kuota.control.checks.multikueue.group import MultiKueueSettings


def test_the_first_cluster_that_admits_wins_and_the_others_lose_their_copies() -> None:
    stored = local(nominatedClusterNames=["a", "b"])
    remotes = {
        "a": remote(true("Admitted")),
        "b": remote(true("Admitted", at=EARLIER)),
    }
    chosen = plan(stored, remotes=remotes)
    after = status_after(chosen, stored)
    assert (check_after(chosen, stored), after["clusterName"]) == ("Pending", "b")
    assert "nominatedClusterNames" not in after
    found = plan(local(clusterName="b"), remotes=remotes)
    assert check_after(found, stored) == "Ready"
    assert deleted(found, "a") == ["Workload"]
    made = found.remote["b"][0]
    assert isinstance(made, Create)
    assert made.kind == "Job.batch"
    assert found.needs == ("b",)
    assert not found.first
    assert found.admitted == "b"


def test_the_winner_is_recorded_before_anything_is_written_to_a_cluster() -> None:
    stored = local(nominatedClusterNames=["a", "b"])
    remotes = {"a": remote(true("Admitted")), "b": remote(true("Admitted"))}
    found = plan(stored, remotes=remotes)
    assert found.repeat
    assert not found.remote
    assert not found.last


def test_a_winner_that_is_not_nominated_is_nominated_before_it_is_recorded() -> None:
    stored = local(nominatedClusterNames=["b"])
    found = plan(stored, remotes={"a": remote(true("Admitted"), job=remote_job()), "b": EMPTY})
    after = status_after(found, stored)
    assert (after["nominatedClusterNames"], after.get("clusterName")) == (["a"], None)
    assert found.repeat
    assert not found.remote


def test_of_clusters_that_admit_at_the_same_time_the_first_configured_one_wins() -> None:
    stored = local(nominatedClusterNames=["a", "b"])
    remotes = {"a": remote(true("Admitted")), "b": remote(true("Admitted"))}
    assert status_after(plan(stored, remotes=remotes), stored)["clusterName"] == "b"


def test_a_cluster_that_has_the_job_wins_although_another_one_admitted_it_earlier() -> None:
    stored = local(nominatedClusterNames=["a", "b"])
    remotes = {
        "a": remote(true("Admitted"), job=remote_job()),
        "b": remote(true("Admitted", at=EARLIER)),
    }
    assert status_after(plan(stored, remotes=remotes), stored)["clusterName"] == "a"


@pytest.mark.parametrize("check", ["Retry", "Rejected"])
def test_no_cluster_is_chosen_for_a_workload_that_will_be_evicted(check: str) -> None:
    stored = local(check=check, nominatedClusterNames=["a"])
    found = plan(stored, remotes={"a": remote(true("Admitted"))})
    assert "clusterName" not in status_after(found, stored)
    made = [each for each in found.remote.get("a", ()) if isinstance(each, Create)]
    assert not made


def test_quota_in_a_cluster_alone_does_not_win() -> None:
    stored = local(nominatedClusterNames=["a", "b"])
    found = plan(stored, remotes={"a": remote(true("QuotaReserved")), "b": EMPTY})
    assert check_after(found, stored) == "Pending"
    assert found.dispatched == ("b",)
    assert deleted(found, "a") == []


def test_a_copy_that_returns_with_its_cluster_never_replaces_the_winner() -> None:
    stored = local(true("Admitted"), check="Ready", clusterName="a")
    remotes = {
        "a": remote(true("Admitted"), job=remote_job()),
        "b": remote(true("Admitted", at=EARLIER), job=remote_job()),
    }
    found = plan(stored, remotes=remotes)
    assert deleted(found, "b") == ["Job.batch", "Workload"]
    assert deleted(found, "a") == []
    assert check_after(found, stored) == "Ready"


def test_the_copies_elsewhere_go_while_the_winner_is_unreachable() -> None:
    stored = local(true("Admitted"), check="Ready", clusterName="a")
    remotes = {"b": remote(true("Admitted"), job=remote_job())}
    found = plan(stored, remotes=remotes, lost={"a": NOW - 100})
    assert deleted(found, "b") == ["Job.batch", "Workload"]
    assert found.requeue_after_s == 800
    assert check_after(found, stored) == "Ready"


@pytest.mark.parametrize("check", ["Ready", "Pending"], ids=["", "before its job exists"])
@pytest.mark.parametrize(
    ("fields", "evicted"),
    [
        ({"lost": {"a": NOW - 899}}, False),
        ({"lost": {"a": NOW - 900}}, True),
        ({"remotes": {"a": EMPTY}}, True),
        ({"remotes": {"a": remote(true("Evicted"))}}, True),
        ({"remotes": {"a": remote(true("Finished", "OwnerNotFound"))}}, True),
        ({"clusters": ("b",), "remotes": {"b": EMPTY}}, True),
    ],
    ids=["just lost", "lost for too long", "gone", "evicted", "without job", "not configured"],
)
def test_a_lost_winner(fields: Json, evicted: bool, check: str) -> None:
    stored = local(check=check, clusterName="a")
    elsewhere = {"b": remote(true("Admitted"))}
    found = plan(stored, **({"remotes": elsewhere} | fields))
    assert check_after(found, stored) == ("Retry" if evicted else check)
    made = [each for writes in found.remote.values() for each in writes if isinstance(each, Create)]
    assert not made, "no other cluster gets the job before the Workload was evicted"


@pytest.mark.parametrize(("since", "state"), [(NOW - 899, "Ready"), (NOW - 900, "Retry")])
def test_a_lost_cluster_may_run_a_workload_without_a_recorded_winner(
    since: float, state: str
) -> None:
    stored = local(true("Admitted"), check="Ready")
    found = plan(stored, remotes={"b": EMPTY}, lost={"a": since})
    assert check_after(found, stored) == state


def test_copies_in_clusters_that_are_not_configured_are_removed() -> None:
    stored = local(true("Admitted"), check="Ready", clusterName="old")
    removed = {"old": remote(true("Admitted"), job=remote_job())}
    found = plan(stored, removed=removed)
    assert deleted(found, "old") == ["Job.batch", "Workload"]
    assert check_after(found, stored) == "Retry"


def test_an_eviction_by_the_cluster_leads_to_a_new_dispatch() -> None:
    stored = local(true("Admitted"), check="Ready", clusterName="a")
    found = plan(stored, remotes={"a": remote(true("Evicted", "Preempted")), "b": EMPTY})
    assert check_after(found, stored) == "Retry"


def test_an_eviction_of_another_copy_changes_nothing() -> None:
    stored = local(true("Admitted"), check="Ready", clusterName="a")
    remotes = {"a": remote(true("Admitted"), job=remote_job()), "b": remote(true("Evicted"))}
    found = plan(stored, remotes=remotes)
    assert check_after(found, stored) == "Ready"
    assert deleted(found, "b") == ["Workload"]


def test_an_eviction_by_the_manager_stops_the_copy_and_nominates_nobody() -> None:
    stored = local(true("Evicted"))
    running = remote(true("Admitted"), job=remote_job(active=1))
    found = plan(stored, remotes={"a": running, "b": EMPTY})
    (stopped,) = found.remote["a"]
    assert isinstance(stopped, StatusPatch)
    target = stopped.status["conditions"][-1]
    assert (target["type"], target["reason"]) == ("DeactivationTarget", "EvictedOnManagerCluster")
    assert "b" not in found.remote
    again = remote(*stopped.status["conditions"], job=remote_job(active=1))
    assert "a" not in plan(stored, remotes={"a": again}).remote


def test_an_evicted_workload_waits_for_a_lost_cluster_and_then_lets_its_quota_go() -> None:
    stored, running = local(true("Evicted")), (job(active=1),)
    waiting = plan(stored, jobs=running, remotes={"b": EMPTY}, lost={"a": NOW - 300})
    assert (waiting.first, waiting.requeue_after_s) == ((), 600)
    found = plan(stored, jobs=running, remotes={"b": EMPTY}, lost={"a": NOW - 900})
    (patch,) = found.first
    assert isinstance(patch, StatusPatch)
    assert (patch.kind, patch.status) == ("Job.batch", {"active": None})


@pytest.mark.parametrize("end", ["finished", "without quota"])
def test_copies_of_a_workload_that_is_over_are_removed_jobs_first(end: str) -> None:
    stored = local(true("Finished"))
    if end == "without quota":
        stored = StoredWorkload.of(merged(stored.json, {"status": {"conditions": []}}))
    there = remote(job=remote_job(), metadata={"finalizers": ["kueue.x-k8s.io/resource-in-use"]})
    found = plan(stored, remotes={"a": there, "b": EMPTY}, lost={"c": NOW})
    kinds = [type(each) for each in found.remote["a"]]
    assert kinds == [Delete, Patch, Delete]
    assert found.requeue_after_s == 900
    assert "b" not in found.remote


def test_a_copy_that_differs_is_removed_and_one_with_another_priority_is_updated() -> None:
    stored = local()
    other = remote(spec={"queueName": "other"})
    assert deleted(plan(stored, remotes={"a": other}), "a") == ["Workload"]
    ref = {"group": "kueue.x-k8s.io", "kind": "WorkloadPriorityClass", "name": "low"}
    high = {"spec": SPEC | {"priorityClassRef": ref | {"name": "high"}, "priority": 9}}
    raised = StoredWorkload.of(merged(stored.json, high))
    found = plan(raised, remotes={"a": remote(spec={"priorityClassRef": ref, "priority": 1})})
    (patch,) = found.remote["a"]
    assert isinstance(patch, Patch)
    assert patch.body["spec"]["priority"] == 9


def test_what_a_controller_in_go_writes_differently_is_no_difference() -> None:
    template = {"spec": {"hostNetwork": False, "containers": [_container("1000m")]}}
    spec = {"active": True, "podSets": [{"name": "main", "count": 1, "template": template}]}
    ours = StoredWorkload.of({"metadata": {"name": "wl"}, "spec": spec})
    written = {"metadata": {"creationTimestamp": None}, "spec": {"containers": [_container("1")]}}
    theirs = StoredWorkload.of(
        {
            "metadata": {"name": "wl"},
            "spec": {"podSets": [{"name": "main", "count": 1, "template": written}]},
        }
    )
    assert not outdated(ours, theirs)
    stopped = StoredWorkload.of(merged(theirs.json, {"spec": {"active": False}}))
    assert outdated(ours, stopped)


def _container(cpu: str) -> Json:
    return {"name": "c", "resources": {"requests": {"cpu": cpu}}}


def test_an_object_of_another_manager_is_reported_and_left_alone() -> None:
    stored = local()
    foreign = remote(metadata={"labels": {"kueue.x-k8s.io/multikueue-origin": "there"}})
    found = plan(stored, remotes={"a": foreign, "b": EMPTY})
    assert "a" not in found.remote
    assert "cluster a" in found.fault
    assert found.dispatched == ("b",)
    settings = MultiKueueSettings(origin="here", manager="me")
    twin = remote(metadata={"annotations": {"kuota.dev/multikueue-manager": "other"}})
    found = plan(stored, settings=settings, remotes={"a": twin, "b": EMPTY})
    assert "a" not in found.remote
    over = plan(local(true("Finished")), settings=settings, remotes={"a": twin})
    assert not over.remote


def test_a_job_of_another_workload_with_the_same_name_is_not_adopted() -> None:
    stored = local(clusterName="a")
    there = remote(true("Admitted"), job=remote_job("other", active=1))
    found = plan(stored, remotes={"a": there})
    assert "belongs to workload other" in found.fault
    assert check_after(found, stored) == "Pending"


@pytest.mark.parametrize("why", ["kind", "manager"])
def test_a_job_that_cannot_be_dispatched_is_rejected(why: str) -> None:
    stored = local()
    own = job()
    own["spec"].pop("managedBy")
    fields = {"dispatch": None} if why == "kind" else {"jobs": (own,)}
    found = plan(stored, **fields)
    assert check_after(found, stored) == "Rejected"
    assert not found.remote


def test_a_second_pass_over_a_settled_group_writes_nothing() -> None:
    state = {"name": "mk", "state": "Ready", "lastTransitionTime": T}
    message = "The workload is admitted in cluster a"
    stored = local(
        true("Admitted"), clusterName="a", admissionChecks=[state | {"message": message}]
    )
    same = remote_job(active=1)
    here = job(suspend=False, active=1)
    found = plan(stored, jobs=(here,), remotes={"a": remote(true("Admitted"), job=same)})
    writes = [each for each in (*found.first, *found.last) if not isinstance(each, Event)]
    assert writes == []
    assert not found.remote


def test_a_copy_that_is_being_deactivated_keeps_its_job_until_it_has_no_pods() -> None:
    stored = local(true("Admitted"), true("Evicted", "Preempted"), check="Ready", clusterName="a")
    target = true("DeactivationTarget", "EvictedOnManagerCluster")
    # The cluster deactivates the Workload first and evicts it later.
    stopping = remote(true("Admitted"), target, job=remote_job(active=1), spec={"active": False})
    running = (job(suspend=True, active=1),)
    found = plan(stored, remotes={"a": stopping, "b": EMPTY}, jobs=running)
    assert deleted(found, "a") == []
    assert all("active" not in each.status for each in found.first if isinstance(each, StatusPatch))


def test_a_workload_that_is_deactivated_keeps_its_job_until_it_is_evicted() -> None:
    running = local(true("Admitted"), check="Ready", clusterName="a")
    stored = StoredWorkload.of(merged(running.json, {"spec": {"active": False}}))
    remotes = {"a": remote(true("Admitted"), job=remote_job(active=1)), "b": EMPTY}
    found = plan(stored, remotes=remotes, jobs=(job(suspend=False, active=1),))
    assert deleted(found, "a") == []
    assert check_after(found, stored) == "Ready"


def test_a_cluster_with_a_long_message_does_not_keep_others_from_getting_copies() -> None:
    stored = local(nominatedClusterNames=["a", "b"])
    refused = {**true("QuotaReserved", "Inadmissible"), "status": "False", "message": "é" * 16_384}
    found = plan(stored, remotes={"a": remote(refused), "b": EMPTY})
    assert found.dispatched == ("b",)
    message = status_after(found, stored)["admissionChecks"][0]["message"]
    assert "cluster a: éé" in message
    assert len(message.encode()) < 2048
    lasting = {"b": "x" * 40_000}
    found = plan(stored, remotes={"a": EMPTY, "b": EMPTY}, failures=lasting)
    message = status_after(found, stored)["admissionChecks"][0]["message"]
    assert len(message.encode()) == 32_768
