# SPDX-License-Identifier: Apache-2.0
"""The Jobs of a JobSet or PyTorchJob use its quota, and nobody else can use it.

The member's team has a quota of one GPU. `Enforced.until` checks after every change that processes
hold no more.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest

from attack.enforced import (
    JOB_SETS,
    PATIENT,
    PYTORCH_JOBS,
    TEAM,
    TRAIN_JOBS,
    TRAINING_RUNTIMES,
    Enforced,
    holder,
)
from attack.test_quota import QUEUE, play, refused, waits
from kuota.api.base import Json, Key
from kuota.kube.errors import NotFound
from kuota.kube.requests import PatchType
from kuota.kube.resources import JOBS, PODS, Resource

CREATED_FOR, CHARGED_TO = "kuota.dev/created-for", "kuota.dev/charged-to"


def template(annotations: dict[str, str]) -> Json:
    pod: Json = holder()["spec"]["template"]
    return {"metadata": {"annotations": annotations}, "spec": pod["spec"]}


def job_set(**annotations: str) -> Json:
    jobs = {"spec": {"template": template(annotations)}}
    return _queued("set", {"replicatedJobs": [{"name": "a", "template": jobs}]})


def pytorch_job() -> Json:
    replica: Json = {"replicas": 1, "restartPolicy": "OnFailure", "template": template({})}
    replica["template"]["spec"]["containers"][0]["name"] = "pytorch"
    return _queued("torch", {"pytorchReplicaSpecs": {"Master": replica}})


def _queued(name: str, spec: Json) -> Json:
    return {"metadata": {"name": name, "namespace": TEAM, "labels": {QUEUE: "main"}}, "spec": spec}


async def holding(machine: Enforced, kind: Resource, made: Json, child: str) -> Json:
    """Let a job hold the GPU, and return it."""
    await machine.ann.create(kind, made)
    await machine.started(child)
    found = machine.store.get(kind.name, Key(TEAM, made["metadata"]["name"]))
    assert found is not None
    return found


def owned_by(parent: Json, kind: Resource) -> Json:
    meta = parent["metadata"]
    version = f"{kind.group}/{kind.version}"
    uid = {"name": meta["name"], "uid": meta["uid"], "controller": True}
    return {"ownerReferences": [{"apiVersion": version, "kind": kind.kind, **uid}]}


@pytest.mark.parametrize(
    ("kind", "made", "child"),
    [(JOB_SETS, job_set, "set-a-0"), (PYTORCH_JOBS, pytorch_job, "torch-master-0")],
    ids=["JobSet", "PyTorchJob"],
)
def test_ownership_of_an_admitted_job_cannot_be_forged(
    tmp_path: Path, kind: Resource, made: Callable[[], Json], child: str
) -> None:
    async def story(machine: Enforced) -> None:
        owner = await holding(machine, kind, made(), child)
        forged = holder("attempt", queue="")
        forged["metadata"] |= owned_by(owner, kind)
        forged["metadata"]["annotations"] = {CREATED_FOR: owner["metadata"]["uid"]}
        stored = await machine.ann.create(JOBS, forged)
        assert CREATED_FOR not in stored["metadata"].get("annotations", {})
        # The controller deletes it, unless the member is faster.
        with suppress(NotFound):
            mark = {"metadata": {"annotations": {CREATED_FOR: owner["metadata"]["uid"]}}}
            stored = await machine.ann.patch(JOBS, Key(TEAM, "attempt"), mark, kind=PatchType.MERGE)
            assert CREATED_FOR not in stored["metadata"].get("annotations", {})
        await waits(machine, "attempt")

    play(tmp_path, story)


def test_a_job_set_starts_no_more_pods_than_were_admitted(tmp_path: Path) -> None:
    async def story(machine: Enforced) -> None:
        await holding(machine, JOB_SETS, job_set(), "set-a-0")
        for body in ({"spec": {"parallelism": 3}}, {"metadata": {"ownerReferences": None}}):
            await machine.ann.patch(JOBS, Key(TEAM, "set-a-0"), body, kind=PatchType.MERGE)
            await machine.settle()
            assert machine.held() <= 1
        await machine.ann.delete(JOBS, Key(TEAM, "set-a-0"), propagation="Background")
        await machine.ann.create(JOBS, holder("attempt"))
        await waits(machine, "attempt")

    play(tmp_path, story)


def test_a_running_job_set_cannot_grow_or_change_its_pods(tmp_path: Path) -> None:
    async def story(machine: Enforced) -> None:
        found = await holding(machine, JOB_SETS, job_set(), "set-a-0")
        key, jobs = Key(TEAM, "set"), found["spec"]["replicatedJobs"]
        changed = deepcopy(jobs)
        changed[0]["template"]["spec"]["template"]["spec"]["containers"][0]["command"] = ["true"]
        body: Json = {"spec": {"replicatedJobs": changed}}
        said = await refused(machine.ann.patch(JOB_SETS, key, body, kind=PatchType.MERGE))
        assert "immutable while the job is not suspended" in said
        # It is suspended, and waits for quota for all of its pods.
        jobs[0]["replicas"] = 3
        body = {"spec": {"replicatedJobs": jobs}}
        await machine.ann.patch(JOB_SETS, key, body, kind=PatchType.MERGE)
        await machine.settle()
        assert machine.held() <= 1

    play(tmp_path, story)


def test_the_quota_of_a_deleted_job_set_is_charged_until_its_processes_are_gone(
    tmp_path: Path,
) -> None:
    async def story(machine: Enforced) -> None:
        await holding(machine, JOB_SETS, job_set(), "set-a-0")
        await machine.ann.create(JOBS, holder("next"))
        said = await refused(machine.ann.delete(JOB_SETS, Key(TEAM, "set"), propagation="Orphan"))
        assert "--cascade=background" in said
        pods = machine.pods("set-a-0")
        await machine.ann.delete(JOB_SETS, Key(TEAM, "set"), propagation="Background")
        await waits(machine, "next")
        for pod in pods:
            machine.let_end(pod)
        await machine.started("next")

    play(tmp_path, story)


def test_members_cannot_say_what_a_pod_is_charged_to(tmp_path: Path) -> None:
    async def story(machine: Enforced) -> None:
        forged = {CHARGED_TO: f"Job.batch/other/{'0' * 36}/main", CREATED_FOR: "x"}
        await holding(machine, JOB_SETS, job_set(**forged), "set-a-0")
        (pod,) = machine.pods("set-a-0")
        notes = pod["metadata"]["annotations"]
        assert notes[CHARGED_TO].startswith("JobSet.jobset.x-k8s.io/set/")
        assert forged[CREATED_FOR] != notes[CREATED_FOR]
        key = Key(TEAM, pod["metadata"]["name"])
        for value in (None, forged[CHARGED_TO]):
            body: dict[str, Any] = {"metadata": {"annotations": {CHARGED_TO: value}}}
            stored = await machine.ann.patch(PODS, key, body, kind=PatchType.MERGE)
            assert notes[CHARGED_TO] == stored["metadata"]["annotations"][CHARGED_TO]
        await machine.ann.create(JOBS, holder("attempt"))
        await waits(machine, "attempt")

    play(tmp_path, story)


def test_processes_run_as_the_author_whatever_the_templates_say(tmp_path: Path) -> None:
    async def story(machine: Enforced) -> None:
        forged = {"kuota.dev/run-as-uid": "0", "kuota.dev/author-role": "admin"}
        await holding(machine, JOB_SETS, job_set(**forged), "set-a-0")
        (pod,) = machine.pods("set-a-0")
        assert forged.keys().isdisjoint(pod["metadata"]["annotations"])
        assert PATIENT in pod["spec"]["containers"][0]["command"]

    play(tmp_path, story)


def test_a_runtime_cannot_give_a_running_train_job_more(tmp_path: Path) -> None:
    async def story(machine: Enforced) -> None:
        step = {"trainer.kubeflow.org/trainjob-ancestor-step": "trainer"}
        pod = template({})
        pod["spec"]["containers"][0]["name"] = "node"
        jobs: Json = {"metadata": {"labels": step}, "spec": {"template": pod}}
        runtime: Json = {
            "metadata": {"name": "runtime", "namespace": TEAM},
            "spec": {
                "template": {"spec": {"replicatedJobs": [{"name": "node", "template": jobs}]}}
            },
        }
        await machine.ann.create(TRAINING_RUNTIMES, runtime)
        reference = {"kind": "TrainingRuntime", "name": "runtime"}
        made = _queued("tune", {"runtimeRef": reference, "trainer": {"numNodes": 1}})
        await holding(machine, TRAIN_JOBS, made, "tune-node-0")
        (pod,) = machine.pods("tune-node-0")
        container = jobs["spec"]["template"]["spec"]["containers"][0]
        amounts = {"nvidia.com/gpu": 4}
        container["resources"] = {"limits": amounts, "requests": amounts}
        more = {"spec": runtime["spec"]}
        key = Key(TEAM, "runtime")
        await machine.ann.patch(TRAINING_RUNTIMES, key, more, kind=PatchType.MERGE)
        machine.let_end(pod)
        await machine.settle()
        assert machine.held() <= 1
        assert all(
            pod["metadata"]["uid"] == each["metadata"]["uid"]
            for each in machine.pods("tune-node-0")
        )

    play(tmp_path, story)
