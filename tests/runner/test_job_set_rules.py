# SPDX-License-Identifier: Apache-2.0
"""The steps of JobSets, PyTorchJobs and JAXJobs, given their Jobs."""

from __future__ import annotations

from typing import Any

from kuota.api.base import Json
from kuota.api.core import AUTHOR_ROLE, RUN_AS
from kuota.runner.child_jobs import GroupStep
from kuota.runner.job_set_rules import job_set_step
from kuota.runner.loopback_ports import FIRST, LAST, PORT
from kuota.runner.training_rules import JAX_JOB, PYTORCH_JOB

NOW = 1_000_000_000.0


def free(port: int) -> bool:
    return False


def pod(**env: str) -> Json:
    listed = [{"name": name, "value": value} for name, value in env.items()]
    return {"spec": {"containers": [{"name": "main", "env": listed}]}}


def parent(kind: str, spec: Json, **status: Any) -> Json:
    meta = {"name": "train", "namespace": "team", "uid": "uid"}
    return {"apiVersion": "x/v1", "kind": kind, "metadata": meta, "spec": spec, "status": status}


def job_set(names: tuple[str, ...] = ("a",), status: Json | None = None, **spec: Any) -> Json:
    jobs = [{"name": name, "template": {"spec": {"template": pod()}}} for name in names]
    return parent("JobSet", {"replicatedJobs": jobs, **spec}, **(status or {}))


def made(step: GroupStep, **conditions: str) -> list[Json]:
    """The Jobs that a step creates, with these conditions by name."""
    for job in step.create:
        name = job["metadata"]["name"].replace("-", "_")
        job["status"] = {"active": 1}
        if name in conditions:
            true = {"type": conditions[name], "status": "True", "reason": "BackoffLimitExceeded"}
            job["status"] = {"conditions": [true]}
    return step.create


def conditions(step: GroupStep) -> dict[str, str]:
    return {
        each["type"]: each["reason"]
        for each in (step.status or {}).get("conditions") or ()
        if each["status"] == "True"
    }


def test_a_suspended_job_set_has_no_jobs_and_says_so() -> None:
    step = job_set_step(job_set(suspend=True), [], NOW, free)
    assert [] == step.create
    assert {"Suspended": "SuspendedJobs"} == conditions(step)
    running = made(job_set_step(job_set(), [], NOW, free))
    assert running == job_set_step(job_set(suspend=True), running, NOW, free).suspend


def test_jobs_resume_with_the_spec_they_had_and_are_replaced_otherwise() -> None:
    jobs = made(job_set_step(job_set(), [], NOW, free))
    jobs[0]["spec"]["suspend"] = True
    assert jobs == job_set_step(job_set(), jobs, NOW, free).resume
    changed = job_set()
    changed["spec"]["replicatedJobs"][0]["template"]["spec"]["template"] = pod(FLAVOR="other")
    step = job_set_step(changed, jobs, NOW, free)
    assert (jobs, [], []) == (step.delete, step.resume, step.create)


def test_a_job_set_completes_when_all_its_jobs_do_or_any_target() -> None:
    names = ("a", "b")
    jobs = made(job_set_step(job_set(names), [], NOW, free), train_a_0="Complete")
    assert {} == conditions(job_set_step(job_set(names), jobs, NOW, free))
    policy = {"operator": "Any", "targetReplicatedJobs": ["a"]}
    step = job_set_step(job_set(names, successPolicy=policy), jobs, NOW, free)
    assert {"Completed": "AllJobsCompleted"} == conditions(step)


def test_a_failed_job_restarts_the_job_set_up_to_the_limit() -> None:
    policy = {"maxRestarts": 1}
    jobs = made(job_set_step(job_set(), [], NOW, free), train_a_0="Failed")
    step = job_set_step(job_set(failurePolicy=policy), jobs, NOW, free)
    assert step.status is not None
    assert (1, {}) == (step.status["restarts"], conditions(step))
    again = job_set(failurePolicy=policy, status=step.status)
    assert jobs == job_set_step(again, jobs, NOW, free).delete
    jobs = made(job_set_step(again, [], NOW, free), train_a_0="Failed")
    assert {"Failed": "ReachedMaxRestarts"} == conditions(job_set_step(again, jobs, NOW, free))
    assert {"Failed": "FailedJobs"} == conditions(
        job_set_step(
            job_set(),
            made(job_set_step(job_set(), [], NOW, free), train_a_0="Failed"),
            NOW,
            free,
        )
    )


def test_the_next_job_of_an_ordered_job_set_waits_for_the_previous_one() -> None:
    names, policy = ("a", "b"), {"startupPolicyOrder": "InOrder"}
    ordered = job_set(names, startupPolicy=policy)
    jobs = made(job_set_step(ordered, [], NOW, free))
    assert ["train-a-0"] == [each["metadata"]["name"] for each in jobs]
    jobs[0]["status"]["ready"] = 1
    step = job_set_step(ordered, jobs, NOW, free)
    assert ["train-b-0"] == [each["metadata"]["name"] for each in step.create]


def test_names_of_pods_become_loopback_addresses() -> None:
    one = job_set()
    env = {
        "MASTER_ADDR": "train-a-0-0.train",
        "PEERS": "tcp://train-a-0-0.train.team.svc.cluster.local:1,train-a-0-1:2",
        "OTHER": "retrain-a-0-0 train-a-0-0x train-b-0-0 train.train-a-0-0",
    }
    one["spec"]["replicatedJobs"][0]["template"]["spec"]["template"] = pod(**env)
    (job,) = job_set_step(one, [], NOW, free).create
    found = job["spec"]["template"]["spec"]["containers"][0]["env"]
    assert ["127.0.0.1", "tcp://127.0.0.1:1,127.0.0.1:2", env["OTHER"]] == [
        each["value"] for each in found
    ]


def test_pods_run_as_the_author_of_the_parent() -> None:
    one = job_set()
    one["metadata"]["annotations"] = {RUN_AS: "1001"}
    template = pod() | {"metadata": {"annotations": {RUN_AS: "0", AUTHOR_ROLE: "admin"}}}
    one["spec"]["replicatedJobs"][0]["template"]["spec"]["template"] = template
    (job,) = job_set_step(one, [], NOW, free).create
    notes = job["spec"]["template"]["metadata"]["annotations"]
    assert ("1001", None) == (notes[RUN_AS], notes.get(AUTHOR_ROLE))


def torch(**policy: Any) -> Json:
    replica = {"restartPolicy": "Never", "template": pod(RANK_FILE="x")}
    specs = {"Worker": replica | {"replicas": 2}, "master": replica}
    return parent("PyTorchJob", {"pytorchReplicaSpecs": specs, "runPolicy": policy})


def environment(job: Json) -> dict[str, str]:
    env = job["spec"]["template"]["spec"]["containers"][0]["env"]
    return {each["name"]: each["value"] for each in env}


def test_every_replica_gets_the_environment_of_torchrun() -> None:
    jobs = PYTORCH_JOB(torch(), [], NOW, free).create
    names = ["train-master-0", "train-worker-0", "train-worker-1"]
    assert names == [each["metadata"]["name"] for each in jobs]
    assert ["0", "1", "2"] == [environment(each)["RANK"] for each in jobs]
    (ports,) = {environment(each)["MASTER_PORT"] for each in jobs}
    assert FIRST <= int(ports) <= LAST
    shown = environment(jobs[1])
    wanted = {
        "WORLD_SIZE": "3",
        "MASTER_ADDR": "127.0.0.1",
        "PET_NNODES": "3",
        "PET_NODE_RANK": "1",
    }
    assert wanted.items() <= shown.items()


def test_jobs_do_not_share_a_port_and_keep_theirs() -> None:
    (first, *_) = PYTORCH_JOB(torch(), [], NOW, free).create
    taken = int(first["metadata"]["annotations"][PORT])
    other = PYTORCH_JOB(torch(), [], NOW, lambda port: port == taken).create
    assert str(taken) != environment(other[0])["MASTER_PORT"]
    kept = PYTORCH_JOB(torch(), other[:1], NOW, free).create
    assert environment(other[0])["MASTER_PORT"] == environment(kept[0])["MASTER_PORT"]


def test_a_pytorch_job_ends_with_its_master_and_fails_with_any_replica() -> None:
    jobs = made(PYTORCH_JOB(torch(), [], NOW, free), train_master_0="Complete")
    assert "Succeeded" in conditions(PYTORCH_JOB(torch(), jobs, NOW, free))
    jobs = made(PYTORCH_JOB(torch(), [], NOW, free), train_worker_1="Failed")
    step = PYTORCH_JOB(torch(), jobs, NOW, free)
    assert "PyTorchJobFailed" == conditions(step)["Failed"]
    assert "Suspended" in conditions(PYTORCH_JOB(torch(suspend=True), [], NOW, free))


def test_a_jax_job_names_its_coordinator() -> None:
    specs = {"Worker": {"replicas": 2, "template": pod()}}
    jobs = JAX_JOB(parent("JAXJob", {"jaxReplicaSpecs": specs}), [], NOW, free).create
    shown = [environment(each) for each in jobs]
    assert ["0", "1"] == [each["PROCESS_ID"] for each in shown]
    assert {"127.0.0.1"} == {each["COORDINATOR_ADDRESS"] for each in shown}
    assert {"2"} == {each["NUM_PROCESSES"] for each in shown}


def test_malformed_objects_do_not_stop_the_controllers() -> None:
    for spec in ({}, {"replicatedJobs": [3, {}]}, {"replicatedJobs": {"a": 1}}, {"suspend": "x"}):
        job_set_step(parent("JobSet", spec), [], NOW, free)
    for value in (None, 3, {"Worker": None}, {"Worker": {"replicas": "x", "template": []}}):
        for rules in (PYTORCH_JOB, JAX_JOB):
            rules(parent(rules.kind, {rules.field: value}), [], NOW, free)
