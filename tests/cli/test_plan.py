# SPDX-License-Identifier: Apache-2.0
"""The output and exit status of `kuota plan`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import yaml
from click.testing import CliRunner, Result

from kuota.api.base import Json
from kuota.cli.plan import command
from manifests import cluster_queue, flavor, job, local_queue, priority_class, text

TEAMS = [
    flavor(),
    cluster_queue("a", 4),
    cluster_queue("b", 2),
    local_queue("a"),
    local_queue("b"),
]


MANAGED = """
apiVersion: config.kueue.x-k8s.io/v1beta2
kind: Configuration
manageJobsWithoutQueueName: true
managedJobsNamespaceSelector: {matchLabels: {kubernetes.io/metadata.name: default}}
"""


def ran(objects: list[Json], *options: str) -> Result:
    return CliRunner().invoke(command, ["-f", "-", *options], input=text(*objects))


def planned(objects: list[Json], *options: str) -> dict[str, Any]:
    result = ran(objects, "-o", "json", *options)
    assert 0 == result.exit_code, result.output
    found: dict[str, Any] = json.loads(result.stdout)
    return found


def states(plan: dict[str, Any]) -> dict[str, str]:
    return {each["name"].partition("/")[2]: each["state"] for each in plan["workloads"]}


def row(plan: dict[str, Any], name: str) -> dict[str, Any]:
    (found,) = [each for each in plan["workloads"] if each["name"] == f"default/{name}"]
    return dict(found)


def test_idle_quota_is_borrowed_and_its_owner_is_named() -> None:
    plan = planned([*TEAMS, job("big", "b", 6)])
    assert {"big": "admitted"} == states(plan)
    (loan,) = row(plan, "big")["borrows"]
    assert ("4", "a") == (loan["amount"], loan["lender"])
    lent = {each["name"]: each["quotas"][0]["lent"] for each in plan["clusterQueues"]}
    assert {"a": "4", "b": "0"} == lent


def test_without_times_everything_comes_at_once_in_the_order_of_the_files() -> None:
    plan = planned([*TEAMS, job("first", "a", 6), job("second", "a", 6)])
    assert {"first": "admitted", "second": "waiting"} == states(plan)
    assert [] == plan["timeline"]


def test_a_timeline_is_shown_when_time_passes() -> None:
    plan = planned([*TEAMS, job("one", "a", 4, runs_for="1m"), job("two", "a", 6, after="30s")])
    assert [
        ("0s", "default/one", ["Arrived", "Admitted"]),
        ("30s", "default/two", ["Arrived"]),
        ("1m", "default/one", ["Finished"]),
        ("1m", "default/two", ["Admitted"]),
    ] == [(each["time"], each["workload"], each["events"]) for each in plan["timeline"]]
    assert {"one": "finished", "two": "admitted"} == states(plan)


def test_a_preempted_job_starts_its_time_anew() -> None:
    reclaims = cluster_queue("a", 4, preemption={"reclaimWithinCohort": "Any"})
    objects = [flavor(), reclaims, *TEAMS[2:]]
    late = job("late", "a", 4, after="1m", runs_for="1m")
    plan = planned([*objects, job("long", "b", 6, runs_for="90s"), late])
    times = [(each["time"], each["workload"][8:], each["events"]) for each in plan["timeline"]]
    assert ("1m", "long", ["Preempted"]) in times
    assert ("3m30s", "long", ["Finished"]) in times


def test_a_waiting_job_reports_why_and_what_would_help() -> None:
    plan = planned([*TEAMS, job("r", "a", 5), job("j", "b", 3)])
    why = row(plan, "j")["why"]
    assert "needs 3 nvidia.com/gpu on h100, only 1 left in cohort lab" == why["text"]
    assert "WaitForRelease" == why["help"][0]["advice"]
    assert ("2", "lab", "nominalQuota") == tuple(
        why["tried"][0]["lacks"][0][field] for field in ("missing", "where", "limit")
    )


def test_a_policy_that_stands_in_the_way_is_named() -> None:
    plan = planned([*TEAMS, job("r", "b", 6), job("j", "a", 4, after="1s")])
    why = row(plan, "j")["why"]
    assert any("reclaimWithinCohort" in each["text"] for each in why["help"])
    assert ["reclaimWithinCohort is Never in ClusterQueue a"] == [
        each["text"] for each in why["protected"]
    ]


def test_jobs_of_unmanaged_namespaces_are_not_planned(tmp_path: Path) -> None:
    config = tmp_path / "config.yaml"
    config.write_text(MANAGED)
    queue = local_queue("a", namespace="other")
    named, unnamed = job("named", "a", namespace="other"), job("unnamed", namespace="other")
    plan = planned([*TEAMS, queue, named, unnamed, job("ours", "a")], "--config", str(config))
    assert {"named": "not queued", "ours": "admitted"} == states(plan)
    assert any(
        "Job other/unnamed is not queued: managedJobsNames" in each for each in plan["notes"]
    )


def test_a_job_below_a_managed_one_runs_on_its_quota() -> None:
    child = job("child", "a")
    owner = {"apiVersion": "batch/v1", "kind": "Job", "name": "above", "uid": "u"}
    child["metadata"]["ownerReferences"] = [owner | {"controller": True}]
    for queue, wanted in ("a", {"above"}), ("", {"child"}):
        above = job("above", queue)
        above["metadata"]["uid"] = "u"
        plan = planned([*TEAMS, above, child])
        assert wanted == set(states(plan))
        (name,) = {"above", "child"} - wanted
        assert any(f"Job default/{name} is not queued: " in each for each in plan["notes"])


def test_running_workloads_count_and_may_be_preempted() -> None:
    reclaims = cluster_queue("a", 4, preemption={"reclaimWithinCohort": "Any"})
    plan = planned([flavor(), reclaims, *TEAMS[2:], admitted("old", "b", 6), job("new", "a", 4)])
    assert {"old": "preempted", "new": "admitted"} == states(plan)
    assert ["default/new"] == row(plan, "old")["preemptedBy"]
    assert ["default/old"] == row(plan, "new")["preempts"]


def admitted(name: str, queue: str, gpu: int) -> Json:
    """A Workload that holds quota, as a cluster would print it."""
    pod_set = {
        "name": "main",
        "count": gpu,
        "template": {
            "spec": {
                "restartPolicy": "Never",
                "containers": [
                    {"name": "c", "image": "i", "resources": {"requests": {"nvidia.com/gpu": "1"}}}
                ],
            }
        },
    }
    given = {
        "name": "main",
        "count": gpu,
        "flavors": {"nvidia.com/gpu": "h100"},
        "resourceUsage": {"nvidia.com/gpu": str(gpu)},
    }
    conditions = [
        {
            "type": kind,
            "status": "True",
            "reason": kind,
            "message": "",
            "lastTransitionTime": "2026-01-01T00:00:00Z",
        }
        for kind in ("QuotaReserved", "Admitted")
    ]
    return {
        "apiVersion": "kueue.x-k8s.io/v1beta2",
        "kind": "Workload",
        "metadata": {
            "name": name,
            "namespace": "default",
            "creationTimestamp": "2026-01-01T00:00:00Z",
        },
        "spec": {"queueName": queue, "podSets": [pod_set], "priority": 0},
        "status": {
            "admission": {"clusterQueue": queue, "podSetAssignments": [given]},
            "conditions": conditions,
        },
    }


def test_a_job_whose_workload_is_given_is_not_counted_twice() -> None:
    workload = admitted("job-train-1", "a", 4)
    owner = {"apiVersion": "batch/v1", "kind": "Job", "name": "train", "uid": "u"}
    workload["metadata"]["ownerReferences"] = [owner]
    assert {"job-train-1": "admitted"} == states(planned([*TEAMS, job("train", "a", 4), workload]))


def test_priority_classes_decide() -> None:
    preempts = cluster_queue("a", 4, "", preemption={"withinClusterQueue": "LowerPriority"})
    del preempts["spec"]["cohortName"]
    objects = [flavor(), preempts, local_queue("a"), priority_class("rush", 10)]
    rush = job("rush", "a", 4, after="1s", priority_class="rush")
    plan = planned([*objects, job("slow", "a", 4), rush])
    assert {"slow": "preempted", "rush": "admitted"} == states(plan)


def test_a_job_with_an_unknown_priority_class_is_not_queued() -> None:
    plan = planned([*TEAMS, job("j", "a", 1, priority_class="rash")])
    assert {"j": "not queued"} == states(plan)
    assert 'WorkloadPriorityClass "rash" not found' == row(plan, "j")["why"]["text"]


def test_a_job_without_a_queue_is_left_alone_and_that_is_said() -> None:
    plan = planned([*TEAMS, job("free", "", 1)])
    assert [] == plan["workloads"]
    assert any(
        "Job default/free is not queued: it has no queue name" in each for each in plan["notes"]
    )


def test_checks_without_status_are_taken_to_be_active_and_that_is_said() -> None:
    check = {
        "apiVersion": "kueue.x-k8s.io/v1beta2",
        "kind": "AdmissionCheck",
        "metadata": {"name": "budget"},
        "spec": {"controllerName": "example.com/budget"},
    }
    rule = {"admissionChecks": [{"name": "budget"}]}
    queue = cluster_queue("a", 4, admissionChecksStrategy=rule)
    plan = planned([flavor(), check, queue, local_queue("a"), job("j", "a", 4)])
    assert {"j": "reserved"} == states(plan)
    assert ["budget"] == row(plan, "j")["why"]["checks"]
    assert any("assumed to be active" in each for each in plan["notes"])


def test_missing_namespaces_are_taken_to_exist_and_that_is_said() -> None:
    plan = planned([*TEAMS, job("j", "a", 1)])
    assert any("Namespace default" in each for each in plan["notes"])


def test_an_inactive_queue_reports_all_its_reasons() -> None:
    queue = cluster_queue("a", 4, stopPolicy="Hold")
    plan = planned([queue, local_queue("a"), job("j", "a", 1)])
    (shown,) = plan["clusterQueues"]
    assert not shown["active"]
    assert ["it is stopped", "it references missing ResourceFlavors (h100)"] == shown["inactive"]
    assert {"j": "waiting"} == states(plan)


def test_policies_that_never_agree_are_reported_with_those_they_concern() -> None:
    chases = {
        "reclaimWithinCohort": "Any",
        "borrowWithinCohort": {"policy": "LowerPriority"},
        "withinClusterQueue": "LowerOrNewerEqualPriority",
    }
    objects = [
        flavor(),
        cluster_queue("a", 2, preemption=chases, limits={"borrowingLimit": 2}),
        cluster_queue("b", 0),
        cluster_queue("c", 1),
        local_queue("a"),
        local_queue("b"),
        priority_class("low", 1),
        priority_class("high", 2),
        job("big", "b", 3, priority_class="high"),
        job("small", "a", 1, priority_class="low"),
        job("medium", "a", 3, priority_class="high"),
    ]
    result = ran(objects)
    assert 0 == result.exit_code
    assert "does not converge" in result.output
    assert "default/big" in planned(objects)["restless"]
    assert len(planned(objects)["restless"]) > 1


def test_faults_are_shown_as_check_shows_them_and_nothing_is_planned() -> None:
    broken = cluster_queue("a", 4)
    broken["spec"]["cohortNme"] = "lab"
    result = ran([flavor(), broken, job("j", "a", 1)])
    assert 1 == result.exit_code
    assert "did you mean cohortName?" in result.output
    assert "Workloads" not in result.output


def test_amounts_and_times_that_cannot_be_read_are_faults_with_a_line() -> None:
    wrong = job("j", "a", 1, after="soon")
    container = wrong["spec"]["template"]["spec"]["containers"][0]
    container["resources"]["limits"]["nvidia.com/gpu"] = "1x"
    result = ran([*TEAMS, wrong])
    assert 1 == result.exit_code
    assert "metadata.annotations[kuota.dev/submit-after]" in result.output
    assert "limits[nvidia.com/gpu]" in result.output
    assert result.output.count("<stdin>:") == 2


def test_faults_of_the_configuration_are_shown_with_its_name(tmp_path: Path) -> None:
    config = tmp_path / "config.yaml"
    config.write_text(
        "apiVersion: config.kueue.x-k8s.io/v1beta2\nkind: Configuration\nfairSharin: {}\n"
    )
    result = ran(TEAMS, "--config", str(config))
    assert 1 == result.exit_code
    assert "config.yaml: " in result.output
    assert "fairSharin" in result.output


def test_the_configuration_decides_how_resources_are_counted(tmp_path: Path) -> None:
    config = tmp_path / "config.yaml"
    config.write_text(
        "apiVersion: config.kueue.x-k8s.io/v1beta2\nkind: Configuration\n"
        "resources:\n  excludeResourcePrefixes: [nvidia.com]\n"
    )
    plan = planned([*TEAMS, job("j", "a", 99)], "--config", str(config))
    assert {"j": "admitted"} == states(plan)
    assert [] == row(plan, "j")["gets"]


def test_one_workload_can_be_asked_about_by_either_of_its_names() -> None:
    objects = [*TEAMS, job("j", "a", 9)]
    by_job = ran(objects, "--explain", "default/j")
    assert 0 == by_job.exit_code
    assert "what would help:" in by_job.output
    name = planned(objects)["workloads"][0]["workload"]
    assert by_job.output == ran(objects, "--explain", f"default/{name}").output


def test_asking_about_an_unknown_workload_is_a_usage_error_with_a_suggestion() -> None:
    result = ran([*TEAMS, job("train", "a", 1)], "--explain", "train")
    assert 2 == result.exit_code
    assert "did you mean default/train?" in result.output


def test_nothing_to_plan_is_a_usage_error() -> None:
    assert 2 == CliRunner().invoke(command, []).exit_code


def test_a_file_that_cannot_be_read_is_no_plan(tmp_path: Path) -> None:
    result = CliRunner().invoke(command, ["-f", str(tmp_path / "none.yaml")])
    assert 2 == result.exit_code
    assert "cannot be read" in result.output


def test_yaml_and_json_say_the_same() -> None:
    objects = [*TEAMS, job("j", "a", 9)]
    assert planned(objects) == yaml.safe_load(ran(objects, "-o", "yaml").stdout)


def test_wide_tables_have_more_columns() -> None:
    output = ran([*TEAMS, job("j", "a", 9)], "-o", "wide").output
    assert "PRIORITY" in output
    assert "MAY BORROW" in output


def test_the_same_manifests_give_the_same_plan() -> None:
    objects = [*TEAMS, *(job(f"j{n}", "ab"[n % 2], 1 + n % 3) for n in range(8))]
    assert ran(objects).output == ran(objects).output


def test_an_unknown_workload_is_answered_with_the_known_ones(tmp_path: Path) -> None:
    (tmp_path / "job.yaml").write_text(yaml.safe_dump(job("train", "q")))
    result = CliRunner().invoke(command, ["-f", str(tmp_path), "--explain", "zzz"])
    assert "no workload zzz; there are: default/train\n" in result.output
