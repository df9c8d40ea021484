# SPDX-License-Identifier: Apache-2.0
"""How a TrainJob is rendered from its runtime, started and stopped."""

from __future__ import annotations

import pytest

from bridge.jobs.kinds import EXAMPLES, RUNTIME, replicated
from kuota.api.base import Json, Key
from kuota.api.gates import Gates
from kuota.api.podset import Injection
from kuota.bridge.draft import StoredWorkload
from kuota.bridge.effects import Patch
from kuota.bridge.job_pass.match import matching
from kuota.bridge.job_pass.workload import workload
from kuota.bridge.jobs.ancestor import GroupKind
from kuota.bridge.jobs.fields import at, put
from kuota.bridge.jobs.kind import PodSetsUnknown
from kuota.bridge.jobs.train_job import TrainJob

KIND = TrainJob()
GATES = Gates()
STEP = ("metadata", "labels", "trainer.kubeflow.org/trainjob-ancestor-step")
JOBS = ("spec", "template", "spec", "replicatedJobs")
TRAINER = (*JOBS, 0, "template", "spec", "template", "spec", "containers", 0)
OURS = ("spec", "runtimePatches", 0, "trainingRuntimeSpec", "template", "spec", "replicatedJobs")
GOLD = Injection(name="node", count=4, node_selector={"pool": "gold"})


def resolved(job: Json | None = None, runtime: Json | None = RUNTIME) -> Json:
    return KIND.resolved(job or EXAMPLES["TrainJob"], lambda kind, key: runtime)


def node(job: Json | None = None, runtime: Json = RUNTIME) -> Json:
    """The pod set of the trainer."""
    return next(e for e in KIND.pod_sets(resolved(job, runtime), GATES) if e["name"] == "node")


def patched(**spec: object) -> Json:
    """The TrainJob with a patch by its author of the pods that train."""
    jobs = [{"name": "node", "template": {"spec": {"template": {"spec": spec}}}}]
    patch = {
        "manager": "me",
        "trainingRuntimeSpec": {"template": {"spec": {"replicatedJobs": jobs}}},
    }
    ours = EXAMPLES["TrainJob"]["spec"]["runtimePatches"]
    return put(EXAMPLES["TrainJob"], ("spec", "runtimePatches"), [patch, *ours])


def test_the_number_of_nodes_is_that_of_the_job_or_of_the_runtime() -> None:
    assert 4 == node()["count"]
    assert 2 == node(put(EXAMPLES["TrainJob"], ("spec", "trainer"), {}))["count"]
    bare = put(RUNTIME, ("spec", "mlPolicy"), None)
    assert 1 == node(put(EXAMPLES["TrainJob"], ("spec", "trainer"), {}), bare)["count"]


def test_resources_of_the_job_are_added_to_those_of_the_runtime() -> None:
    limited = put(RUNTIME, (*TRAINER, "resources"), {"requests": {"cpu": "1", "memory": "1Gi"}})
    container = node(runtime=limited)["template"]["spec"]["containers"][0]
    assert {"cpu": "2", "memory": "1Gi"} == container["resources"]["requests"]


def test_the_container_that_trains_runs_the_image_of_the_job() -> None:
    job = put(EXAMPLES["TrainJob"], ("spec", "trainer", "image"), "mine")
    job = put(job, ("spec", "trainer", "env"), [{"name": "A", "value": "1"}])
    container = node(job)["template"]["spec"]["containers"][0]
    assert ("mine", {"name": "A", "value": "1"}) == (container["image"], container["env"][0])
    variables = {each["name"]: each.get("value") for each in container["env"][1:]}
    assert ("4", "j-node-0-0.j") == (variables["PET_NNODES"], variables["PET_MASTER_ADDR"])
    assert [{"containerPort": 29500}] == container["ports"]


def test_steps_of_the_trainer_have_one_replica_and_others_those_of_the_runtime() -> None:
    first = put(RUNTIME["spec"]["template"]["spec"]["replicatedJobs"][0], ("replicas",), 5)
    listed = [first, replicated("cache", 2, replicas=3)]
    sets = KIND.pod_sets(resolved(runtime=put(RUNTIME, JOBS, listed)), GATES)
    assert [("node", 4), ("cache", 6)] == [(each["name"], each["count"]) for each in sets]


def test_a_launcher_of_mpi_that_trains_is_one_of_the_nodes() -> None:
    launcher = replicated("launcher", 1)
    launcher = launcher | {"template": put(launcher["template"], STEP, "trainer")}
    container = {"name": "node", "image": "mpi"}
    worker = put(
        replicated("node", 1), ("template", "spec", "template", "spec", "containers"), [container]
    )
    runtime = put(put(RUNTIME, JOBS, [launcher, worker]), ("spec", "mlPolicy"), {"numNodes": 1})
    runtime = put(runtime, ("spec", "mlPolicy", "mpi"), {"runLauncherAsNode": True})
    sets = KIND.pod_sets(resolved(runtime=runtime), GATES)
    assert [("launcher", 1), ("node", 3)] == [(each["name"], each["count"]) for each in sets]
    workers = sets[1]["template"]["spec"]["containers"][0]
    assert {"cpu": "2"} == workers["resources"]["requests"]


def test_patches_merge_lists_by_name_and_replace_others() -> None:
    runtime = put(RUNTIME, (*TRAINER, "env"), [{"name": "A", "value": "1"}])
    spec = (*TRAINER[:-2], "tolerations")
    runtime = put(runtime, spec, [{"key": "old", "operator": "Exists"}])
    job = patched(
        containers=[{"name": "node", "env": [{"name": "A", "value": "2"}, {"name": "B"}]}],
        tolerations=[{"key": "new", "operator": "Exists"}],
        nodeSelector={"zone": "a"},
    )
    pod = node(job, runtime)["template"]["spec"]
    assert [{"name": "A", "value": "2"}, {"name": "B"}] == pod["containers"][0]["env"][:2]
    assert "torch" == pod["containers"][0]["image"]
    assert ["new"] == [each["key"] for each in pod["tolerations"]]
    assert {"zone": "a"} == pod["nodeSelector"]


def test_a_runtime_is_looked_up_by_its_kind() -> None:
    asked: list[tuple[GroupKind, Key]] = []

    def look_up(kind: GroupKind, key: Key) -> Json | None:
        asked.append((kind, key))
        return None

    group = "trainer.kubeflow.org"
    KIND.resolved(EXAMPLES["TrainJob"], look_up)
    ref = {"kind": "TrainingRuntime", "name": "own"}
    KIND.resolved(put(EXAMPLES["TrainJob"], ("spec", "runtimeRef"), ref), look_up)
    other = {"kind": "Secret", "apiGroup": "", "name": "own"}
    KIND.resolved(put(EXAMPLES["TrainJob"], ("spec", "runtimeRef"), other), look_up)
    assert [
        ((group, "ClusterTrainingRuntime"), Key("", "torch")),
        ((group, "TrainingRuntime"), Key("ml", "own")),
    ] == asked


def test_without_its_runtime_the_pod_sets_are_unknown_and_the_job_can_be_stopped() -> None:
    lost = put(resolved(runtime=None), ("spec", "suspend"), False)
    with pytest.raises(PodSetsUnknown, match="torch"):
        KIND.pod_sets(lost, GATES)
    assert not KIND.pods_ready(lost)
    assert [] == KIND.reclaimable(lost, exact=False)
    assert KIND.stop(lost, None).begins
    faults = list(KIND.own_faults(lost, None, GATES, managed=True))
    assert ["spec.runtimeRef"] == [each.path for each in faults]


def test_a_job_starts_with_two_writes_that_leave_its_runtime_out() -> None:
    first, second = KIND.start(resolved(), [GOLD], GATES)
    assert isinstance(first, Patch)
    assert isinstance(second, Patch)
    spec = ("template", "spec", "template", "spec")
    assert {"pool": "gold"} == at(first.body, (*OURS, 0, *spec, "nodeSelector"))
    assert "suspend" not in first.body["spec"]
    assert {"spec": {"suspend": False}} == second.body
    assert "runtime" not in first.body


def test_a_job_without_our_patch_does_not_start() -> None:
    with pytest.raises(PodSetsUnknown, match="runtimePatches"):
        KIND.start(
            resolved(put(EXAMPLES["TrainJob"], ("spec", "runtimePatches"), [])), [GOLD], GATES
        )


def test_the_admission_stays_until_the_pods_are_gone() -> None:
    running = put(put(resolved(), ("spec", "suspend"), False), OURS, [{"name": "node"}])
    busy = put(running, ("status", "jobsStatus"), [{"name": "node", "active": 1}])
    stop = KIND.stop(busy, [])
    assert (True, False, 1) == (stop.begins, stop.complete, len(stop.effects))
    suspended = KIND.suspend(busy)
    assert not KIND.stop(suspended, []).effects
    idle = put(suspended, ("status", "jobsStatus"), [])
    (cleared,) = KIND.stop(idle, []).effects
    assert isinstance(cleared, Patch)
    assert at(cleared.body, OURS) is None
    assert KIND.stop(put(idle, OURS, None), []).effects == ()


def test_the_last_admission_of_a_suspended_job_does_not_change_its_pod_sets() -> None:
    leftover = [
        {"name": "node", "template": {"spec": {"template": {"spec": {"tolerations": [1]}}}}}
    ]
    assert node() == node(put(EXAMPLES["TrainJob"], OURS, leftover))
    running = put(put(EXAMPLES["TrainJob"], OURS, leftover), ("spec", "suspend"), False)
    assert node() != node(running)


def test_the_workload_of_an_earlier_version_still_matches() -> None:
    """It has neither variables nor port of the framework. A job that runs is not stopped for it."""
    torch = put(RUNTIME, ("spec", "mlPolicy"), {"numNodes": 2, "torch": {}})
    job = resolved(put(EXAMPLES["TrainJob"], ("spec", "suspend"), True), torch)
    for pod_sets, expected in (
        (KIND.pod_sets(job, GATES), True),
        (KIND.earlier_pod_sets(job, GATES), True),
        ([each | {"count": 7} for each in KIND.earlier_pod_sets(job, GATES)], False),
    ):
        made = workload(KIND, job, gates=GATES)
        stored = StoredWorkload.of(made | {"spec": made["spec"] | {"podSets": pod_sets}})
        assert expected == matching(stored, KIND, job, {}, GATES)
    assert KIND.pod_sets(job, GATES) != KIND.earlier_pod_sets(job, GATES)


def test_a_variable_whose_name_is_malformed_is_kept() -> None:
    malformed: Json = {"name": []}
    job = put(EXAMPLES["TrainJob"], ("spec", "trainer", "env"), [malformed])
    assert malformed in node(job)["template"]["spec"]["containers"][0]["env"]


@pytest.mark.parametrize(
    ("restarts", "exact", "released"), [(0, True, 4), (3, True, 0), (3, False, 4)]
)
def test_pods_that_a_restart_may_repeat_are_not_released(
    restarts: int, exact: bool, released: int
) -> None:
    policy = ("spec", "template", "spec", "failurePolicy")
    runtime = put(RUNTIME, policy, {"maxRestarts": restarts})
    status = {"jobsStatus": [{"name": "node", "succeeded": 1}]}
    job = resolved(EXAMPLES["TrainJob"] | {"status": status}, runtime)
    assert released == sum(each.count for each in KIND.reclaimable(job, exact=exact))
