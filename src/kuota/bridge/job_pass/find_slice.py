# SPDX-License-Identifier: Apache-2.0
"""The slice of an elastic job: find it among the open ones, resize it, or replace it."""

from __future__ import annotations

from enum import Enum, auto

from kuota.api.base import condition
from kuota.api.rules.report import child
from kuota.api.rules.workload_status import pod_set_counts

from ..draft import StoredWorkload
from ..inbound_workload import REPLACED
from ..jobs.kind import JobWithRecordedSize, PodSetsUnknown
from ..jobs.topology_request import TopologyRequestError
from .construct import NO_MATCH, sync_workloads
from .job_pass import JobPass
from .match import controlled, matched
from .slices import closed, closed_names, counts_of, normalized, resized, scaled_down, unfinished
from .workload import name_of

EVICTED = "WorkloadEvicted"
_MESSAGES = {REPLACED: "Replaced by a newer slice of the job"}
_OUT_OF_SYNC = "The slice is out of sync with its job"


class SliceSearchResult(Enum):
    """The result of the search for a slice."""

    SLICE = auto()
    """A slice was selected, or one has to be created."""
    NO_MATCH = auto()
    """The job has changed in other ways than its size."""
    WAIT = auto()
    """Nothing else can happen in this pass."""


def find_slice(job_pass: JobPass) -> SliceSearchResult:
    """Select the slice that follows the size of the job, and finish the surplus ones."""
    _record(job_pass)
    gates, kind, job = job_pass.view.config.gates, job_pass.kind, job_pass.job
    own = [each for each in job_pass.view.workloads if controlled(each, kind, job, gates)]
    _forget_closed(job_pass, own)
    chain = job_pass.chain = normalized(unfinished(own))
    if not _finish_surplus(job_pass):
        return SliceSearchResult.WAIT
    if chain.selected is None:
        return _first_slice(job_pass, own)
    if chain.charged is not None and chain.charged is not chain.selected:
        if chain.charged.deleting:
            # Its quota is released. The replacement then is the first slice of the job.
            job_pass.workload = chain.charged
            return SliceSearchResult.SLICE
        if chain.selected.deleting:
            with job_pass.draft(chain.selected) as draft:
                draft.drop_finalizer()
            return SliceSearchResult.WAIT
    if not matched(job_pass, chain.selected, resizable=True):
        return SliceSearchResult.NO_MATCH
    _resize(job_pass, chain.selected)
    found = (job_pass.workload,) if job_pass.workload is not None else ()
    sync_workloads(job_pass, *found, *job_pass.other_slices)
    return (
        SliceSearchResult.WAIT
        if job_pass.fault and job_pass.workload is None
        else SliceSearchResult.SLICE
    )


def _record(job_pass: JobPass) -> None:
    """Set the annotations of the job that its kind requires."""
    kind, job = job_pass.kind, job_pass.job
    recorded = (
        kind.recorded(job, job_pass.view.config.gates)
        if isinstance(kind, JobWithRecordedSize)
        else {}
    )
    before = child(job, "metadata", "annotations")
    if recorded and before | recorded != before:
        meta = child(job, "metadata") | {"annotations": before | recorded}
        job_pass.write(job | {"metadata": meta})


def _forget_closed(job_pass: JobPass, own: list[StoredWorkload]) -> None:
    """Remove the finalizers of slices that were finished before the job was."""
    for stored in own:
        if closed(stored):
            with job_pass.draft(stored) as draft:
                draft.drop_finalizer()


def _finish_surplus(job_pass: JobPass) -> bool:
    """Finish the surplus slices. Returns false while pods still use the quota of one of them.

    Such a slice was evicted, and no other slice has quota for the pods that it started.
    """
    chain, complete = job_pass.chain, True
    for stored, reason in chain.surplus:
        if stored.reserved and chain.charged is None:
            evicted = condition(stored.obj.status.conditions, "Evicted")
            job_pass.stop(stored, EVICTED, evicted.message if evicted is not None else "")
            if job_pass.busy:
                complete = False
                continue
        job_pass.finish(stored, reason, _MESSAGES.get(reason, _OUT_OF_SYNC))
    return complete


def _first_slice(job_pass: JobPass, own: list[StoredWorkload]) -> SliceSearchResult:
    """Let the first slice of a chain be created, unless the work of the job is over.

    It is over if the job ended, or if the slice of this generation of the job is finished.
    """
    ended = [each for each in own if each.true("Finished") and not closed(each)]
    if ended and not job_pass.ended:
        gates = job_pass.view.config.gates
        taken = closed_names(job_pass.view.workloads)
        name = name_of(job_pass.kind, job_pass.job, gates, taken)
        ended = [each for each in ended if each.key.name == name]
    if ended:
        job_pass.workload = ended[-1]
    elif not job_pass.suspended and not job_pass.ended:
        job_pass.stop(None, NO_MATCH, "No workload matches the job")
    return SliceSearchResult.WAIT if job_pass.fault else SliceSearchResult.SLICE


def _resize(job_pass: JobPass, selected: StoredWorkload) -> None:
    """Adopt the size of the job, or let the slice be replaced if it needs more than its quota."""
    try:
        asked = job_pass.kind.pod_sets(job_pass.job, job_pass.view.config.gates)
    except (PodSetsUnknown, TopologyRequestError):
        # The slice stays, so that the job can still be stopped.
        job_pass.workload = selected
        return
    have, want = counts_of(selected), pod_set_counts({"spec": {"podSets": asked}})
    if have != want and selected.reserved and not scaled_down(have, want):
        job_pass.replaced = selected
        return
    job_pass.workload = selected
    if have != want:
        pod_sets = resized(child(selected.json, "spec").get("podSets"), want)
        with job_pass.draft(selected) as draft:
            draft.patch({"spec": {"podSets": pod_sets}})
