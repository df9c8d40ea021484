# SPDX-License-Identifier: Apache-2.0
"""A Workload names the author of its job, if users cannot choose that name."""

from __future__ import annotations

from bridge.test_batch_job import job
from kuota.api.config.frameworks import GroupVersionKind
from kuota.api.core import AUTHOR
from kuota.bridge.job_pass.workload import workload
from kuota.bridge.jobs.registry import JOB


class RenderJob(type(JOB)):  # type: ignore[misc]
    """A kind of a plugin, which no webhook reviews."""

    gvk = GroupVersionKind("film.example.com", "v1", "RenderJob")


def test_the_author_of_a_job_is_copied_to_its_workload() -> None:
    made = workload(JOB, job(annotations={AUTHOR: "ann"}))
    assert {AUTHOR: "ann"} == made["metadata"]["annotations"]


def test_the_annotation_of_a_kind_without_a_webhook_is_not_copied() -> None:
    made = workload(RenderJob(), job(annotations={AUTHOR: "ann"}))
    assert AUTHOR not in made["metadata"].get("annotations", {})
