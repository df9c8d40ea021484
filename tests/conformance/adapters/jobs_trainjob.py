# SPDX-License-Identifier: Apache-2.0
"""Suites of Kueue's integration of TrainJob."""

from __future__ import annotations

from conformance.case import Run, check, refused, same
from conformance.job_kinds import carried_out, defaulted, faults, injections
from conformance.jobs import stored
from conformance.recorder import whole
from conformance.registry import Exercise, suite
from conformance.world import gates_of
from kuota.api.base import Json
from kuota.api.gates import Gate
from kuota.api.podset import MergeConflict
from kuota.bridge.jobs.kind import PodSetsUnknown
from kuota.bridge.jobs.train_job import TrainJob

from .webhooks import agree

TRAIN_JOB = TrainJob()
RUNTIME = "runtime"


@suite("jobs/trainjob-TestRunWithPodsetsInfo")
def started(run: Run) -> None:
    look_up = stored([run.inputs["shared"]["testCtr"]])
    job, error = TRAIN_JOB.resolved(whole(run.inputs["trainJob"]), look_up), None
    try:
        effects = TRAIN_JOB.start(job, injections(run.inputs.get("podsetsInfo")), gates_of(run))
        job = carried_out(TRAIN_JOB, job, effects)
    except (MergeConflict, PodSetsUnknown) as found:
        error = found
    refused(run.expected["wantErr"], error)
    if run.expected["wantTrainJob"] is not None:
        same(run.expected["wantTrainJob"], _stored(job))


@suite("jobs/trainjob-TestRestorePodSetsInfo")
def restored(run: Run) -> None:
    job = whole(run.inputs["trainJob"])
    stop = TRAIN_JOB.stop(job, [])
    same(run.expected["wantTrainJob"], carried_out(TRAIN_JOB, job, stop.effects))
    check(stop.complete == run.expected["wantReturn"], f"complete: {stop.complete}")


def _stored(job: Json) -> Json:
    """The job without its runtime, which is not part of it."""
    return {name: value for name, value in job.items() if name != RUNTIME}


_CHECK = {
    "apiVersion": "kueue.x-k8s.io/v1beta2",
    "kind": "AdmissionCheck",
    "metadata": {"name": "ac"},
    "spec": {"controllerName": "kueue.x-k8s.io/multikueue"},
}


@suite("jobs/trainjob-TestDefault", exercises=Exercise.PATH)
def defaults(run: Run) -> None:
    shared = whole(run.inputs["shared"])
    queue, around = shared["testClusterQueue"], [shared["testLocalQueue"], shared["testNamespace"]]
    if run.inputs.get("withMultiKueueAdmissionCheck"):
        queue["spec"]["admissionChecksStrategy"] = {"admissionChecks": [{"name": "ac"}]}
        around.append(_CHECK)
    found = defaulted(run, TRAIN_JOB, whole(run.inputs["trainJob"]), [*around, queue])
    refused(run.expected["wantErr"], None)
    same(run.expected["wantTrainJob"], found)


@suite("jobs/trainjob-TestValidateCreate", exercises=Exercise.PATH)
def create(run: Run) -> None:
    """The record says beside the gates whether topology-aware scheduling is on."""
    if not run.inputs["topologyAwareScheduling"]:
        run.gates[Gate.TopologyAwareScheduling] = False
    runtime = run.inputs["clusterTrainingRuntime"]
    agree(
        run.expected["wantErr"],
        faults(run, TRAIN_JOB, whole(run.inputs["trainJob"]), around=[runtime]),
    )
