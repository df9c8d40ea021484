# SPDX-License-Identifier: Apache-2.0
"""Whether a Workload belongs to a job and describes it."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from kuota.api.base import Json
from kuota.api.core import PodTemplateSpec
from kuota.api.gates import Gate, Gates
from kuota.api.kueue import ResourceFlavor
from kuota.api.podset import FlavorMissing, Injection, MergeConflict, equivalent, merged
from kuota.api.rules.job_common import prebuilt, time_limit_s
from kuota.api.rules.report import child, text

from ..draft import StoredWorkload
from ..jobs.kind import JobKind, JobWithEarlierPodSets, PodSetsUnknown
from ..jobs.topology_request import TopologyRequestError
from .injections import injections
from .job_pass import JobPass
from .slices import counts_of, resized
from .workload import sanitized


def prebuilt_name(job: Json, gates: Gates) -> str:
    """Return the name of the job's prebuilt Workload, "" for none."""
    return prebuilt(job, gates)[0]


def controlled(stored: StoredWorkload, kind: JobKind, job: Json, gates: Gates) -> bool:
    """Whether the job controls the Workload. With the gate, the UID must match as well."""
    meta = child(job, "metadata")
    for owner in stored.obj.metadata.owner_references or ():
        if owner.controller and owner.kind == kind.gvk.kind and owner.name == meta.get("name"):
            return owner.uid == text(meta.get("uid")) or not gates.on(Gate.FinishOrphanedWorkloads)
    return False


def matched(job_pass: JobPass, stored: StoredWorkload, *, resizable: bool = False) -> bool:
    """Whether the Workload matches the job of a pass. Raises TopologyRequestError.

    It also matches a job with an invalid topology request that runs or has to be stopped. The pass
    then continues with a fault.
    """
    view, kind, job = job_pass.view, job_pass.kind, job_pass.job
    try:
        return matching(stored, kind, job, view.flavors, view.config.gates, resizable=resizable)
    except TopologyRequestError as error:
        if job_pass.suspended and not stored.true("Evicted"):
            # The template may have been changed, so the job must not start.
            raise
        job_pass.fault, job_pass.invalid = str(error), True
        return True


def matching(
    stored: StoredWorkload,
    kind: JobKind,
    job: Json,
    flavors: Mapping[str, ResourceFlavor],
    gates: Gates,
    *,
    resizable: bool = False,
) -> bool:
    """Whether the Workload matches the job. Raises TopologyRequestError.

    A Workload with quota is compared with what its flavors add. A suspended job may also match the
    Workload as it was before it was admitted. If the job is `resizable`, only the names of its pod
    sets and what their pods request have to match.
    """
    if stored.obj.spec.maximum_execution_time_seconds != time_limit_s(job):
        return False
    try:
        asked = [sanitized(kind.pod_sets(job, gates))]
        if isinstance(kind, JobWithEarlierPodSets):
            asked.append(sanitized(kind.earlier_pod_sets(job, gates)))
    except PodSetsUnknown:
        # What the job depends on is gone. The Workload stays, so that the job can still be stopped.
        return True
    running = _running(stored, flavors, gates) if stored.reserved else None
    return any(_runs(stored, kind, job, each, running, resizable) for each in asked)


def _runs(
    stored: StoredWorkload,
    kind: JobKind,
    job: Json,
    asked: list[Json],
    running: list[Json] | None,
    resizable: bool,
) -> bool:
    """Whether the Workload matches a job with these pod sets."""
    lenient = stored.true("Admitted")
    if resizable:
        sizes = counts_of(stored)
        if sizes.keys() != {each["name"] for each in asked}:
            return False
        # The template of a running job has the tolerations of its first slice.
        asked, lenient = resized(asked, sizes), lenient or not kind.suspended(job)
    if running is not None:
        if equivalent(asked, running, ignore_tolerations=lenient):
            return True
        if not kind.suspended(job):
            return False
    original = child(stored.json, "spec").get("podSets")
    return equivalent(asked, original, ignore_tolerations=lenient)


def _running(
    stored: StoredWorkload, flavors: Mapping[str, ResourceFlavor], gates: Gates
) -> list[Json] | None:
    """Return the pod sets as the job runs them; None if the admission does not specify that."""
    original = child(stored.json, "spec").get("podSets") or []
    try:
        named = {each.name: each for each in injections(stored.obj, flavors, gates)}
        return [_with(each, named[each.get("name")]) for each in original]
    except (FlavorMissing, MergeConflict, KeyError):
        return None


def _with(pod_set: Json, added: Injection) -> Json:
    template = child(pod_set, "template")
    result = merged(msgspec.convert(template, PodTemplateSpec), added)
    tolerations = msgspec.to_builtins(result.spec.tolerations)
    spec = child(template, "spec") | {"tolerations": tolerations}
    changed = pod_set | {"template": template | {"spec": spec}}
    return changed | {"count": added.count} if pod_set.get("minCount") is not None else changed
