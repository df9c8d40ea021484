# SPDX-License-Identifier: Apache-2.0
"""A TrainJob runs as the Jobs that its runtime defines."""

from __future__ import annotations

from typing import Any

from kuota.api.base import Json
from kuota.runner.child_jobs import GroupStep
from kuota.runner.train_job_rules import train_job_step

NOW = 1_800_000_000.0
STEP = "trainer.kubeflow.org/trainjob-ancestor-step"


def train_job(framework: str = "torch", **spec: Any) -> Json:
    container = {"name": "node", "image": "none", "command": ["train"]}
    replicated = {
        "name": "node",
        "template": {
            "metadata": {"labels": {STEP: "trainer"}},
            "spec": {"template": {"spec": {"containers": [container]}}},
        },
    }
    runtime = {
        "mlPolicy": {"numNodes": 1, framework: {}},
        "template": {"spec": {"replicatedJobs": [replicated]}},
    }
    return {
        "apiVersion": "trainer.kubeflow.org/v1alpha1",
        "kind": "TrainJob",
        "metadata": {"name": "tune", "namespace": "n", "uid": "u"},
        "spec": {"trainer": {"numNodes": 2, "numProcPerNode": 3}, **spec},
        "runtime": runtime,
    }


def step(job: Json, *jobs: Json) -> GroupStep:
    return train_job_step(job, jobs, NOW, lambda port: False)


def environment(job: Json) -> dict[str, Any]:
    (container,) = job["spec"]["template"]["spec"]["containers"]
    return {each["name"]: each.get("value") for each in container["env"]}


def test_processes_of_pytorch_meet_on_loopback() -> None:
    (job,) = step(train_job()).create
    assert ("tune-node-0", 2) == (job["metadata"]["name"], job["spec"]["completions"])
    assert "TrainJob" == job["metadata"]["ownerReferences"][0]["kind"]
    env = environment(job)
    port = job["metadata"]["annotations"]["kuota.dev/port"]
    assert ("127.0.0.1", port, "2", "3") == (
        env["PET_MASTER_ADDR"],
        env["PET_MASTER_PORT"],
        env["PET_NNODES"],
        env["PET_NPROC_PER_NODE"],
    )
    assert ("127.0.0.1", port, "6") == (env["MASTER_ADDR"], env["MASTER_PORT"], env["WORLD_SIZE"])
    assert {"RANK", "PET_NODE_RANK"} <= env.keys()


def test_processes_of_jax_meet_on_loopback() -> None:
    (job,) = step(train_job("jax")).create
    port = job["metadata"]["annotations"]["kuota.dev/port"]
    assert f"127.0.0.1:{port}" == environment(job)["JAX_COORDINATOR_ADDRESS"]


def test_a_variable_of_the_user_stays() -> None:
    trainer = {"numNodes": 1, "env": [{"name": "WORLD_SIZE", "value": "9"}]}
    (job,) = step(train_job(trainer=trainer)).create
    assert "9" == environment(job)["WORLD_SIZE"]


def test_a_train_job_ends_with_its_jobs() -> None:
    (job,) = step(train_job()).create
    assert [] == step(train_job(suspend=True)).create
    done = job | {"status": {"conditions": [{"type": "Complete", "status": "True"}]}}
    ended = step(train_job(), done)
    assert ended.status is not None
    (condition,) = ended.status["conditions"]
    assert ("Complete", "True") == (condition["type"], condition["status"])
    assert 1 == ended.status["jobsStatus"][0]["succeeded"]
    again = step(train_job() | {"status": ended.status}, done)
    assert ([], []) == (again.create, again.delete)


def test_a_train_job_without_a_runtime_or_of_another_manager_is_left_alone() -> None:
    assert GroupStep() == step(train_job() | {"runtime": None})
    assert GroupStep() == step(train_job(managedBy="kueue.x-k8s.io/multikueue"))


def test_a_train_job_with_mpi_says_that_nothing_starts_its_pods() -> None:
    found = step(train_job("mpi"))
    assert ["NothingStartsPods"] == [each.reason for each in found.events]
    assert GroupStep(events=found.events) == found
    assert GroupStep() == step(train_job("mpi", suspend=True))
