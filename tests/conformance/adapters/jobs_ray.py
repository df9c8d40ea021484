# SPDX-License-Identifier: Apache-2.0
"""Suites of Kueue's integrations of KubeRay: RayCluster, RayJob and RayService."""

from __future__ import annotations

from conformance.case import Json, Run, check, refused, same
from conformance.job_kinds import (
    RECONCILER_IGNORES,
    defaulted,
    faults,
    injections,
    normal,
    pod_sets_of,
    reconciled,
)
from conformance.recorder import whole
from conformance.registry import Exercise, suite
from conformance.world import gates_of
from kuota.api.base import Key
from kuota.api.podset import MergeConflict
from kuota.api.rules.workload_status import pod_set_counts
from kuota.bridge.jobs.ancestor import GroupKind
from kuota.bridge.jobs.fields import put
from kuota.bridge.jobs.kind import PodSetsUnknown
from kuota.bridge.jobs.ray_autoscaled import Autoscaled
from kuota.bridge.jobs.ray_cluster import RayCluster
from kuota.bridge.jobs.ray_faults import cluster_faults
from kuota.bridge.jobs.ray_job import RayJob
from kuota.bridge.jobs.ray_service import RayService
from kuota.bridge.jobs.ray_spec import RayKind

from .webhooks import agree

CLUSTER, JOB, SERVICE = RayCluster(), RayJob(), RayService()


def _kind(run: Run) -> RayKind:
    kinds = {each.gvk.kind.lower(): each for each in (CLUSTER, JOB, SERVICE)}
    return kinds[run.suite.removeprefix("jobs/").partition("-")[0]]


@suite("jobs/raycluster-TestBuildPodSets")
def built(run: Run) -> None:
    meta = {"annotations": whole(run.inputs.get("annotations"))}
    cluster = {"metadata": meta, "spec": whole(run.inputs["rayClusterSpec"])}
    try:
        found, error = CLUSTER.pod_sets(cluster, gates_of(run)), None
    except PodSetsUnknown as unknown:
        found, error = [], unknown
    check(run.expected["wantErr"] == (error is not None), f"got {error}")
    same(run.expected["wantPodSets"] or [], found)


@suite("jobs/raycluster-TestPodSets")
def cluster_pod_sets(run: Run) -> None:
    same(run.expected["wantPodSets"], CLUSTER.pod_sets(_typed(run, "rayCluster"), gates_of(run)))


@suite("jobs/rayjob-TestPodSets")
def job_pod_sets(run: Run) -> None:
    same(run.expected["wantPodSets"], JOB.pod_sets(_typed(run, "rayJob"), gates_of(run)))


@suite("jobs/rayservice-TestPodSets")
def service_pod_sets(run: Run) -> None:
    service = _resolved(SERVICE, _typed(run, "rayService"), whole(run.inputs.get("rayCluster")))
    same(run.expected["wantPodSets"], SERVICE.pod_sets(service, gates_of(run)))


def _typed(run: Run, name: str) -> Json:
    return normal(run.inputs[name])


def _resolved(kind: Autoscaled, job: Json, cluster: Json | None) -> Json:
    def look_up(group_kind: GroupKind, key: Key) -> Json | None:
        return cluster

    return kind.resolved(job, look_up)


@suite(
    "jobs/raycluster-TestUpdatePodSets",
    ignores={
        "inputs.object.spec": "the test calls with pod sets of its own instead",
        "inputs.object.status": "the test calls with pod sets of its own instead",
        "inputs.podSets.*.template": "the templates are those of the job here",
        "expected.wantPodSets.*.template": "the templates are those of the job here",
    },
)
def scaled(run: Run) -> None:
    """A RayJob with the pod sets, whose RayCluster is the one that the test stores."""
    sets, name = whole(run.inputs["podSets"]), whole(run.inputs["rayClusterName"])
    stored = whole(run.inputs.get("rayClusterInClient"))
    groups = [{"groupName": each["name"], "replicas": each["count"]} for each in sets[1:]]
    spec = {
        "headGroupSpec": {},
        "workerGroupSpecs": groups,
        "enableInTreeAutoscaling": whole(run.inputs.get("enableInTreeAutoscaling")),
    }
    obj = whole(run.inputs["object"])
    job = obj | {"spec": {"rayClusterSpec": spec}, "status": {"rayClusterName": name}}
    # Without an object of its own, the test stores the one that it updates.
    gates, found = (
        gates_of(run),
        stored if name == (stored or {}).get("metadata", {}).get("name") else None,
    )
    try:
        after, error = JOB.pod_sets(_resolved(JOB, job, found), gates), None
    except PodSetsUnknown as unknown:
        after, error = [], unknown
    check(run.expected["wantErr"] == (error is not None), f"got {error}")
    want = [(each["name"], each["count"]) for each in whole(run.expected["wantPodSets"]) or ()]
    same(want, [(each["name"], each["count"]) for each in after])


@suite(
    "jobs/raycluster-TestGetWorkloadslicingCustomAnnotations",
    ignores={
        "inputs.podSets": "no longer read by the function under test",
        "inputs.registerRayType": "whether the Go client knows the type",
    },
)
def generation(run: Run) -> None:
    meta = {"annotations": whole(run.inputs["annotations"]), "namespace": "ns", "name": "job"}
    name = whole(run.inputs["rayClusterName"])
    job: Json = {"metadata": meta, "status": {"rayClusterName": name}}
    exists = whole(run.inputs["createRayCluster"])
    cluster = {"metadata": {"name": name}} if exists else None
    if whole(run.inputs["standalone"]):
        found = {}  # A RayCluster records nothing about itself.
    else:
        found = JOB.recorded(_resolved(JOB, job, cluster), gates_of(run))
    check(not run.expected["wantErr"], "this never fails")
    same(run.expected["wantAnnotation"] or {}, found)


@suite("jobs/rayjob-TestGetCustomAnnotations")
def job_generation(run: Run) -> None:
    job, cluster = _typed(run, "rayJob"), _typed(run, "rayCluster")
    job = put(job, ("status", "rayClusterName"), cluster["metadata"]["name"])
    resolved, gates = _resolved(JOB, job, cluster), gates_of(run)
    same(run.expected["wantCustomAnnotation"], JOB.recorded(resolved, gates))
    same(run.expected["wantGroupCount"], JOB.pod_sets(resolved, gates)[1]["count"])


@suite("jobs/raycluster-TestComparePodSetCounts")
def counts_differ(run: Run) -> None:
    found = pod_set_counts({"spec": {"podSets": whole(run.inputs["podSets"])}})
    same(run.expected["wantChanged"], found != (whole(run.inputs.get("referenceCounts")) or {}))


@suite("jobs/raycluster-TestRestorePodSetsInfo")
def restored(run: Run) -> None:
    cluster = {"spec": whole(run.inputs["rayClusterSpec"])}
    found = CLUSTER.restored(cluster, pod_sets_of(run.inputs["podSetsInfo"]))
    check((found != cluster) == run.expected["wantChanged"], f"changed: {found != cluster}")
    same(run.expected["wantSpec"], found["spec"])


@suite("jobs/rayjob-TestRestorePodSetsInfo")
def job_restored(run: Run) -> None:
    job = _typed(run, "job")
    found = JOB.restored(job, pod_sets_of(run.inputs["podSetsInfo"]))
    check((found != job) == run.expected["wantChanged"], f"changed: {found != job}")


@suite("jobs/raycluster-TestUpdateRayClusterSpecToRunWithPodSetsInfo")
def started(run: Run) -> None:
    cluster, error = {"spec": whole(run.inputs["rayClusterSpec"])}, None
    try:
        found = CLUSTER.started(cluster, injections(run.inputs["podSetsInfo"]), gates_of(run))
    except MergeConflict as conflict:
        found, error = cluster, conflict
    check(run.expected["wantErr"] == (error is not None), f"got {error}")
    wanted = whole(run.expected["wantSpec"])
    if error is None:
        # The recorded function does not unsuspend the cluster; its caller does.
        same(wanted | {"suspend": False}, found["spec"])


@suite("jobs/rayjob-TestNodeSelectors")
def selectors(run: Run) -> None:
    job, error = _typed(run, "job"), None
    try:
        running = JOB.started(job, injections(run.inputs["runInfo"]), gates_of(run))
    except MergeConflict as conflict:
        running, error = job, conflict
    refused(run.expected.get("wantRunError"), error)
    same(run.expected["wantAfterRun"], running)
    if run.expected["wantFinal"] is not None:
        back = JOB.restored(JOB.suspend(running), pod_sets_of(run.inputs["restoreInfo"]))
        same(run.expected["wantFinal"], back)


@suite("jobs/rayjob-Test_RayJobFinished")
def ended(run: Run) -> None:
    over = JOB.end({"status": whole(run.inputs["status"])})
    same(run.expected["expectedFinished"], over is not None)
    if over is not None:
        same(run.expected["expectedSuccess"], over.success)
    else:
        check(not run.expected["expectedSuccess"], "a job that runs has not succeeded")


@suite("jobs/rayjob-Test_RayJobIsOnHold")
def held(run: Run) -> None:
    status = {"jobDeploymentStatus": whole(run.inputs["jobDeploymentStatus"])}
    same(run.expected["expectedOnHold"], bool(JOB.on_hold({"status": status})))


@suite("jobs/rayservice-TestIsActive")
def active(run: Run) -> None:
    same(run.expected["want"], SERVICE.active(_typed(run, "rayService")))


@suite("jobs/rayservice-TestPodsReady")
def ready(run: Run) -> None:
    same(run.expected["want"], SERVICE.pods_ready(_typed(run, "rayService")))


@suite("jobs/rayservice-TestIsSuspended")
def suspended(run: Run) -> None:
    same(run.expected["want"], SERVICE.suspended(_typed(run, "rayService")))


@suite("jobs/raycluster-TestReconciler", exercises=Exercise.PATH, ignores=RECONCILER_IGNORES)
def passes(run: Run) -> None:
    reconciled(run, CLUSTER, _typed(run, "job"))


@suite("jobs/raycluster-TestValidateDefault", "jobs/rayjob-TestDefault", exercises=Exercise.PATH)
def defaults(run: Run) -> None:
    same(run.expected["newJob"], defaulted(run, _kind(run), _typed(run, "oldJob")))


@suite(
    "jobs/raycluster-TestValidateCreate", "jobs/rayjob-TestValidateCreate", exercises=Exercise.PATH
)
def create(run: Run) -> None:
    agree(run.expected["wantErr"], faults(run, _kind(run), _typed(run, "job")))


@suite("jobs/rayservice-TestValidateCreate", exercises=Exercise.PATH)
def create_service(run: Run) -> None:
    found = faults(run, SERVICE, _typed(run, "service"))
    check(run.expected["wantErr"] == bool(found), f"got {found}")


@suite(
    "jobs/raycluster-TestValidateUpdate", "jobs/rayjob-TestValidateUpdate", exercises=Exercise.PATH
)
def update(run: Run) -> None:
    found = faults(run, _kind(run), _typed(run, "newJob"), _typed(run, "oldJob"))
    agree(run.expected["wantErr"], found)


@suite("jobs/rayservice-TestValidateUpdate", exercises=Exercise.PATH)
def update_service(run: Run) -> None:
    found = faults(run, SERVICE, _typed(run, "newService"), _typed(run, "oldService"))
    agree(run.expected["wantErr"], found)


@suite("jobs/raycluster-TestValidateCreateRayClusterSpec")
def cluster_spec(run: Run) -> None:
    job = {"metadata": whole(run.inputs["object"])["metadata"]}
    spec = whole(run.inputs["rayClusterSpec"])
    agree(run.expected["wantErrors"], list(cluster_faults(spec, job, "spec", gates_of(run))))
