# SPDX-License-Identifier: Apache-2.0
"""Jobs with a managed owner, which is queued for both, and jobs whose owners cannot be followed."""

from __future__ import annotations

from kuota.api.rules.metadata import elastic
from kuota.api.rules.report import child

from ..conditions import time_s
from ..draft import StoredWorkload
from .job_pass import JobPass

_OWNER_DELAY_S = 10.0
"""The age from which a job is reported whose owner does not exist: the watch may be late."""


def suspend_nested(job_pass: JobPass) -> bool:
    """Suspend a job whose managed ancestor is not admitted. It has no Workload of its own.

    A job whose owners cannot be followed waits, unless it has a Workload already.
    """
    if job_pass.view.nesting:
        _report(job_pass)
        if job_pass.view.workloads:
            return False
        job_pass.fault = job_pass.view.nesting
        return True
    ancestor = job_pass.view.ancestor
    if ancestor is None:
        return False
    if _lacks_quota(job_pass, ancestor.newest) and not job_pass.ended and not job_pass.suspended:
        job_pass.write(job_pass.kind.suspend(job_pass.job))
        job_pass.record_event(
            "Suspended", f"Suspended until the workload of {ancestor.key} is admitted"
        )
    return True


def _report(job_pass: JobPass) -> None:
    """Record why the owners of the job cannot be followed."""
    if job_pass.view.nested_too_deep:
        note = "The job has too many owners above it"
        job_pass.record_event("JobNestingTooDeep", note, warning=True)
        return
    created = time_s(child(job_pass.job, "metadata").get("creationTimestamp"))
    if created is not None and job_pass.now - created >= _OWNER_DELAY_S:
        note = f"{job_pass.view.nesting}; delete the job, or correct its owner references"
        job_pass.record_event("InvalidOwner", note, warning=True)


def _lacks_quota(job_pass: JobPass, newest: StoredWorkload | None) -> bool:
    """Whether the ancestor with this newest Workload has no quota for its pods.

    The newest slice of an elastic job may be pending while an older one has quota.
    """
    if newest is None:
        return True
    if job_pass.elastic or elastic(newest.json, job_pass.view.config.gates):
        return newest.true("Evicted")
    return not newest.true("Admitted")
