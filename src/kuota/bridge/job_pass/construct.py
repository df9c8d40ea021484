# SPDX-License-Identifier: Apache-2.0
"""Creates the Workload of a job, and keeps its priority and gates up to date."""

from __future__ import annotations

from kuota.api.base import Json, Key
from kuota.api.gates import Gate
from kuota.api.priority import WORKLOAD_CLASS, ClassMissing
from kuota.api.rules.metadata import ADMISSION_GATED_BY, annotation
from kuota.api.rules.report import child, string_map

from ..draft import StoredWorkload
from ..effects import Create
from ..jobs.composable import ComposableJob
from .job_pass import JobPass
from .match import prebuilt_name
from .slices import closed_names, replacement_annotations, without_injection
from .workload import outdated_priorities, sanitized, workload

NO_MATCH = "NoMatchingWorkload"
NO_PODS = "NoPodSets"
"""The reason of the event about a job without pods."""


def create_workload(job_pass: JobPass) -> None:
    """Create the Workload, unless the job still has pods, which would run without quota.

    The pods of an elastic job have quota if the new slice replaces another one. A job that names a
    prebuilt Workload stays suspended until that Workload exists.
    """
    named = prebuilt_name(job_pass.job, job_pass.view.config.gates)
    if named:
        job_pass.stop(None, NO_MATCH, "The workload that the job names does not exist")
    if job_pass.busy and job_pass.replaced is None:
        return
    if named:
        job_pass.fault = f"workload {named} not found"
        return
    new = construct_workload(job_pass)
    if new is None:
        return
    key = Key(job_pass.key.namespace, child(new, "metadata")["name"])
    job_pass.add(Create(key=key, object=new))
    job_pass.record_event("CreatedWorkload", f"Created workload {key}")


def sync_workloads(job_pass: JobPass, *workloads: StoredWorkload) -> None:
    """Update the admission gates and the priority of the Workloads of a job."""
    live = [
        _with_gates(job_pass, each)
        for each in workloads
        if not each.true("Finished") and not each.deleting
    ]
    try:
        outdated = outdated_priorities(job_pass.kind, job_pass.job, job_pass.view.classes, live)
    except ClassMissing as error:
        _report_missing(job_pass, error)
        return
    for stored, spec in outdated:
        with job_pass.draft(stored) as draft:
            draft.patch({"spec": spec})
        job_pass.record_event(
            "UpdatedWorkload", f"Updated workload {stored.key}: its priority class changed"
        )


def _with_gates(job_pass: JobPass, stored: StoredWorkload) -> StoredWorkload:
    """Update the admission gates of a Workload. No gates are added once it has quota."""
    before = stored.obj.metadata.annotation(ADMISSION_GATED_BY)
    after = annotation(job_pass.job, ADMISSION_GATED_BY) or ""
    enabled = job_pass.view.config.gates.on(Gate.AdmissionGatedBy)
    if not enabled or before == after or (not before and stored.reserved):
        return stored
    with job_pass.draft(stored) as draft:
        draft.patch({"metadata": {"annotations": {ADMISSION_GATED_BY: after or None}}})
    job_pass.record_event(
        "UpdatedWorkload", f"Updated workload {stored.key}: its admission gates changed"
    )
    return draft.current


def construct_workload(job_pass: JobPass) -> Json | None:
    """Construct the Workload of the job; None with a fault or a refusal if that is impossible."""
    config, kind = job_pass.view.config, job_pass.kind
    if isinstance(kind, ComposableJob):
        ready = kind.prepare(job_pass.job, config.gates)
        job_pass.apply_match(ready)
        if ready.refused:
            return None
    try:
        taken = closed_names(job_pass.view.workloads)
        made = workload(job_pass.kind, job_pass.job, job_pass.view.classes, config.gates, taken)
    except ClassMissing as error:
        _report_missing(job_pass, error)
        return None
    if not made["spec"]["podSets"]:
        words = (
            f"The {kind.gvk.kind} describes no pods, so there is nothing to queue; add pods to it"
        )
        job_pass.record_event(NO_PODS, words, warning=True)
        return None
    meta = {field: each for field, each in made["metadata"].items() if field != "creationTimestamp"}
    for field, keys in (
        ("labels", config.labels_to_copy),
        ("annotations", config.annotations_to_copy),
    ):
        if isinstance(kind, ComposableJob):
            copied = kind.copied(job_pass.job, field, keys)
        else:
            given = string_map(child(job_pass.job, "metadata").get(field))
            copied = {key: given[key] for key in keys if key in given}
        if copied:
            meta[field] = copied | (meta.get(field) or {})
    spec = made["spec"] | {"podSets": sanitized(made["spec"]["podSets"])}
    if job_pass.replaced is not None:
        meta["annotations"] = meta["annotations"] | replacement_annotations(job_pass.replaced)
        spec["podSets"] = without_injection(spec["podSets"], job_pass.replaced)
    if not spec["queueName"]:
        # The API server rejects an empty queue name; a missing one may be set later.
        del spec["queueName"]
    return made | {"metadata": meta, "spec": spec}


def _report_missing(job_pass: JobPass, error: ClassMissing) -> None:
    job_pass.fault, job_pass.missing = str(error), error
    if error.kind == WORKLOAD_CLASS:
        job_pass.record_event(f"{WORKLOAD_CLASS}NotFound", str(error), warning=True)
