# SPDX-License-Identifier: Apache-2.0
"""Rules of JobSets that Kueue's recorded cases do not show."""

from __future__ import annotations

from bridge.jobs.kinds import JOB_SET_SPEC, job, replicated
from kuota.api.base import Json
from kuota.api.gates import Gates
from kuota.api.podset import equivalent
from kuota.bridge.jobs.fields import at, put
from kuota.bridge.jobs.job_set import JobSet
from kuota.bridge.jobs.kind import End

KIND = JobSet()
DONE = [{"name": "leader", "succeeded": 1}, {"name": "workers", "succeeded": 2}]


def job_set(**status: object) -> Json:
    return job("JobSet", JOB_SET_SPEC, **status)


def test_a_replicated_job_has_the_pods_of_all_its_replicas() -> None:
    sets = KIND.pod_sets(job_set(), Gates())
    assert {"leader": 1, "workers": 6} == {each["name"]: each["count"] for each in sets}
    assert 3 == sets[1]["topologyRequest"]["subGroupCount"]


def test_a_job_set_without_replicas_has_one_as_in_its_schema() -> None:
    one = {key: value for key, value in replicated("a", 2).items() if key != "replicas"}
    sets = KIND.pod_sets(job("JobSet", {"replicatedJobs": [one]}), Gates())
    assert [2] == [each["count"] for each in sets]


def test_names_of_pod_sets_are_lower_case() -> None:
    found = KIND.templates(job("JobSet", {"replicatedJobs": [replicated("Leader", 1)]}))
    assert ["leader"] == [each.name for each in found]


def test_pods_of_succeeded_jobs_are_reclaimable_by_replica() -> None:
    found = KIND.reclaimable(job_set(replicatedJobsStatus=DONE), exact=False)
    assert [("leader", 1), ("workers", 4)] == [(each.name, each.count) for each in found]


def test_more_successes_than_replicas_are_not_believed() -> None:
    found = KIND.reclaimable(
        job_set(replicatedJobsStatus=[{"name": "leader", "succeeded": 2}]), exact=False
    )
    assert [] == found


def test_no_pod_is_certainly_done_while_the_job_set_may_be_restarted() -> None:
    restartable = put(job_set(replicatedJobsStatus=DONE), ("spec", "failurePolicy"), {})
    restartable = put(restartable, ("spec", "failurePolicy", "maxRestarts"), 1)
    assert [] == KIND.reclaimable(restartable, exact=True)
    restarted = put(restartable, ("status", "restarts"), 1)
    assert 2 == len(KIND.reclaimable(restarted, exact=True))


def test_a_completed_job_set_succeeded_even_if_it_once_failed() -> None:
    failed = {"type": "Failed", "status": "True", "message": "no"}
    assert End(success=False, message="no") == KIND.end(job_set(conditions=[failed]))
    completed = {"type": "Completed", "status": "True", "message": "yes"}
    assert End(success=True, message="yes") == KIND.end(job_set(conditions=[failed, completed]))
    assert KIND.end(job_set(conditions=[failed | {"status": "False"}])) is None


def test_a_job_set_without_status_is_neither_active_nor_ready() -> None:
    fresh = {key: value for key, value in job_set().items() if key != "status"}
    assert not KIND.active(fresh)
    assert not KIND.pods_ready(fresh)
    assert KIND.end(fresh) is None


def test_members_of_a_group_need_one_leader_and_the_same_level() -> None:
    group = "kueue.x-k8s.io/podset-group-name"
    level = "kueue.x-k8s.io/podset-required-topology"
    grouped = [replicated("a", 2), replicated("b", 3)]
    grouped = [
        put(each, ("template", "spec", "template", "metadata", "annotations"), notes)
        for each, notes in zip(
            grouped, ({group: "g", level: "rack"}, {group: "g", level: "block"}), strict=True
        )
    ]
    faults = KIND.topology_faults(job("JobSet", {"replicatedJobs": grouped}), Gates())
    where = "spec.replicatedJobs[{}].template.spec.template.metadata.annotations"
    expected = [where.format(index) + suffix for suffix in (f"[{group}]", "") for index in (0, 1)]
    assert expected == [each.path for each in faults]


def test_what_the_api_server_adds_to_a_workload_makes_no_difference() -> None:
    ports = ("template", "spec", "containers", 0, "ports")
    asked = put(KIND.pod_sets(job_set(), Gates())[0], ports, [{"containerPort": 80}])
    stored = put(asked, ports, [{"containerPort": 80, "protocol": "TCP"}])
    assert equivalent([asked], [stored])
    assert not equivalent([asked], [put(asked, (*ports, 0, "protocol"), "UDP")])
    assert [{"containerPort": 80}] == at(asked, ports)
