# SPDX-License-Identifier: Apache-2.0
"""Validation asks the kind of a job, not its name, which optional features it supports."""

from __future__ import annotations

import pytest

from kuota.api.base import Json
from kuota.api.config.frameworks import GroupVersionKind
from kuota.api.gates import DEFAULT_GATES
from kuota.api.rules import job, pod
from kuota.bridge.jobs.job_set import JobSet
from kuota.bridge.jobs.kind import JobKind
from kuota.bridge.jobs.registry import BUILT_IN, JobKindRegistry

PREFIX = "kueue.x-k8s.io/"
ELASTIC = f"metadata.annotations[{PREFIX}elastic-job]"
PREBUILT = f"metadata.labels[{PREFIX}prebuilt-workload-name]"


class NamedJob(JobSet):
    """A kind of somebody else that is called like batch/v1 Job."""

    framework = "example.com/job"
    gvk = GroupVersionKind("example.com", "v1", "Job")
    prebuilt = False


class Resizable(NamedJob):
    gvk = GroupVersionKind("example.com", "v1", "Resizable")
    prebuilt = True

    def slice_suffix(self, job: Json) -> str:
        return "1"


def paths(kind: JobKind) -> set[str]:
    meta = {
        "name": "j",
        "annotations": {f"{PREFIX}elastic-job": "true"},
        "labels": {f"{PREFIX}queue-name": "main", f"{PREFIX}prebuilt-workload-name": "made"},
    }
    obj = {"apiVersion": kind.api_version, "kind": kind.gvk.kind, "metadata": meta, "spec": {}}
    found = kind.faults(obj, None, DEFAULT_GATES, managed=True, default_queue=False)
    return {each.path for each in found} & {ELASTIC, PREBUILT}


def test_a_kind_that_is_called_like_another_one_does_not_get_its_features() -> None:
    assert {ELASTIC, PREBUILT} == paths(NamedJob())


def test_a_kind_of_a_package_can_be_elastic_and_use_prebuilt_workloads() -> None:
    assert set() == paths(Resizable())


@pytest.mark.parametrize("kind", BUILT_IN, ids=lambda each: each.gvk.kind)
def test_the_features_of_each_kind_are_those_of_kueue(kind: JobKind) -> None:
    elastic = {"Job", "RayCluster", "RayJob", "RayService"}
    prebuilt = elastic | {"AppWrapper", "JobSet", "MPIJob", "PaddleJob", "Pod", "PyTorchJob"}
    prebuilt |= {"TFJob", "TrainJob", "XGBoostJob"}
    name = kind.gvk.kind
    assert (name in elastic, name in prebuilt) == kind.supported


def test_the_rules_of_jobs_and_pods_assume_what_their_kinds_support() -> None:
    kinds = JobKindRegistry()
    assert job.SUPPORTED == kinds.kind(("batch", "Job")).supported
    assert pod.SUPPORTED == kinds.kind(("", "Pod")).supported
