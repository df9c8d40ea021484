# SPDX-License-Identifier: Apache-2.0
"""The Workload of a batch/v1 Job."""

from __future__ import annotations

from typing import Any

import pytest

from kuota.api.base import Json, ObjectMeta
from kuota.api.core import PriorityClass
from kuota.api.gates import Gates
from kuota.api.kueue import WorkloadPriorityClass
from kuota.api.podset import Injection
from kuota.api.priority import ClassMissing
from kuota.bridge.job_pass.names import variant_name, workload_name
from kuota.bridge.job_pass.workload import PriorityClasses, workload
from kuota.bridge.jobs.batch_job_state import terminal_indexes
from kuota.bridge.jobs.registry import JOB

PREFIX = "kueue.x-k8s.io/"
TEMPLATE = {"spec": {"containers": [{"name": "c"}]}}
NO_TOPOLOGY = Gates.of({"TopologyAwareScheduling": False}, check=False)


def job(
    labels: dict[str, str] | None = None,
    annotations: dict[str, str] | None = None,
    template: Json | None = None,
    **spec: Any,
) -> Json:
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {
            "name": "train",
            "namespace": "ns",
            "labels": labels or {},
            "annotations": annotations or {},
        },
        "spec": {"suspend": True, "template": template or TEMPLATE, **spec},
    }


def classes() -> PriorityClasses:
    return PriorityClasses(
        pods={
            "usual": PriorityClass(metadata=ObjectMeta(name="usual"), value=5, global_default=True),
            "high": PriorityClass(metadata=ObjectMeta(name="high"), value=50),
        },
        workloads={"rush": WorkloadPriorityClass(metadata=ObjectMeta(name="rush"), value=9)},
    )


def priority(of: Json, known: PriorityClasses | None = None) -> tuple[int, str]:
    spec = workload(JOB, of, known or classes())["spec"]
    return spec["priority"], spec.get("priorityClassRef", {}).get("name", "")


def test_the_name_is_the_one_kueue_gives() -> None:
    # Recorded: a Job called "job" without a UID has the workload job-job-15f7f.
    assert "job-job-15f7f" == workload_name("Job", "batch", "job", "")


def test_long_names_are_cut_but_stay_apart() -> None:
    names = [workload_name("Job", "batch", "x" * 300 + end, "") for end in "ab"]
    assert [253, 253] == [len(name) for name in names]
    assert names[0] != names[1]
    assert 63 == len(workload_name("Job", "batch", "x" * 300, "", short=True))


def test_variants_are_named_after_their_parent_and_their_flavor() -> None:
    parent = workload_name("Job", "batch", "train", "u")
    spot = variant_name(parent, "p", "spot")
    assert spot.startswith("job-train-variant-spot-")
    assert spot != variant_name(parent, "q", "spot")
    assert "plain-variant-spot-" == variant_name("plain", "p", "spot")[:-5]
    assert 63 == len(variant_name("x" * 300, "p", "spot", short=True))


def test_an_extra_part_makes_another_name() -> None:
    plain = workload_name("Job", "batch", "train", "u")
    assert plain != workload_name("Job", "batch", "train", "u", "2")


@pytest.mark.parametrize(
    ("spec", "pods"),
    [
        ({}, 1),
        ({"parallelism": 4}, 4),
        ({"parallelism": 4, "completions": 3}, 3),
        ({"parallelism": 2, "completions": 9}, 2),
        ({"completions": 9}, 1),
    ],
)
def test_as_many_pods_as_run_at_once(spec: Json, pods: int) -> None:
    (main,) = JOB.pod_sets(job(**spec), Gates())
    assert ("main", pods) == (main["name"], main["count"])


def test_the_smallest_parallelism_becomes_the_minimum() -> None:
    given = job(annotations={PREFIX + "job-min-parallelism": "2"}, parallelism=4)
    assert 2 == JOB.pod_sets(given, Gates())[0]["minCount"]
    gates = Gates.of({"PartialAdmission": False}, check=False)
    assert "minCount" not in JOB.pod_sets(given, gates)[0]


def test_labels_of_the_job_controller_are_left_behind() -> None:
    labels = {"controller-uid": "u", "batch.kubernetes.io/job-name": "train", "team": "a"}
    template = TEMPLATE | {"metadata": {"labels": labels}}
    kept = JOB.pod_sets(job(template=template), Gates())[0]["template"]["metadata"]["labels"]
    assert {"batch.kubernetes.io/job-name": "train", "team": "a"} == kept


def test_placement_is_asked_for_by_annotations() -> None:
    wanted = {PREFIX + "podset-required-topology": "rack"}
    template = TEMPLATE | {"metadata": {"annotations": wanted}}
    assert {
        "required": "rack",
        "podIndexLabel": "batch.kubernetes.io/job-completion-index",
    } == JOB.pod_sets(job(template=template), Gates())[0]["topologyRequest"]
    assert "topologyRequest" not in JOB.pod_sets(job(template=template), NO_TOPOLOGY)[0]


def test_a_workload_priority_class_comes_before_everything() -> None:
    template = {"spec": {"priorityClassName": "high"}}
    given = job({PREFIX + "priority-class": "rush"}, template=template)
    assert (9, "rush") == priority(given)


def test_then_the_class_of_the_pods_and_then_the_global_default() -> None:
    assert (50, "high") == priority(job(template={"spec": {"priorityClassName": "high"}}))
    assert (5, "usual") == priority(job())
    assert (0, "") == priority(job(), PriorityClasses())


def test_a_class_called_default_is_given_on_admission_and_not_later() -> None:
    default = WorkloadPriorityClass(metadata=ObjectMeta(name="default"), value=3)
    assert (0, "") == priority(job(), PriorityClasses(workloads={"default": default}))


def test_without_its_class_there_is_no_workload() -> None:
    with pytest.raises(ClassMissing, match="rash"):
        workload(JOB, job({PREFIX + "priority-class": "rash"}), classes())


def test_time_owner_and_gate_are_handed_on() -> None:
    given = job(
        {PREFIX + "max-exec-time-seconds": "60"}, {PREFIX + "admission-gated-by": "x", "y": "z"}
    )
    given["metadata"]["uid"] = "u-1"
    made = workload(JOB, given)
    assert 60 == made["spec"]["maximumExecutionTimeSeconds"]
    assert {PREFIX + "admission-gated-by": "x"} == made["metadata"]["annotations"]
    assert {PREFIX + "job-uid": "u-1"} == made["metadata"]["labels"]
    (owner,) = made["metadata"]["ownerReferences"]
    assert ("Job", "train", "u-1", True) == tuple(
        owner[field] for field in ("kind", "name", "uid", "controller")
    )


def test_a_gate_is_handed_on_only_where_gates_count() -> None:
    given = job({}, {PREFIX + "admission-gated-by": "x"})
    off = Gates.of({"AdmissionGatedBy": False}, check=False)
    assert "annotations" not in workload(JOB, given, gates=off)["metadata"]


def test_an_elastic_job_has_a_workload_for_each_of_its_sizes() -> None:
    given = job({}, {PREFIX + "elastic-job": "true"})
    names = []
    for generation in (1, 2):
        given["metadata"]["generation"] = generation
        meta = workload(JOB, given)["metadata"]
        assert meta["name"] == meta["annotations"][PREFIX + "workload-slice-name"]
        names.append(meta["name"])
    assert names[0] != names[1]


@pytest.mark.parametrize("listed", ["²", "1" * 5000, "+1", "0--1", "0-²", "5-", "-5", "6-5", ""])
def test_malformed_indexes_are_ignored(listed: str) -> None:
    assert 2 == terminal_indexes(f"1,{listed}", "3", 9)


@pytest.mark.parametrize(
    ("completed", "failed", "count"),
    [
        ("0-3", "2-5", 6),
        ("0-9", "3,5", 10),
        ("8-20", "", 2),
        ("20-30", "", 0),
        ("0,2", "1,3", 4),
    ],
)
def test_each_index_below_the_completions_is_counted_once(
    completed: str, failed: str, count: int
) -> None:
    assert count == terminal_indexes(completed, failed, 10)


def test_the_time_to_count_indexes_does_not_depend_on_their_number() -> None:
    assert 2**31 - 1 == terminal_indexes("0-2147483646", "5-2147483646", 2**31 - 1)


def test_a_minimum_that_is_no_number_does_not_resize_the_job() -> None:
    given = job({}, {PREFIX + "job-min-parallelism": "half"})
    given["spec"] |= {"parallelism": 5, "completions": 3}
    started = JOB.started(given, [Injection(name="main", count=3)], Gates())
    assert 5 == started["spec"]["parallelism"]
