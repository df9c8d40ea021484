# SPDX-License-Identifier: Apache-2.0
"""What a Job or CronJob gets when its manifest does not say, and the labels that find its pods."""

from __future__ import annotations

from kuota.api.base import Json

from .columns import dig, listed, mapped
from .pod_defaults import fill_spec

CONTROLLER_UID = "batch.kubernetes.io/controller-uid"
JOB_NAME = "batch.kubernetes.io/job-name"
_MANY = 2**31 - 1


def fill_job(job: Json) -> None:
    """Fill in what a Job's manifest does not say. The object is changed."""
    fill_job_spec(job.setdefault("spec", {}))


def generate_job(job: Json) -> None:
    """Give a Job that is about to be created, and has its uid, the labels that find its pods."""
    if not job["spec"].get("manualSelector"):
        _select(job)
    labels = dig(job, "spec", "template", "metadata", "labels")
    if labels and not dig(job, "metadata", "labels"):
        job["metadata"]["labels"] = dict(labels)


def fill_job_spec(spec: Json) -> None:
    if spec.get("parallelism") is None and spec.get("completions") is None:
        spec["completions"] = 1
    spec.setdefault("parallelism", 1)
    spec.setdefault("backoffLimit", 6 if spec.get("backoffLimitPerIndex") is None else _MANY)
    spec.setdefault("completionMode", "NonIndexed")
    spec.setdefault("suspend", False)
    spec.setdefault("manualSelector", False)
    with_policy = "podFailurePolicy" in spec
    spec.setdefault("podReplacementPolicy", "Failed" if with_policy else "TerminatingOrFailed")
    for rule in listed(dig(spec, "podFailurePolicy", "rules")):
        for pattern in listed(rule.get("onPodConditions")):
            pattern.setdefault("status", "True")
    fill_spec(spec.setdefault("template", {}).setdefault("spec", {}))


def _select(job: Json) -> None:
    """Labels with the Job's uid on its pods, and a selector for them: no other Job has the same."""
    uid, name = job["metadata"]["uid"], job["metadata"]["name"]
    metadata = job["spec"]["template"].setdefault("metadata", {})
    generated = {CONTROLLER_UID: uid, JOB_NAME: name, "controller-uid": uid, "job-name": name}
    metadata["labels"] = mapped(metadata.get("labels")) | generated
    job["spec"].setdefault("selector", {}).setdefault("matchLabels", {})[CONTROLLER_UID] = uid


def fill_cron_job(cron_job: Json) -> None:
    """Fill in a CronJob. Its Jobs are filled in when they are made, but for their pods."""
    spec = cron_job.setdefault("spec", {})
    spec.setdefault("concurrencyPolicy", "Allow")
    spec.setdefault("suspend", False)
    spec.setdefault("successfulJobsHistoryLimit", 3)
    spec.setdefault("failedJobsHistoryLimit", 1)
    template = dig(spec, "jobTemplate", "spec", "template")
    if template is not None:
        template.setdefault("metadata", {})
        fill_spec(template.setdefault("spec", {}))
