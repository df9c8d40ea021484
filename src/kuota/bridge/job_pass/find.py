# SPDX-License-Identifier: Apache-2.0
"""The Workload of a job: find it among the existing ones, and update it.

It is the one whose spec matches the job.
"""

from __future__ import annotations

import msgspec

from kuota.api.merge_patch import difference
from kuota.api.rules.report import child, elements, mapping, text

from ..draft import StoredWorkload
from ..inbound_workload import replaces
from ..jobs.composable import ComposableJob, members_of
from .construct import NO_MATCH, construct_workload, sync_workloads
from .find_slice import SliceSearchResult, find_slice
from .job_pass import JobPass
from .match import controlled, matched, prebuilt_name
from .workload import owned_by


def find_workload(job_pass: JobPass) -> bool:
    """Find the job's Workload and update it. Returns true if others are deleted first."""
    if prebuilt_name(job_pass.job, job_pass.view.config.gates):
        _find_prebuilt(job_pass)
        return False
    if job_pass.elastic:
        slice_ = find_slice(job_pass)
        if slice_ is not SliceSearchResult.NO_MATCH:
            return slice_ is SliceSearchResult.WAIT
    surplus = _select_workload(job_pass)
    if job_pass.refused:
        return True
    outdated = None if job_pass.workload is not None else _updatable(job_pass, surplus)
    if job_pass.workload is None and not _suspended_or_ended(job_pass):
        only = surplus[0] if len(surplus) == 1 else job_pass.chain.charged
        if not job_pass.stop(only, NO_MATCH, "No workload matches the job"):
            # The original pod template is known only from the Workload, so it has to stay.
            return True
    excess = [each for each in surplus if each is not outdated and not job_pass.occupied(each)]
    for stored in excess:
        job_pass.delete(stored)
    if any(not stored.deleting for stored in excess):
        job_pass.fault = "workloads that do not match the job were deleted"
        return True
    if outdated is not None:
        _update(job_pass, outdated)
    elif job_pass.workload is not None:
        sync_workloads(job_pass, job_pass.workload)
    # Despite a fault, a job with a Workload may have to be stopped.
    return bool(job_pass.refused) or bool(job_pass.fault and job_pass.workload is None)


def _select_workload(job_pass: JobPass) -> list[StoredWorkload]:
    """Select the first Workload that matches the job, and return the others.

    Finished slices of an elastic job are neither.
    """
    config, kind = job_pass.view.config, job_pass.kind
    if isinstance(kind, ComposableJob):
        return _select_workload_of_group(job_pass, kind)
    surplus: list[StoredWorkload] = []
    for stored in job_pass.view.workloads:
        if job_pass.elastic and stored.true("Finished"):
            continue
        own = controlled(stored, kind, job_pass.job, config.gates)
        if job_pass.workload is None and own and matched(job_pass, stored):
            job_pass.workload = stored
        else:
            surplus.append(stored)
    return surplus


def _select_workload_of_group(job_pass: JobPass, kind: ComposableJob) -> list[StoredWorkload]:
    """Select the Workload of a composed job, and return it if it is outdated.

    All members become owners of the Workload, and members that it does not cover are removed.
    """
    for stored in job_pass.view.workloads:
        found = kind.match(job_pass.job, stored, job_pass.view.config.gates)
        if found.refused:
            job_pass.apply_match(found)
            return []
        if not found.matches:
            return [stored]
        job_pass.job, job_pass.workload = found.job, stored
        _adopt_all(job_pass, kind, stored)
        job_pass.add(*found.effects)
    return []


def _adopt_all(job_pass: JobPass, kind: ComposableJob, stored: StoredWorkload) -> None:
    """Make every member an owner of the Workload."""
    owners, member = stored.obj.metadata.owner_references or (), kind.member[1]
    known = {(each.name, each.uid) for each in owners if each.kind == member}
    added = [kind.owner(each) for each in members_of(job_pass.job).others(known)]
    if not added:
        return
    before = map(mapping, elements(child(stored.json, "metadata").get("ownerReferences")))
    # A member that was created again under the same name takes the place of the previous one.
    again = {(each["kind"], each["name"]) for each in added}
    kept = [each for each in before if (each.get("kind"), each.get("name")) not in again]
    with job_pass.draft(stored) as draft:
        draft.patch({"metadata": {"ownerReferences": [*kept, *added]}})
        draft.record_event("OwnerReferencesAdded", f"Added {len(added)} owner reference(s)")


def _updatable(job_pass: JobPass, surplus: list[StoredWorkload]) -> StoredWorkload | None:
    """Return the Workload to update because its suspended job was edited, if any."""
    kind, job, gates = job_pass.kind, job_pass.job, job_pass.view.config.gates
    mine = isinstance(kind, ComposableJob)
    first = next((each for each in surplus if mine or controlled(each, kind, job, gates)), None)
    if first is None or first.reserved or first.deleting or first.true("Finished"):
        return None
    return first if kind.suspended(job) else None


def _suspended_or_ended(job_pass: JobPass) -> bool:
    """Whether the job is suspended or has ended."""
    kind, job = job_pass.kind, job_pass.job
    return kind.suspended(job) or kind.end(job) is not None


def _update(job_pass: JobPass, outdated: StoredWorkload) -> None:
    """Update the Workload to the spec of the job, unless that spec is invalid."""
    new = construct_workload(job_pass)
    if new is None:
        return
    before, after = child(outdated.json, "spec"), child(new, "spec")
    kept = {"active": before["active"]} if "active" in before else {}
    try:
        with job_pass.draft(outdated) as draft:
            draft.patch({"spec": difference(before, after | kept)})
    except msgspec.ValidationError as error:
        # The API server would reject the Workload too.
        job_pass.fault, job_pass.invalid = str(error), True
        return
    job_pass.workload = draft.current
    job_pass.record_event(
        "UpdatedWorkload", f"Updated workload {outdated.key}: the job was changed"
    )


def _find_prebuilt(job_pass: JobPass) -> None:
    """Adopt the prebuilt Workload. One with another controller counts as missing.

    One that does not match the job is finished, and counts as missing too.
    """
    stored, gates = job_pass.view.prebuilt, job_pass.view.config.gates
    if stored is None:
        return
    owners = [each.uid for each in stored.obj.metadata.owner_references or () if each.controller]
    if owners and owners[0] != text(child(job_pass.job, "metadata").get("uid")):
        return
    job_pass.workload = stored
    kind = job_pass.kind
    if isinstance(kind, ComposableJob):
        _adopt_all(job_pass, kind, stored)
        matches = kind.equivalent(job_pass.job, job_pass.workload, gates)
    else:
        if not owners:
            _adopt(job_pass, stored)
        # The size of a replacement is not compared: the job may not have been resized yet.
        larger = job_pass.elastic and replaces(stored.obj) is not None
        matches = matched(job_pass, job_pass.workload, resizable=larger)
    if not matches:
        if not job_pass.workload.true("Finished"):
            job_pass.finish(
                job_pass.workload,
                "OutOfSync",
                "The prebuilt workload is out of sync with its user job",
            )
        job_pass.workload = None


def _adopt(job_pass: JobPass, stored: StoredWorkload) -> None:
    """Make the job the controller of the Workload. Its other owners remain."""
    meta = owned_by(job_pass.kind, job_pass.job)
    added = meta["ownerReferences"]
    before = map(mapping, elements(child(stored.json, "metadata").get("ownerReferences")))
    kept = [each for each in before if each.get("uid") != added[0]["uid"]]
    with job_pass.draft(stored) as draft:
        draft.patch({"metadata": meta | {"ownerReferences": [*kept, *added]}})
