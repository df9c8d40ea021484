# SPDX-License-Identifier: Apache-2.0
"""Which Workload stands for a job: the one that asks for what the job asks for."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from kuota.api.base import Json
from kuota.api.core import PodTemplateSpec
from kuota.api.equivalence import equivalent
from kuota.api.gates import Gate, Gates
from kuota.api.kueue import ResourceFlavor
from kuota.api.podset import FlavorMissing, Injection, MergeConflict, merged
from kuota.api.rules.job_common import MAX_EXEC_TIME, PREBUILT, suspended
from kuota.api.rules.metadata import annotation, label
from kuota.api.rules.report import child, text, whole
from kuota.bridge.jobs.batch_job import sanitized

from .draft import Seen
from .jobs.batch_job import pod_sets
from .jobs.job_start import injections


def prebuilt_name(job: Json, gates: Gates) -> str:
    """The Workload that the job brings with it, "" for none."""
    named = annotation(job, PREBUILT) or ""
    return named if named and gates.on(Gate.WorkloadIdentifierAnnotations) else _label(job)


def _label(job: Json) -> str:
    return label(job, PREBUILT) or ""


def controlled(seen: Seen, job: Json, gates: Gates) -> bool:
    """Whether the job controls the Workload. Another of the same name does not, gate permitting."""
    meta = child(job, "metadata")
    for owner in seen.obj.metadata.owner_references or ():
        if owner.controller and owner.kind == "Job" and owner.name == meta.get("name"):
            return owner.uid == text(meta.get("uid")) or not gates.on(Gate.FinishOrphanedWorkloads)
    return False


def owned(seen: Seen) -> bool:
    """Whether anybody controls the Workload."""
    return any(owner.controller for owner in seen.obj.metadata.owner_references or ())


def matching(seen: Seen, job: Json, flavors: Mapping[str, ResourceFlavor], gates: Gates) -> bool:
    """Whether the Workload was made from what the job asks for.

    One that holds quota is compared as it runs, with what its flavors add; if the job is at rest
    it may also be as it was before.
    """
    limit = whole(label(job, MAX_EXEC_TIME) or "")
    if seen.obj.spec.maximum_execution_time_seconds != limit:
        return False
    asked = sanitized(pod_sets(job, gates))
    lenient = seen.true("Admitted")
    if seen.reserved:
        running = _running(seen, flavors, gates)
        if running is not None and equivalent(asked, running, ignore_tolerations=lenient):
            return True
        if not suspended(job):
            return False
    stored = child(seen.json, "spec").get("podSets")
    return equivalent(asked, stored, ignore_tolerations=lenient)


def _running(seen: Seen, flavors: Mapping[str, ResourceFlavor], gates: Gates) -> list[Json] | None:
    """The pod sets as the job runs them; None when that cannot be told."""
    stored = child(seen.json, "spec").get("podSets") or []
    try:
        given = injections(seen.obj, flavors, gates)
        named = {each.name: each for each in given}
        return [
            _with(each, named.get(each.get("name")) or given[at]) for at, each in enumerate(stored)
        ]
    except (FlavorMissing, MergeConflict, IndexError):
        return None


def _with(pod_set: Json, added: Injection) -> Json:
    template = child(pod_set, "template")
    result = merged(msgspec.convert(template, PodTemplateSpec), added)
    tolerations = msgspec.to_builtins(result.spec.tolerations)
    spec = child(template, "spec") | {"tolerations": tolerations}
    changed = pod_set | {"template": template | {"spec": spec}}
    return changed | {"count": added.count} if pod_set.get("minCount") is not None else changed
