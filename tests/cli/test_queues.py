# SPDX-License-Identifier: Apache-2.0
"""`kuota create`, `list`, `stop` and `resume` against a running server."""

from __future__ import annotations

import yaml

from cli.cluster import Cluster, condition, job, local_queue, pod_status, workload
from kuota.api.base import Json
from kuota.kube.resources import (
    CLUSTER_QUEUES,
    COHORTS,
    JOBS,
    LOCAL_QUEUES,
    PODS,
    RESOURCE_FLAVORS,
    WORKLOADS,
)


def test_a_cluster_queue_is_made_of_flags(cluster: Cluster) -> None:
    said = cluster.kuota(
        *("create", "clusterqueue", "team-a", "--cohort", "lab"),
        *("--nominal-quota", "gold:cpu=64;nvidia.com/gpu=8,silver:nvidia.com/gpu=4;cpu=32"),
        *("--borrowing-limit", "gold:nvidia.com/gpu=4", "--lending-limit", "gold:cpu=16"),
        *("--queuing-strategy", "StrictFIFO", "--namespace-selector", "team=a"),
        *("--reclaim-within-cohort", "Any", "--preemption-within-cluster-queue", "LowerPriority"),
    )
    assert "clusterqueue.kueue.x-k8s.io/team-a created\n" == said
    spec = cluster.get(CLUSTER_QUEUES, "team-a")["spec"]
    assert ("lab", "StrictFIFO") == (spec["cohortName"], spec["queueingStrategy"])
    assert {"matchLabels": {"team": "a"}} == spec["namespaceSelector"]
    assert "Any" == spec["preemption"]["reclaimWithinCohort"]
    (group,) = spec["resourceGroups"]
    assert ["cpu", "nvidia.com/gpu"] == group["coveredResources"]
    gold, silver = group["flavors"]
    assert [
        {"name": "cpu", "nominalQuota": "64", "lendingLimit": "16"},
        {"name": "nvidia.com/gpu", "nominalQuota": "8", "borrowingLimit": "4"},
    ] == gold["resources"]
    assert ["32", "4"] == [each["nominalQuota"] for each in silver["resources"]]


def test_faults_are_reported_before_anything_is_sent(cluster: Cluster) -> None:
    limit = ("--nominal-quota", "f:cpu=4", "--borrowing-limit", "f:cpu=2")
    said = cluster.kuota("create", "cq", "alone", *limit, code=1)
    assert "borrowingLimit" in said
    assert "nothing was created" in said
    assert "is not RESOURCE=AMOUNT" in cluster.kuota(
        "create", "cq", "x", "--nominal-quota", "f:cpu", code=2
    )
    assert "separate the resources of one flavor with ';'" in cluster.kuota(
        "create", "cq", "x", "--nominal-quota", "f:cpu=1,memory=2Gi", code=2
    )
    assert "has no --nominal-quota" in cluster.kuota(
        "create", "cq", "x", "--lending-limit", "f:cpu=1", code=2
    )
    assert [] == cluster.names(CLUSTER_QUEUES)


def test_a_local_queue_needs_its_cluster_queue(cluster: Cluster) -> None:
    said = cluster.kuota("create", "lq", "research", "-c", "none", code=1)
    assert "there is no ClusterQueue none" in said
    cluster.kuota("create", "lq", "research", "-c", "none", "--ignore-unknown-cq")
    assert "none" == cluster.get(LOCAL_QUEUES, "research")["spec"]["clusterQueue"]


def test_flavors_and_cohorts_are_made_too(cluster: Cluster) -> None:
    cluster.kuota(
        *("create", "resourceflavor", "spot", "--node-labels", "pool=spot"),
        *("--node-taints", "spot=true:NoSchedule", "--tolerations", "gpu:NoSchedule,x=y"),
    )
    spec = cluster.get(RESOURCE_FLAVORS, "spot")["spec"]
    assert {"pool": "spot"} == spec["nodeLabels"]
    assert [{"key": "spot", "value": "true", "effect": "NoSchedule"}] == spec["nodeTaints"]
    assert [
        {"key": "gpu", "operator": "Exists", "effect": "NoSchedule"},
        {"key": "x", "operator": "Equal", "value": "y"},
    ] == spec["tolerations"]
    cluster.kuota("create", "cohort", "lab", "--parent", "all", "--nominal-quota", "spot:cpu=1")
    assert "all" == cluster.get(COHORTS, "lab")["spec"]["parentName"]


def test_dry_runs_store_nothing(cluster: Cluster) -> None:
    printed = yaml.safe_load(cluster.kuota("create", "cq", "a", "--dry-run", "client"))
    assert ("ClusterQueue", "a") == (printed["kind"], printed["metadata"]["name"])
    assert "(dry run)" in cluster.kuota("create", "cq", "a", "--dry-run", "server")
    assert [] == cluster.names(CLUSTER_QUEUES)


def test_queues_are_stopped_and_resumed(cluster: Cluster) -> None:
    cluster.kuota("create", "cq", "a")
    cluster.kuota("create", "lq", "q", "-c", "a")
    assert "stopped (HoldAndDrain)" in cluster.kuota("stop", "clusterqueue", "a")
    assert "stopped (Hold)" in cluster.kuota("stop", "lq", "q", "--keep-already-running")
    stopped = [cluster.get(CLUSTER_QUEUES, "a"), cluster.get(LOCAL_QUEUES, "q")]
    assert ["HoldAndDrain", "Hold"] == [each["spec"]["stopPolicy"] for each in stopped]
    cluster.kuota("resume", "cq", "a")
    cluster.kuota("resume", "localqueue", "q")
    resumed = [cluster.get(CLUSTER_QUEUES, "a"), cluster.get(LOCAL_QUEUES, "q")]
    assert ["None", "None"] == [each["spec"]["stopPolicy"] for each in resumed]
    assert '"none" not found' in cluster.kuota("stop", "cq", "none", code=1)


def test_a_workload_is_stopped_and_resumed(cluster: Cluster) -> None:
    cluster.create(WORKLOADS, workload("w", cluster.create(JOBS, job("train"))))
    assert "workload.kueue.x-k8s.io/w stopped\n" == cluster.kuota("stop", "workload", "w")
    assert cluster.get(WORKLOADS, "w")["spec"]["active"] is False
    cluster.kuota("resume", "workload", "w")
    assert cluster.get(WORKLOADS, "w")["spec"]["active"] is True


def test_a_job_is_stopped_and_resumed_by_its_name(cluster: Cluster) -> None:
    cluster.create(WORKLOADS, workload("w", cluster.create(JOBS, job("train"))))
    assert "workload.kueue.x-k8s.io/w stopped\n" == cluster.kuota("stop", "job", "train")
    assert cluster.get(WORKLOADS, "w")["spec"]["active"] is False
    assert "workload.kueue.x-k8s.io/w resumed\n" == cluster.kuota("resume", "jobs", "train")
    cluster.status(WORKLOADS, "w", {"conditions": [condition("Finished")]})
    said = cluster.kuota("stop", "job", "train", code=1)
    assert "no job train in namespace default is waiting or running" in said


def test_who_names_the_job_instead_of_its_workload_is_reported_its_name(cluster: Cluster) -> None:
    cluster.create(WORKLOADS, workload("w", cluster.create(JOBS, job("train"))))
    hint = "it is a Job, and its Workload is w"
    assert hint in cluster.kuota("stop", "workload", "train", code=1)
    assert hint in cluster.kuota("describe", "workload", "train", code=1)


def test_workloads_are_listed_as_kueuectl_does(cluster: Cluster) -> None:
    cluster.create(LOCAL_QUEUES, local_queue("research", "gpus"))
    for name in ("waits", "runs", "done"):
        cluster.create(WORKLOADS, workload(name, cluster.create(JOBS, job(name))))
    admission = {"clusterQueue": "gpus", "podSetAssignments": [{"name": "main", "count": 1}]}
    admitted = [condition("QuotaReserved"), condition("Admitted")]
    cluster.status(WORKLOADS, "runs", {"conditions": admitted, "admission": admission})
    over = [*admitted, condition("Finished", reason="Succeeded")]
    cluster.status(WORKLOADS, "done", {"conditions": over, "admission": admission})
    header, *rows = cluster.kuota("list", "workload").splitlines()
    assert "NAME JOB TYPE JOB NAME LOCALQUEUE CLUSTERQUEUE STATUS" in " ".join(header.split())
    found = {row.split()[0]: row.split()[1:6] for row in rows}
    assert {
        "waits": ["Job", "waits", "research", "gpus", "PENDING"],
        "runs": ["Job", "runs", "research", "gpus", "ADMITTED"],
        "done": ["Job", "done", "research", "gpus", "SUCCEEDED"],
    } == found
    names = ("-o", "name")
    pending = cluster.kuota("list", "wl", "--status", "pending", *names)
    assert "workload.kueue.x-k8s.io/waits\n" == pending
    running = cluster.kuota("list", "wl", "--status", "running", *names)
    assert "workload.kueue.x-k8s.io/runs\n" == running
    assert "runs" in cluster.kuota("list", "wl", "--for", "job/runs", *names)
    assert "" == cluster.kuota("list", "wl", "-q", "other", *names)


def test_jobs_that_are_not_queued_are_not_missed(cluster: Cluster) -> None:
    cluster.create(JOBS, job("train"))
    assert "has no LocalQueue, so its jobs are not queued" in cluster.hints("list")
    cluster.create(LOCAL_QUEUES, local_queue("research", "gpus"))
    assert "LocalQueue" not in cluster.hints("list")


def test_a_misspelt_namespace_is_reported(cluster: Cluster) -> None:
    said = "here is no namespace defualt; did you mean default?\n"
    assert cluster.hints("list", "-n", "defualt").endswith(f"T{said}")
    for verb, *args in (("describe", "job", "x"), ("logs", "x"), ("run", "-q", "x", "true")):
        assert cluster.kuota(verb, "-n", "defualt", *args, code=1).endswith(f"t{said}")


def _failed_job(cluster: Cluster, name: str, ended: Json) -> None:
    """A Job whose only pod failed, as controllers and runner leave it."""
    made = cluster.create(JOBS, job(name))
    cluster.create(WORKLOADS, workload(name, made))
    cluster.start_pod(made, f"{name}-1")
    cluster.status(PODS, f"{name}-1", pod_status("Failed", ended))
    message = "Job has reached the specified backoff limit"
    over = condition("Finished", reason="Failed", message=message)
    cluster.status(WORKLOADS, name, {"conditions": [over]})


def test_lists_and_watch_show_why_jobs_failed(cluster: Cluster) -> None:
    _failed_job(cluster, "empty", {"terminated": {"exitCode": 128, "message": "no command"}})
    _failed_job(cluster, "crash", {"terminated": {"exitCode": 3}})
    causes = {"empty": "no command", "crash": "exit status 3"}
    for command in ("list wl", "watch"):
        lines = cluster.kuota(*command.split()).splitlines()
        for name, cause in causes.items():
            row = next(line for line in lines if f"/{name} " in line or line.startswith(name))
            assert "FAILED" in row
            assert row.endswith(cause)
    assert "State:       FAILED: no command\n" in cluster.kuota("describe", "job", "empty")
    names = ("-o", "name")
    for status in ("failed", "finished"):
        found = cluster.kuota("list", "wl", "--status", status, *names)
        assert 2 == len(found.splitlines())
    assert "" == cluster.kuota("list", "wl", "--status", "succeeded", *names)


def test_a_deactivated_workload_is_listed_with_its_cause(cluster: Cluster) -> None:
    made = workload("late", cluster.create(JOBS, job("late")))
    made["spec"] |= {"active": False, "maximumExecutionTimeSeconds": 60}
    cluster.create(WORKLOADS, made)
    time_up = "DeactivatedDueToMaximumExecutionTimeExceeded"
    cluster.status(WORKLOADS, "late", {"conditions": [condition("Evicted", reason=time_up)]})
    row = cluster.kuota("list", "wl").splitlines()[1]
    assert "TIMEOUT" in row
    assert row.endswith("it ran longer than its time limit of 60 s")


def test_queues_are_listed_with_what_waits_in_them(cluster: Cluster) -> None:
    cluster.kuota("create", "cq", "a", "--cohort", "lab")
    cluster.kuota("create", "lq", "q", "-c", "a")
    status = {"pendingWorkloads": 2, "admittedWorkloads": 1, "conditions": [condition("Active")]}
    cluster.status(CLUSTER_QUEUES, "a", status)
    cluster.status(LOCAL_QUEUES, "q", {"pendingWorkloads": 2})
    row = cluster.kuota("list", "clusterqueue").splitlines()[1]
    assert ["a", "lab", "2", "1", "true"] == row.split()[:5]
    assert ["q", "a", "2", "0"] == cluster.kuota("list", "lq").splitlines()[1].split()[:4]
    assert "" == cluster.kuota("list", "cq", "--active", "false", "-o", "name")


def test_wide_lists_say_why(cluster: Cluster) -> None:
    cluster.kuota("create", "cq", "a", "--cohort", "lab")
    cluster.kuota("create", "rf", "l4", "--node-taints", "gpu=l4:NoSchedule")
    stopped = condition("Active", holds=False, message="it is stopped")
    cluster.status(CLUSTER_QUEUES, "a", {"conditions": [stopped]})
    cluster.create(LOCAL_QUEUES, local_queue("research", "a"))
    cluster.status(LOCAL_QUEUES, "research", {"conditions": [stopped]})
    made = cluster.create(JOBS, job("train"))
    cluster.create(WORKLOADS, workload("w", made))
    waits = condition("QuotaReserved", holds=False, message="2 more needed")
    cluster.status(WORKLOADS, "w", {"conditions": [waits]})
    cluster.start_pod(made, "p", "Pending")
    full = condition("PodScheduled", holds=False, message="Insufficient cpu")
    cluster.status(PODS, "p", {"phase": "Pending", "conditions": [full]})
    for what, words in (
        ("cq", "it is stopped"),
        ("lq", "it is stopped"),
        ("rf", "gpu=l4:NoSchedule"),
        ("wl", "2 more needed"),
        ("pods --for job/train", "Insufficient cpu"),
    ):
        assert words in cluster.kuota("list", *what.split(), "-o", "wide")


def test_what_cannot_be_listed_is_refused(cluster: Cluster) -> None:
    assert "'nodes' is not one of: clusterqueue" in cluster.kuota("list", "nodes", code=2)
    assert "did you mean workload?" in cluster.kuota("list", "wrkload", code=2)
