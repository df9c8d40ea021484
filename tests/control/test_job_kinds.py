# SPDX-License-Identifier: Apache-2.0
"""One story for each job kind: queued, admitted, preempted and restored, finished."""

from __future__ import annotations

from typing import Any, NamedTuple

import pytest

from bridge.jobs.kinds import BY_NAME, EXAMPLES, RUNTIME, template
from control.objects import flavor, job, local_queue, queue, workload_class
from control.stage import Stage, run_scene
from kuota.api.base import Json, Key, LabelSelector
from kuota.api.faults import Invalid
from kuota.bridge.jobs.ancestor import GroupKind, owners_of
from kuota.bridge.jobs.fields import put
from kuota.bridge.jobs.job_webhook import reviewed
from kuota.bridge.jobs.kind import JobKind
from kuota.bridge.lifecycle_view import LifecycleConfig
from kuota.kube.resources import Resource

TOPOLOGY = "kueue.x-k8s.io/podset-required-topology"
CLASS = "kueue.x-k8s.io/priority-class"
POOL = {"pool": "gold"}
RUNTIMES = Resource(
    "trainer.kubeflow.org",
    "v1alpha1",
    "clustertrainingruntimes",
    "ClusterTrainingRuntime",
    namespaced=False,
)


class Story(NamedTuple):
    """What is particular to a kind: its pods, its statuses, and a change that is invalid.

    Without a status `finished`, it runs until it is deleted.
    """

    pods: dict[str, int]
    running: Json
    stopped: Json
    finished: Json | None
    invalid: tuple[tuple[str | int, ...], object, str]


def _condition(kind: str) -> Json:
    return {"conditions": [{"type": kind, "status": "True", "message": "done"}]}


def _training(field: str, first: str, **pods: int) -> Story:
    bad = ("spec", field, first, "template", "metadata", "annotations"), {TOPOLOGY: "no level!"}
    return Story(
        pods={name.lower(): count for name, count in pods.items()},
        running={"replicaStatuses": {first: {"active": 1}}},
        stopped={"replicaStatuses": {first: {"active": 0}}},
        finished=_condition("Succeeded"),
        invalid=(*bad, f"spec.{field}[{first}].template.metadata.annotations[{TOPOLOGY}]"),
    )


STORIES = {
    "JobSet": Story(
        pods={"leader": 1, "workers": 6},
        running={"replicatedJobsStatus": [{"name": "leader", "active": 1}]},
        stopped={"replicatedJobsStatus": [{"name": "leader", "active": 0}]},
        finished=_condition("Completed"),
        invalid=(
            ("spec", "replicatedJobs", 0, "template", "spec", "template", "metadata"),
            {"annotations": {"kueue.x-k8s.io/podset-group-name": "g", TOPOLOGY: "rack"}},
            "spec.replicatedJobs[0].template.spec.template.metadata.annotations"
            "[kueue.x-k8s.io/podset-group-name]",
        ),
    ),
    "PyTorchJob": _training("pytorchReplicaSpecs", "Master", Master=1, Worker=3),
    "TFJob": _training("tfReplicaSpecs", "Chief", Chief=1, PS=2, Worker=3),
    "XGBoostJob": _training("xgbReplicaSpecs", "Master", Master=1, Worker=3),
    "PaddleJob": _training("paddleReplicaSpecs", "Master", Master=1, Worker=3),
    "JAXJob": _training("jaxReplicaSpecs", "Worker", Worker=3),
    "MPIJob": _training("mpiReplicaSpecs", "Launcher", Launcher=1, Worker=3),
    "TrainJob": Story(
        pods={"node": 4},
        running={"jobsStatus": [{"name": "node", "active": 4}]},
        stopped={"jobsStatus": [{"name": "node", "active": 0}]},
        finished=_condition("Complete"),
        invalid=(("spec", "runtimeRef", "name"), "missing", "spec.runtimeRef"),
    ),
    "RayCluster": Story(
        pods={"head": 1, "workers": 3},
        running={"state": "ready"},
        stopped={"state": "suspended"},
        finished=None,
        invalid=(("spec", "enableInTreeAutoscaling"), True, "spec.enableInTreeAutoscaling"),
    ),
    "RayJob": Story(
        pods={"head": 1, "workers": 3},
        running={"jobDeploymentStatus": "Running"},
        stopped={"jobDeploymentStatus": "Suspended"},
        finished={"jobDeploymentStatus": "Complete", "jobStatus": "SUCCEEDED"},
        invalid=(("spec", "shutdownAfterJobFinishes"), False, "spec.shutdownAfterJobFinishes"),
    ),
    "RayService": Story(
        pods={"head": 1, "workers": 3},
        running=_condition("Ready"),
        stopped={"conditions": []},
        finished=None,
        invalid=(
            ("spec", "rayClusterConfig", "workerGroupSpecs", 0, "groupName"),
            "head",
            "spec.rayClusterSpec.workerGroupSpecs[0].groupName",
        ),
    ),
    "AppWrapper": Story(
        pods={"j-0": 2, "j-1": 3},
        running=_condition("QuotaReserved"),
        stopped={"conditions": []},
        finished={"phase": "Succeeded"},
        invalid=(
            ("metadata", "labels", "kueue.x-k8s.io/max-exec-time-seconds"),
            "soon",
            "metadata.labels[kueue.x-k8s.io/max-exec-time-seconds]",
        ),
    ),
    "SparkApplication": Story(
        pods={"driver": 1, "executor": 3},
        running={"applicationState": {"state": "RUNNING"}},
        stopped={"applicationState": {"state": "SUSPENDED"}},
        finished={"applicationState": {"state": "COMPLETED"}},
        invalid=(("spec", "mode"), "client", "spec.mode"),
    ),
}


def submitted(kind: JobKind, obj: Json, around: tuple[Json, ...] = (RUNTIME,)) -> Json:
    """The job as the webhooks let it in, in the namespace of the stage."""
    held = {
        (("trainer.kubeflow.org", e["kind"]), Key("", e["metadata"]["name"])): e for e in around
    }
    space = (("", "Namespace"), Key("", "team"))
    held[space] = {"metadata": {"name": "team", "labels": {}}}
    config = LifecycleConfig(namespaces=LabelSelector(), owners=owners_of([kind.framework]))

    def look_up(at: GroupKind, key: Key) -> Json | None:
        return held.get((at, key))

    return reviewed(kind, obj, None, look_up, config)


def example(name: str) -> Json:
    """A job of this kind that its author did not suspend."""
    found = put(EXAMPLES[name], ("metadata", "namespace"), "team")
    spec = {key: value for key, value in found["spec"].items() if key != "suspend"}
    spec = {key: {} if key == "runPolicy" else value for key, value in spec.items()}
    meta = {key: value for key, value in found["metadata"].items() if key != "uid"}
    meta["labels"] = meta["labels"] | {CLASS: "low"}
    named = {"apiVersion": found["apiVersion"], "kind": found["kind"]}
    return named | {"metadata": meta, "spec": spec}


def occurrences(value: Any, wanted: Json) -> int:
    """How often an object occurs in JSON."""
    if isinstance(value, dict):
        return (value == wanted) + sum(occurrences(each, wanted) for each in value.values())
    return sum(occurrences(each, wanted) for each in value) if isinstance(value, list) else 0


def without_empty(value: Any) -> Any:
    """JSON without empty objects and lists, which make no difference."""
    if isinstance(value, dict):
        inside = {key: without_empty(each) for key, each in value.items()}
        return {key: each for key, each in inside.items() if each not in ({}, [], None)}
    return [without_empty(each) for each in value] if isinstance(value, list) else value


def stage_for(kind: JobKind) -> tuple[Json, dict[str, bool]]:
    """The configuration and the gates under which the integration of a kind is enabled."""
    frameworks = sorted({"batch/job", kind.framework})
    gates = {"SparkApplicationIntegration": True}
    return {"integrations": {"frameworks": frameworks}, "featureGates": gates}, gates


@pytest.mark.parametrize("name", STORIES)
def test_a_job_is_queued_admitted_preempted_restored_and_finished(name: str) -> None:
    kind, story = BY_NAME[name], STORIES[name]
    resource = Resource.of(kind.gvk, kind.plural)

    async def scene(stage: Stage) -> None:
        await stage.api.create(RUNTIMES, RUNTIME)
        preemption = {"withinClusterQueue": "LowerPriority"}
        await stage.api.apply(
            flavor(nodeLabels=POOL), queue("cq", 40, preemption=preemption), local_queue()
        )
        await stage.api.apply(workload_class("low", 1), workload_class("high", 100))
        new = submitted(kind, example(name))
        assert kind.suspended(new)

        await stage.api.create(resource, new)
        await stage.rest()
        sets = stage.workload("j")["spec"]["podSets"]
        assert story.pods == {each["name"]: each["count"] for each in sets}
        running = stage.get(resource, "j")
        assert not kind.suspended(running)
        assert len(sets) == occurrences(running["spec"], POOL)
        assert "True/Admitted" == stage.says("j", "Admitted")

        await stage.status(resource, "j", story.running)
        await stage.rest()
        await stage.api.apply(job("urgent", "40", labels={CLASS: "high"}))
        await stage.rest()
        assert kind.suspended(stage.get(resource, "j"))
        assert "False/NoReservation" == stage.says("urgent", "Admitted"), "pods of j still run"
        await stage.status(resource, "j", story.stopped)
        await stage.rest()
        assert "True/Admitted" == stage.says("urgent", "Admitted")
        restored = stage.get(resource, "j")["spec"]
        assert 0 == occurrences(restored, POOL)
        assert without_empty(new["spec"]) == without_empty(_declared(name, restored))

        await stage.kubelet.succeed("urgent")
        await stage.rest(120)
        assert not kind.suspended(stage.get(resource, "j"))
        await _ended(stage, resource, story.finished)

    config, gates = stage_for(kind)
    run_scene(scene, config=config, gates=gates)


async def _ended(stage: Stage, resource: Resource, finished: Json | None) -> None:
    """Let the job finish, or delete it."""
    if finished is None:
        await stage.api.delete(resource, Key("team", "j"))
        await stage.rest()
        assert [] == stage.workloads("j")
        return
    await stage.status(resource, "j", finished)
    await stage.rest()
    assert "True/Succeeded" == stage.says("j", "Finished")


def _declared(name: str, spec: Json) -> Json:
    """The spec as its author wrote it. A SparkApplication keeps empty pod templates."""
    if name != "SparkApplication":
        return spec
    roles = {
        role: {k: v for k, v in spec[role].items() if k != "template"}
        for role in STORIES[name].pods
    }
    return spec | roles


@pytest.mark.parametrize("name", STORIES)
def test_an_invalid_job_is_rejected_with_the_path_of_the_fault(name: str) -> None:
    path, value, field = STORIES[name].invalid
    with pytest.raises(Invalid) as raised:
        submitted(BY_NAME[name], put(example(name), path, value))
    assert field in {each.path for each in raised.value.errors}


def test_a_train_job_waits_for_its_runtime_and_follows_it() -> None:
    kind = BY_NAME["TrainJob"]
    resource = Resource.of(kind.gvk, kind.plural)

    async def scene(stage: Stage) -> None:
        await stage.furnish(1)
        await stage.api.apply(workload_class("low", 1))
        await stage.api.create(resource, submitted(kind, example("TrainJob")))
        await stage.rest()
        assert [] == stage.workloads("j")
        await stage.api.create(RUNTIMES, RUNTIME)
        await stage.rest(0.5)
        assert 4 == stage.workload("j")["spec"]["podSets"][0]["count"]
        path = ("spec", "template", "spec", "replicatedJobs", 0, "template", "spec", "template")
        bigger = put(RUNTIME, (*path, "spec", "containers", 0, "image"), "torch:2")
        await stage.edit(RUNTIMES, "torch", {"spec": bigger["spec"]})
        await stage.rest(0.5)
        pod = stage.workload("j")["spec"]["podSets"][0]["template"]["spec"]
        assert "torch:2" == pod["containers"][0]["image"]

    config, gates = stage_for(kind)
    run_scene(scene, config=config, gates=gates)


def test_a_train_job_without_its_runtime_can_still_be_preempted() -> None:
    kind = BY_NAME["TrainJob"]
    resource = Resource.of(kind.gvk, kind.plural)

    async def scene(stage: Stage) -> None:
        await stage.api.create(RUNTIMES, RUNTIME)
        preemption = {"withinClusterQueue": "LowerPriority"}
        await stage.api.apply(flavor(), queue("cq", 8, preemption=preemption), local_queue())
        await stage.api.apply(workload_class("low", 1), workload_class("high", 100))
        await stage.api.create(resource, submitted(kind, example("TrainJob")))
        await stage.rest()
        assert not kind.suspended(stage.get(resource, "j"))
        await stage.api.delete(RUNTIMES, Key("", "torch"))
        await stage.api.apply(job("urgent", "8", labels={CLASS: "high"}))
        await stage.rest()
        assert kind.suspended(stage.get(resource, "j"))
        assert "True/Admitted" == stage.says("urgent", "Admitted")

    config, gates = stage_for(kind)
    run_scene(scene, config=config, gates=gates)


def test_the_jobs_of_a_job_set_run_with_its_quota() -> None:
    kind = BY_NAME["JobSet"]
    resource = Resource.of(kind.gvk, kind.plural)

    async def scene(stage: Stage) -> None:
        await stage.furnish(2)
        await stage.api.apply(workload_class("low", 1))
        await stage.api.create(resource, submitted(kind, example("JobSet")))
        await stage.rest()
        owner = stage.get(resource, "j")
        await stage.api.apply(_owned_by(owner, "j-leader-0"))
        await stage.rest()
        assert [] == stage.workloads("j-leader-0")
        assert stage.suspended("j-leader-0"), "its JobSet waits for quota"

    config, gates = stage_for(kind)
    run_scene(scene, config=config, gates=gates)


def _owned_by(owner: Json, name: str, queue_name: str = "") -> Json:
    """A running Job that this object controls."""
    made = job(name, queue=queue_name, suspend=False, template=template())
    reference = {key: owner[key] for key in ("apiVersion", "kind")} | {"controller": True}
    reference |= {key: owner["metadata"][key] for key in ("name", "uid")}
    made["metadata"]["ownerReferences"] = [reference]
    return made


MINI_CLUSTERS = Resource("flux-framework.org", "v1alpha2", "miniclusters", "MiniCluster")
MINI_CLUSTER = {
    "apiVersion": "flux-framework.org/v1alpha2",
    "kind": "MiniCluster",
    "metadata": {
        "name": "flux",
        "namespace": "team",
        "labels": {"kueue.x-k8s.io/queue-name": "main"},
    },
    "spec": {"size": 2},
}


def test_the_job_of_a_mini_cluster_is_queued_by_itself() -> None:
    """Flux copies the queue name to the Job that it creates."""

    async def scene(stage: Stage) -> None:
        await stage.furnish(2)
        owner = await stage.api.create(MINI_CLUSTERS, MINI_CLUSTER)
        await stage.api.apply(_owned_by(owner, "flux", "main"))
        await stage.rest()
        assert "True/Admitted" == stage.says("flux", "Admitted")

    run_scene(scene)


def test_the_job_of_a_mini_cluster_that_others_queue_waits_for_the_mini_cluster() -> None:
    async def scene(stage: Stage) -> None:
        await stage.furnish(2)
        owner = await stage.api.create(MINI_CLUSTERS, MINI_CLUSTER)
        await stage.api.apply(_owned_by(owner, "flux-job"))
        await stage.rest()
        assert [] == stage.workloads("flux-job")
        assert stage.suspended("flux-job")

    external = {"externalFrameworks": ["MiniCluster.v1alpha2.flux-framework.org"]}
    run_scene(scene, config={"integrations": {"frameworks": ["batch/job"]} | external})
