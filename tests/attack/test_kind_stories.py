# SPDX-License-Identifier: Apache-2.0
"""The life of a job of each kind that runs on one machine, with real processes.

It waits for quota, is admitted with the node labels of its flavor, is preempted and restored, and
finishes. `Enforced.until` checks after every change that the quota is not exceeded.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from attack.enforced import (
    DEPLOYMENTS,
    JOB_SETS,
    PYTORCH_JOBS,
    STATEFUL_SETS,
    TEAM,
    TRAIN_JOBS,
    TRAINING_RUNTIMES,
    Enforced,
    holder,
)
from attack.test_quota import QUEUE, play
from cluster.job_kinds import STORIES as ON_A_CLUSTER
from kuota.api.base import Json, Key
from kuota.api.core import is_terminated
from kuota.bridge.jobs.registry import BUILT_IN
from kuota.kube.errors import Invalid
from kuota.kube.resources import (
    CLUSTER_QUEUES,
    JOBS,
    LOCAL_QUEUES,
    PODS,
    RESOURCE_FLAVORS,
    WORKLOAD_PRIORITY_CLASSES,
    WORKLOADS,
    Resource,
)
from kuota.up.unsupported_kinds import runs_here

JAX_JOBS = Resource("kubeflow.org", "v1", "jaxjobs", "JAXJob")
LINUX = {"kubernetes.io/os": "linux"}
PRIORITY = "kueue.x-k8s.io/priority-class"
GROUP, TOTAL = "kueue.x-k8s.io/pod-group-name", "kueue.x-k8s.io/pod-group-total-count"
APP = {"app": "story"}


def template(container: str = "main", restarts: str = "Never") -> Json:
    """A pod with one GPU that runs until it is told to end."""
    pod: Json = holder(grace_s=0)["spec"]["template"]
    pod["spec"]["containers"][0]["name"] = container
    return {"metadata": {"labels": APP}, "spec": pod["spec"] | {"restartPolicy": restarts}}


class Story(NamedTuple):
    """How a kind runs. `made` returns its objects; the first one is the job.

    A job that is not `resumed` by a controller is created again by its user. One that does not
    `finish` runs until it is deleted. `invalid` is a change of its spec, and the path of the fault.
    """

    kind: Resource
    made: Callable[[int], list[tuple[Resource, Json]]]
    invalid: tuple[Json, str]
    resumed: bool = True
    finishes: bool = True


def named(name: str, spec: Json, **meta: Any) -> Json:
    labels = {QUEUE: "story"} | meta.pop("labels", {})
    return {"metadata": {"name": name, "namespace": TEAM, "labels": labels, **meta}, "spec": spec}


def single(kind: Resource, spec: Json) -> Callable[[int], list[tuple[Resource, Json]]]:
    return lambda run: [(kind, named("story", spec))]


def training(kind: Resource, field: str, role: str, container: str) -> Story:
    replica = {"replicas": 1, "restartPolicy": "OnFailure", "template": template(container)}
    bad = {field: {role: replica | {"replicas": -1}}}
    path = f"spec.{field}[{role}].replicas"
    return Story(kind, single(kind, {field: {role: replica}}), (bad, path))


def _replicated(restarts: str) -> Json:
    return {
        "replicas": 1,
        "selector": {"matchLabels": APP},
        "template": template(restarts=restarts),
    }


def _pod(run: int) -> list[tuple[Resource, Json]]:
    made = template()
    return [(PODS, named(f"story-{run}", made["spec"], labels=APP))]


def _group(run: int) -> list[tuple[Resource, Json]]:
    labels, notes = APP | {GROUP: "story"}, {TOTAL: "2"}
    spec = template()["spec"]
    idle = {"name": "main", "image": "none", "command": spec["containers"][0]["command"]}
    specs = (spec, spec | {"containers": [idle]})
    return [
        (PODS, named(f"story-{run}-{at}", each, labels=labels, annotations=notes))
        for at, each in enumerate(specs)
    ]


def _train_job(run: int) -> list[tuple[Resource, Json]]:
    step = {"trainer.kubeflow.org/trainjob-ancestor-step": "trainer"}
    jobs = {"metadata": {"labels": step}, "spec": {"template": template("node")}}
    spec = {"template": {"spec": {"replicatedJobs": [{"name": "node", "template": jobs}]}}}
    runtime = {"metadata": {"name": "runtime", "namespace": TEAM}, "spec": spec}
    reference = {"kind": "TrainingRuntime", "name": "runtime"}
    return [
        (TRAIN_JOBS, named("story", {"runtimeRef": reference, "trainer": {"numNodes": 1}})),
        (TRAINING_RUNTIMES, runtime),
    ]


_JOB_SET = {"replicatedJobs": [{"name": "a", "template": {"spec": {"template": template()}}}]}
_TWICE = {"replicatedJobs": _JOB_SET["replicatedJobs"] * 2}
_ALWAYS = {"template": template(restarts="Always")}
STORIES = {
    "Job": Story(
        JOBS,
        single(JOBS, {"template": template()}),
        (_ALWAYS, "spec.template.spec.restartPolicy"),
    ),
    "JobSet": Story(JOB_SETS, single(JOB_SETS, _JOB_SET), (_TWICE, "spec.replicatedJobs[1]")),
    "PyTorchJob": training(PYTORCH_JOBS, "pytorchReplicaSpecs", "Master", "pytorch"),
    "JAXJob": training(JAX_JOBS, "jaxReplicaSpecs", "Worker", "jax"),
    "TrainJob": Story(
        TRAIN_JOBS, _train_job, ({"trainer": {"numNodes": -1}}, "spec.trainer.numNodes")
    ),
    "Pod": Story(PODS, _pod, ({"restartPolicy": "Maybe"}, "spec.restartPolicy"), resumed=False),
    "PodGroup": Story(
        PODS, _group, ({"restartPolicy": "Maybe"}, "spec.restartPolicy"), resumed=False
    ),
    "Deployment": Story(
        DEPLOYMENTS,
        single(DEPLOYMENTS, _replicated("Always")),
        ({"selector": {"matchLabels": {"app": "other"}}}, "spec.template.metadata.labels"),
        finishes=False,
    ),
    "StatefulSet": Story(
        STATEFUL_SETS,
        single(STATEFUL_SETS, _replicated("Always")),
        (_replicated("Never"), "spec.template.spec.restartPolicy"),
        finishes=False,
    ),
}
QUEUED_ONLY = {"LeaderWorkerSet": "tests/control/test_serving.py"}
"""Kinds with stories elsewhere, without an operator."""


def test_every_kind_has_a_story() -> None:
    for kind in BUILT_IN:
        name = kind.gvk.kind
        if runs_here(kind.group_kind):
            assert name in STORIES, f"add a story of {name} to this file"
        else:
            told = kind.framework in ON_A_CLUSTER or name in QUEUED_ONLY
            assert told, f"add a story of {name} to tests/cluster/job_kinds.py"


def live_pods(machine: Enforced) -> list[Json]:
    found = machine.store.list(PODS.name, TEAM).items
    mine = [each for each in found if each["metadata"]["labels"].get("app") == APP["app"]]
    return [each for each in mine if not is_terminated(each)]


def running(machine: Enforced) -> list[Json]:
    found = (each for each in live_pods(machine) if not each["metadata"].get("deletionTimestamp"))
    return [each for each in found if each["status"].get("phase") == "Running"]


def workloads(machine: Enforced) -> Iterable[Json]:
    """The Workloads of the story, without those of the Jobs that it competes with."""
    found = machine.store.list(WORKLOADS.name, TEAM).items
    others = ("job-first", "job-urgent", "job-next")
    return [each for each in found if not each["metadata"]["name"].startswith(others)]


def condition(workload: Json, kind: str) -> str:
    found = (workload.get("status") or {}).get("conditions") or ()
    return next((each["status"] for each in found if each["type"] == kind), "")


async def furnish(machine: Enforced) -> None:
    flavor = {"metadata": {"name": "linux"}, "spec": {"nodeLabels": LINUX}}
    quota = {"name": "nvidia.com/gpu", "nominalQuota": 1}
    group = {
        "coveredResources": ["nvidia.com/gpu"],
        "flavors": [{"name": "linux", "resources": [quota]}],
    }
    spec = {
        "namespaceSelector": {},
        "preemption": {"withinClusterQueue": "LowerPriority"},
        "resourceGroups": [group],
    }
    local = {"metadata": {"name": "story", "namespace": TEAM}, "spec": {"clusterQueue": "story"}}
    await machine.root.create(RESOURCE_FLAVORS, flavor)
    await machine.root.create(CLUSTER_QUEUES, {"metadata": {"name": "story"}, "spec": spec})
    await machine.root.create(LOCAL_QUEUES, local)
    urgent = {"metadata": {"name": "urgent"}, "value": 100}
    await machine.root.create(WORKLOAD_PRIORITY_CLASSES, urgent)


async def occupy(machine: Enforced, name: str) -> None:
    made = holder(name, queue="story", grace_s=0)
    made["metadata"]["labels"][PRIORITY] = "urgent"
    await machine.ann.create(JOBS, made)
    await machine.started(name)


def check_flavor(machine: Enforced) -> None:
    """Check that the pods with a GPU have the node labels of its flavor."""
    for pod in running(machine):
        if pod["spec"]["containers"][0]["resources"].get("limits"):
            assert LINUX.items() <= pod["spec"]["nodeSelector"].items()


async def leave(machine: Enforced, name: str) -> None:
    await machine.end(name)
    await machine.until(lambda: machine.status(name).get("succeeded"))


@pytest.mark.slow
@pytest.mark.parametrize("name", STORIES)
def test_a_job_waits_starts_is_preempted_restored_and_finishes(tmp_path: Path, name: str) -> None:
    story = STORIES[name]

    async def create(machine: Enforced, run: int) -> None:
        for kind, each in reversed(story.made(run)):
            await machine.ann.create(kind, each)

    async def play_it(machine: Enforced) -> None:
        await furnish(machine)
        await occupy(machine, "first")
        await create(machine, 1)
        await machine.until(lambda: list(workloads(machine)))
        await machine.settle()
        assert [] == running(machine)
        assert all("True" != condition(each, "QuotaReserved") for each in workloads(machine))

        size = 2 if name == "PodGroup" else 1
        await leave(machine, "first")
        await machine.until(lambda: len(running(machine)) == size)
        check_flavor(machine)
        before = {each["metadata"]["uid"] for each in running(machine)}
        await occupy(machine, "urgent")
        assert [] == running(machine)

        if not story.resumed:
            await create(machine, 2)
        await machine.settle()
        assert [] == running(machine)
        await leave(machine, "urgent")
        await machine.until(lambda: len(running(machine)) == size)
        assert before.isdisjoint(each["metadata"]["uid"] for each in running(machine))
        check_flavor(machine)

        if story.finishes:
            for pod in running(machine):
                machine.let_end(pod)
            await machine.until(
                lambda: any(condition(each, "Finished") == "True" for each in workloads(machine))
            )
        else:
            await machine.ann.delete(story.kind, Key(TEAM, "story"), propagation="Background")
        await occupy(machine, "next")

    play(tmp_path, play_it)


@pytest.mark.slow
@pytest.mark.parametrize("name", STORIES)
def test_invalid_input_is_rejected_with_its_path(tmp_path: Path, name: str) -> None:
    story = STORIES[name]

    async def play_it(machine: Enforced) -> None:
        kind, made = story.made(1)[0]
        change, path = story.invalid
        with pytest.raises(Invalid) as error:
            await machine.ann.create(kind, made | {"spec": made["spec"] | change})
        assert path in str(error.value)
        bad = made | {"metadata": made["metadata"] | {"labels": APP | {QUEUE: "Not A Name"}}}
        with pytest.raises(Invalid) as error:
            await machine.ann.create(kind, bad)
        assert "queue-name" in str(error.value)

    play(tmp_path, play_it)
