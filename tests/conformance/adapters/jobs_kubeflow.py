# SPDX-License-Identifier: Apache-2.0
"""Suites of Kueue's integrations of the training operator and of the MPI operator."""

from __future__ import annotations

from conformance.case import Run, check, refused, same
from conformance.job_kinds import (
    RECONCILER_IGNORES,
    defaults_agree,
    injections,
    judged,
    normal,
    pod_sets_of,
    reconciled,
)
from conformance.recorder import whole
from conformance.registry import Exercise, suite
from conformance.world import gates_of
from kuota.api.base import Json
from kuota.api.podset import MergeConflict
from kuota.bridge.jobs.fields import at
from kuota.bridge.jobs.mpi_job import MPIJob
from kuota.bridge.jobs.training_jobs import (
    JAXJob,
    PaddleJob,
    PyTorchJob,
    TFJob,
    TrainingJob,
    XGBoostJob,
)

MPI = MPIJob()
KINDS: dict[str, TrainingJob] = {
    kind.gvk.kind.lower(): kind
    for kind in (PyTorchJob(), TFJob(), XGBoostJob(), PaddleJob(), JAXJob(), MPI)
}
OPERATOR = ("pytorchjob", "tfjob", "xgboostjob", "paddlejob", "jaxjob")


def kind_of(run: Run) -> TrainingJob:
    """The kind is the beginning of the suite's name."""
    return KINDS[run.suite.removeprefix("jobs/").partition("-")[0]]


@suite(*(f"jobs/{name}-TestPodSets" for name in (*OPERATOR, "mpijob")))
def pod_sets(run: Run) -> None:
    found = kind_of(run).pod_sets(normal(run.inputs["job"]), gates_of(run))
    same(run.expected["wantPodSets"], found)


@suite(*(f"jobs/{name}-TestOrderedReplicaTypes" for name in OPERATOR))
def replica_types(run: Run) -> None:
    found = [each.path[2] for each in kind_of(run).templates(whole(run.inputs["job"]))]
    same(run.expected["wantReplicaTypes"], found)


@suite(
    *(f"jobs/{name}-TestPriorityClass" for name in OPERATOR),
    "jobs/mpijob-TestCalcPriorityClassName",
)
def priority_class(run: Run) -> None:
    found = kind_of(run).pod_priority_class(whole(run.inputs["job"]))
    same(run.expected["wantPriorityClassName"], found)


@suite(
    "jobs/pytorchjob-TestRestorePodSetsInfo",
    "jobs/mpijob-TestRestorePodSetsInfo",
)
def restored(run: Run) -> None:
    kind, job = kind_of(run), normal(run.inputs["job"])
    found = kind.restored(job, pod_sets_of(run.inputs["podSetsInfo"]))
    check((found != job) == run.expected["wantChanged"], f"changed: {found != job}")
    _has_selector(kind, found, run.expected.get("wantRestoredFor"), "restored")


@suite("jobs/mpijob-TestRunWithPodSetsInfo")
def started(run: Run) -> None:
    job, error = normal(run.inputs["job"]), None
    try:
        job = MPI.started(job, injections(run.inputs["podSetsInfo"]), gates_of(run))
    except MergeConflict as conflict:
        error = conflict
    refused(run.expected["wantErr"], error)
    _has_selector(MPI, job, run.expected.get("wantAssignedTo"), "assigned")


def _has_selector(kind: TrainingJob, job: Json, replica: str | None, key: str) -> None:
    if replica:
        path = ("spec", kind.replica_specs, replica, "template", "spec", "nodeSelector")
        same({key: "true"}, at(job, path))


@suite(
    *(f"jobs/{name}-TestReconciler" for name in ("xgboostjob", "paddlejob", "mpijob")),
    exercises=Exercise.PATH,
    ignores=RECONCILER_IGNORES,
)
def passes(run: Run) -> None:
    reconciled(run, kind_of(run), whole(run.inputs["job"]))


@suite("jobs/mpijob-TestDefault", exercises=Exercise.PATH)
def defaults(run: Run) -> None:
    defaults_agree(run, MPI, whole(run.inputs["mpiJob"]))


@suite(
    *(f"jobs/{name}-TestValidate" for name in OPERATOR),
    "jobs/mpijob-TestValidateCreate",
    exercises=Exercise.PATH,
)
def create(run: Run) -> None:
    judged(run, kind_of(run), whole(run.inputs["job"]))
