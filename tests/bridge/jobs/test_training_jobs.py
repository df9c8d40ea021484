# SPDX-License-Identifier: Apache-2.0
"""Rules of the training operator's jobs and of MPIJobs that Kueue's recorded cases do not show."""

from __future__ import annotations

import pytest

from bridge.jobs.kinds import BY_NAME, EXAMPLES, template, training
from kuota.api.gates import Gates
from kuota.api.podset import Injection, MergeConflict
from kuota.bridge.jobs.fields import at, put
from kuota.bridge.jobs.kind import End
from kuota.bridge.jobs.mpi_job import INDEX_OFFSET, MPIJob
from kuota.bridge.jobs.training_jobs import JAXJob, PyTorchJob, TFJob

KIND = PyTorchJob()
GATES = Gates()


def test_replica_types_are_queued_whatever_their_case() -> None:
    """The operator starts the pods of `worker` too, so they need quota."""
    found = KIND.templates(training("PyTorchJob", "pytorchReplicaSpecs", worker=3, Master=1))
    assert [("master", 1), ("worker", 3)] == [(each.name, each.count) for each in found]


def test_a_replica_type_that_is_written_twice_is_rejected() -> None:
    job = training("PyTorchJob", "pytorchReplicaSpecs", Worker=1, worker=3)
    faults = KIND.own_faults(job, None, GATES, managed=True)
    assert ["spec.pytorchReplicaSpecs[worker]"] == [each.path for each in faults]


def test_pod_sets_of_a_tf_job_are_in_the_order_of_their_types() -> None:
    job = training("TFJob", "tfReplicaSpecs", Evaluator=1, Worker=1, PS=1, Master=1, Chief=1)
    names = [each["name"] for each in TFJob().pod_sets(job, GATES)]
    assert ["chief", "master", "ps", "worker", "evaluator"] == names


def test_replicas_default_to_one_and_may_be_none() -> None:
    job = put(EXAMPLES["JAXJob"], ("spec", "jaxReplicaSpecs", "Worker"), {"template": template()})
    assert [1] == [each["count"] for each in JAXJob().pod_sets(job, GATES)]
    none = put(job, ("spec", "jaxReplicaSpecs", "Worker", "replicas"), 0)
    assert [0] == [each["count"] for each in JAXJob().pod_sets(none, GATES)]


def test_the_first_condition_that_ends_a_job_counts() -> None:
    ended = [
        {"type": "Running", "status": "False"},
        {"type": "Failed", "status": "True", "message": "out of memory"},
        {"type": "Succeeded", "status": "True"},
    ]
    job = EXAMPLES["PyTorchJob"] | {"status": {"conditions": ended}}
    assert End(success=False, message="out of memory") == KIND.end(job)


def test_an_admission_that_contradicts_the_template_cannot_start_the_job() -> None:
    path = ("spec", "pytorchReplicaSpecs", "Master", "template", "spec", "nodeSelector")
    job = put(EXAMPLES["PyTorchJob"], path, {"pool": "silver"})
    given = [Injection(node_selector={"pool": "gold"})] * 2
    with pytest.raises(MergeConflict):
        KIND.start(job, given, GATES)
    with pytest.raises(MergeConflict, match="2 pod sets; the admission has 1"):
        KIND.start(job, given[:1], GATES)


def test_a_malformed_template_cannot_start_but_can_be_restored() -> None:
    path = ("spec", "pytorchReplicaSpecs", "Master", "template", "spec", "tolerations")
    job = put(EXAMPLES["PyTorchJob"], path, "all")
    with pytest.raises(MergeConflict, match="malformed"):
        KIND.start(job, [Injection()] * 2, GATES)
    original = KIND.pod_sets(EXAMPLES["PyTorchJob"], GATES)
    assert at(KIND.restored(job, original), path) is None


@pytest.mark.parametrize("name", ["JAXJob", "SparkApplication"])
def test_kinds_without_prebuilt_workloads_reject_them(name: str) -> None:
    key = "kueue.x-k8s.io/prebuilt-workload-name"
    job = put(EXAMPLES[name], ("metadata", "labels", key), "mine")
    faults = BY_NAME[name].faults(job, None, GATES, managed=True, default_queue=False)
    assert f"metadata.labels[{key}]" in [each.path for each in faults]


def test_the_workers_of_a_launcher_that_works_too_start_at_index_one() -> None:
    kind = MPIJob()
    job = put(EXAMPLES["MPIJob"], ("spec", "runLauncherAsWorker"), True)
    path = ("spec", "mpiReplicaSpecs", "Worker", "template", "metadata", "annotations")
    assert {INDEX_OFFSET: "1"} == at(kind.defaulted(job, GATES, managed=False), path)
    apart = put(job, ("spec", "runLauncherAsWorker"), False)
    assert apart == kind.defaulted(apart, GATES, managed=True)
    off = Gates.of({"TopologyAwareScheduling": False}, check=False)
    assert job == kind.defaulted(job, off, managed=True)
