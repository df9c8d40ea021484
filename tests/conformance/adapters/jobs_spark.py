# SPDX-License-Identifier: Apache-2.0
"""Suites of Kueue's integration of SparkApplication."""

from __future__ import annotations

from conformance.case import Run, check, refused, same
from conformance.job_kinds import (
    RECONCILER_IGNORES,
    defaulted,
    faults,
    injections,
    pod_sets_of,
    reconciled,
)
from conformance.recorder import whole
from conformance.registry import Exercise, suite
from conformance.world import gates_of
from kuota.api.podset import MergeConflict
from kuota.bridge.jobs.spark_application import SparkApplication
from kuota.bridge.jobs.spark_pod import with_volumes

from .webhooks import agree

SPARK = SparkApplication()


@suite("jobs/sparkapplication-TestPodSets")
def pod_sets(run: Run) -> None:
    same(run.expected["want"], SPARK.pod_sets(whole(run.inputs["sparkApp"]), gates_of(run)))


@suite("jobs/sparkapplication-TestRunWithPodsetsInfo")
def started(run: Run) -> None:
    job, error = whole(run.inputs["sparkApp"]), None
    try:
        job = SPARK.started(job, injections(run.inputs["podsetsInfo"]), gates_of(run))
    except MergeConflict as conflict:
        error = conflict
    refused(run.expected["wantErr"], error)
    if run.expected["wantSparkApp"] is not None:
        same(run.expected["wantSparkApp"], job)


@suite("jobs/sparkapplication-TestRestorePodSetsInfo")
def restored(run: Run) -> None:
    job = whole(run.inputs["sparkApp"])
    found = SPARK.restored(job, pod_sets_of(run.inputs["podsetsInfo"]))
    same(run.expected["wantSparkApp"], found)
    check((found != job) == run.expected["wantChanged"], f"changed: {found != job}")


@suite(
    "jobs/sparkapplication-TestAddVolumes",
)
def volumes(run: Run) -> None:
    pod = whole(run.inputs["pod"])
    role = pod["metadata"]["labels"]["spark-role"]
    found = with_volumes(pod["spec"], whole(run.inputs["app"]), role)
    refused(run.expected["wantErr"], None)
    mounts = found["containers"][0].get("volumeMounts") or ()
    same(run.expected["wantVolumeMount"], [each["name"] for each in mounts])
    same(run.expected["wantVolumes"], [each["name"] for each in found.get("volumes") or ()])


@suite("jobs/sparkapplication-TestReconciler", exercises=Exercise.PATH, ignores=RECONCILER_IGNORES)
def passes(run: Run) -> None:
    reconciled(run, SPARK, whole(run.inputs["sparkApp"]))


@suite("jobs/sparkapplication-TestDefault", exercises=Exercise.PATH)
def defaults(run: Run) -> None:
    shared = whole(run.inputs["shared"])
    around = [shared["testClusterQueue"], shared["testLocalQueue"], shared["testManagedNamespace"]]
    found = defaulted(run, SPARK, whole(run.inputs["sparkApp"]), around)
    refused(run.expected["wantErr"], None)
    same(run.expected["wantSparkApp"], found)


@suite("jobs/sparkapplication-TestValidateCreate", exercises=Exercise.PATH)
def create(run: Run) -> None:
    agree(run.expected["wantErr"], faults(run, SPARK, whole(run.inputs["sparkApp"])))


@suite("jobs/sparkapplication-TestValidateUpdate", exercises=Exercise.PATH)
def update(run: Run) -> None:
    new, old = whole(run.inputs["newSparkApp"]), whole(run.inputs["oldSparkApp"])
    agree(run.expected["wantErr"], faults(run, SPARK, new, old))
