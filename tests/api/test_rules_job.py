# SPDX-License-Identifier: Apache-2.0
"""Rules for batch/v1 Jobs that Kueue adds to those of Kubernetes."""

from __future__ import annotations

import pytest

from api.rule_examples import job, said, spoilt
from kuota.api.base import Json
from kuota.api.rules import job_faults

PREFIX = "kueue.x-k8s.io/"
QUEUE = f"metadata.labels[{PREFIX}queue-name]"


def labelled(suspend: bool = True, **labels: str) -> Json:
    named = {f"{PREFIX}{key.replace('_', '-')}": value for key, value in labels.items()}
    return job({"suspend": suspend}, labels=named)


def annotated(**annotations: str) -> Json:
    named = {f"{PREFIX}{key.replace('_', '-')}": value for key, value in annotations.items()}
    return job(annotations=named)


CREATE = [
    (labelled(queue_name="Not A Name"), QUEUE, "Invalid"),
    (labelled(queue_name=""), QUEUE, "Invalid"),
    (labelled(prebuilt_workload_name=""),
     f"metadata.labels[{PREFIX}prebuilt-workload-name]", "Invalid"),
    (labelled(max_exec_time_seconds="9223372036854775808"),
     f"metadata.labels[{PREFIX}max-exec-time-seconds]", "Invalid"),
    (labelled(max_exec_time_seconds="-1"),
     f"metadata.labels[{PREFIX}max-exec-time-seconds]", "Invalid"),
    (annotated(job_min_parallelism="4"),
     f"metadata.annotations[{PREFIX}job-min-parallelism]", "Invalid"),
    (annotated(job_min_parallelism="0"),
     f"metadata.annotations[{PREFIX}job-min-parallelism]", "Invalid"),
    (job(labels={"a": 1}), "metadata.labels[a]", "TypeInvalid"),
    (job({"parallelism": "4"}), "spec.parallelism", "TypeInvalid"),
    (job({"suspend": "yes"}), "spec.suspend", "TypeInvalid"),
]  # fmt: skip


@pytest.mark.parametrize(("obj", "path", "kind"), CREATE)
def test_a_job_is_held_to_what_kueue_reads_in_it(obj: Json, path: str, kind: str) -> None:
    assert {(path, kind)} == said(job_faults(obj))


def test_a_plain_job_has_no_faults() -> None:
    assert [] == job_faults(job())
    assert [] == job_faults(job(), job())


def test_the_queue_of_a_running_job_cannot_change() -> None:
    old, new = labelled(False, queue_name="a"), labelled(False, queue_name="b")
    assert {(QUEUE, "Invalid")} == said(job_faults(new, old))
    assert [] == job_faults(labelled(queue_name="b"), labelled(queue_name="a"))


def test_a_job_that_is_being_stopped_still_counts_as_running() -> None:
    stopping = spoilt(
        labelled(queue_name="b"), "metadata.annotations", {f"{PREFIX}stopping": "true"}
    )
    assert {(QUEUE, "Invalid")} == said(job_faults(stopping, labelled(queue_name="a")))


def test_a_queue_cannot_be_left_where_new_jobs_get_a_default_one() -> None:
    old, new = labelled(queue_name="a"), labelled()
    assert {(QUEUE, "Invalid")} == said(job_faults(new, old, default_queue=True))
    assert [] == job_faults(new, old)


@pytest.mark.parametrize("value", ["2", "12:30", "x", "\ud800"])
def test_a_pod_set_group_needs_a_word_and_a_level(value: str) -> None:
    key = f"{PREFIX}podset-group-name"
    obj = spoilt(job(), "spec.template.metadata", {"annotations": {key: value}})
    kinds = {"Forbidden", "Invalid"} if value == "2" else {"Forbidden"}
    path = f"spec.template.metadata.annotations[{key}]"
    assert {(path, kind) for kind in kinds} == said(job_faults(obj))


def test_a_job_that_is_being_stopped_counts_as_running() -> None:
    equal = f"{PREFIX}job-completions-equal-parallelism"
    stopping = {f"{PREFIX}stopping": "true"}
    indexed = {"completionMode": "Indexed"}
    old, new = job(indexed, annotations=stopping), job(indexed, annotations=stopping | {equal: "1"})
    assert {(f"metadata.annotations[{equal}]", "Forbidden")} == said(job_faults(new, old))
    assert [] == job_faults(job(indexed, annotations={equal: "1"}), job(indexed))
