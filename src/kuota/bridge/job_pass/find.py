# SPDX-License-Identifier: Apache-2.0
"""The Workload of a job: find it among the existing ones, update it, or create it.

It is the one whose spec matches the job.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from kuota.api.base import Json, Key
from kuota.api.core import PodTemplateSpec
from kuota.api.gates import Gate, Gates
from kuota.api.kueue import ResourceFlavor
from kuota.api.merge_patch import difference
from kuota.api.podset import FlavorMissing, Injection, MergeConflict, equivalent, merged
from kuota.api.priority import ClassMissing
from kuota.api.rules.job_common import (
    PRIORITY_CLASS,
    prebuilt,
    time_limit_s,
)
from kuota.api.rules.metadata import ADMISSION_GATED_BY, annotation, label
from kuota.api.rules.report import child, elements, mapping, string_map, text

from ..draft import StoredWorkload
from ..effects import Create
from ..jobs.composed import Composed
from ..jobs.kind import JobKind
from .injections import injections
from .job_pass import JobPass
from .workload import owned_by, priority_of, sanitized, workload


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


def matching(
    stored: StoredWorkload,
    kind: JobKind,
    job: Json,
    flavors: Mapping[str, ResourceFlavor],
    gates: Gates,
) -> bool:
    """Whether the Workload matches the job.

    A Workload with quota is compared with what its flavors add. A suspended job may also match the
    Workload as it was before it was admitted.
    """
    if stored.obj.spec.maximum_execution_time_seconds != time_limit_s(job):
        return False
    asked = sanitized(kind.pod_sets(job, gates))
    lenient = stored.true("Admitted")
    running = _running(stored, flavors, gates) if stored.reserved else None
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


_WORKLOAD_CLASS = "WorkloadPriorityClass"
NO_MATCH = "NoMatchingWorkload"


def found(job_pass: JobPass) -> bool:
    """Find the job's Workload and update it. Returns true if others are deleted first."""
    if prebuilt_name(job_pass.job, job_pass.view.config.gates):
        _find_prebuilt(job_pass)
        return False
    surplus = _sorted_out(job_pass)
    if job_pass.refused:
        return True
    outdated = None if job_pass.workload is not None else _updatable(job_pass, surplus)
    if job_pass.workload is None and not _at_rest(job_pass):
        only = surplus[0] if len(surplus) == 1 else None
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
        _follow(job_pass)
    return bool(job_pass.fault or job_pass.refused)


def _sorted_out(job_pass: JobPass) -> list[StoredWorkload]:
    """Select the first Workload that matches the job, and return the others."""
    config, flavors, kind = job_pass.view.config, job_pass.view.flavors, job_pass.kind
    if isinstance(kind, Composed):
        return _composed(job_pass, kind)
    surplus: list[StoredWorkload] = []
    for stored in job_pass.view.workloads:
        own = controlled(stored, kind, job_pass.job, config.gates)
        if (
            job_pass.workload is None
            and own
            and matching(stored, kind, job_pass.job, flavors, config.gates)
        ):
            job_pass.workload = stored
        else:
            surplus.append(stored)
    return surplus


def _composed(job_pass: JobPass, kind: Composed) -> list[StoredWorkload]:
    """Select the Workload of a composed job, and return it if it is outdated.

    All members become owners of the Workload, and members that it does not cover are removed.
    """
    for stored in job_pass.view.workloads:
        found = kind.match(job_pass.job, stored, job_pass.view.config.gates)
        if found.refused:
            job_pass.refuse(found)
            return []
        if not found.matches:
            return [stored]
        job_pass.job, job_pass.workload = found.job, stored
        _adopt_all(job_pass, kind, stored)
        job_pass.add(*found.effects)
    return []


def _adopt_all(job_pass: JobPass, kind: Composed, stored: StoredWorkload) -> None:
    """Make every member an owner of the Workload."""
    wanted = kind.workload_metadata(job_pass.job)["ownerReferences"]
    before = list(map(mapping, elements(child(stored.json, "metadata").get("ownerReferences"))))
    known = {(each.get("kind"), each.get("name"), each.get("uid")) for each in before}
    added = [each for each in wanted if (each["kind"], each["name"], each["uid"]) not in known]
    if not added:
        return
    # A member that was created again under the same name takes the place of the previous one.
    again = {(each["kind"], each["name"]) for each in added}
    before = [each for each in before if (each.get("kind"), each.get("name")) not in again]
    with job_pass.draft(stored) as draft:
        draft.patch({"metadata": {"ownerReferences": [*before, *added]}})
        draft.record_event("OwnerReferencesAdded", f"Added {len(added)} owner reference(s)")


def _updatable(job_pass: JobPass, surplus: list[StoredWorkload]) -> StoredWorkload | None:
    """Return the Workload to update because its suspended job was edited, if any."""
    kind, job, gates = job_pass.kind, job_pass.job, job_pass.view.config.gates
    mine = isinstance(kind, Composed)
    first = next((each for each in surplus if mine or controlled(each, kind, job, gates)), None)
    if first is None or first.reserved or first.deleting or first.true("Finished"):
        return None
    return first if kind.suspended(job) else None


def _at_rest(job_pass: JobPass) -> bool:
    """Whether the job is suspended or has ended."""
    kind, job = job_pass.kind, job_pass.job
    return kind.suspended(job) or kind.end(job) is not None


def _update(job_pass: JobPass, outdated: StoredWorkload) -> None:
    """Update the Workload to the spec of the job."""
    new = _constructed(job_pass)
    if new is None:
        return
    job_pass.workload = outdated
    before, after = child(outdated.json, "spec"), child(new, "spec")
    kept = {"active": before["active"]} if "active" in before else {}
    with job_pass.draft(outdated) as draft:
        draft.patch({"spec": difference(before, after | kept)})
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
    kind, flavors = job_pass.kind, job_pass.view.flavors
    if isinstance(kind, Composed):
        _adopt_all(job_pass, kind, stored)
        matches = kind.equivalent(job_pass.job, job_pass.workload, gates)
    else:
        if not owners:
            _adopt(job_pass, stored)
        matches = matching(job_pass.workload, kind, job_pass.job, flavors, gates)
    if not matches:
        if not job_pass.workload.true("Finished"):
            job_pass.finish(
                job_pass.workload,
                "OutOfSync",
                "The prebuilt workload is out of sync with its user job",
            )
        job_pass.workload = None


def _adopt(job_pass: JobPass, stored: StoredWorkload) -> None:
    with job_pass.draft(stored) as draft:
        draft.patch({"metadata": owned_by(job_pass.kind, job_pass.job)})


def _follow(job_pass: JobPass) -> None:
    """Update the admission gates and the priority of the Workload from the job."""
    stored = job_pass.workload
    if stored is None or stored.true("Finished") or stored.deleting:
        return
    gates = annotation(job_pass.job, ADMISSION_GATED_BY) or ""
    enabled = job_pass.view.config.gates.on(Gate.AdmissionGatedBy)
    if enabled and stored.obj.metadata.annotation(ADMISSION_GATED_BY) not in ("", gates):
        with job_pass.draft(stored) as draft:
            draft.patch({"metadata": {"annotations": {ADMISSION_GATED_BY: gates or None}}})
        job_pass.record_event(
            "UpdatedWorkload", f"Updated workload {stored.key}: admission gates were removed"
        )
    priority = _new_priority(job_pass, stored)
    if priority:
        with job_pass.draft(job_pass.workload or stored) as draft:
            draft.patch({"spec": priority})
        job_pass.record_event(
            "UpdatedWorkload", f"Updated workload {stored.key}: its priority class changed"
        )


def _new_priority(job_pass: JobPass, stored: StoredWorkload) -> Json:
    """Return the priority of the class that the job names now; empty if it is unchanged.

    The priority does not change if it comes from a PriorityClass, or if the Workload has quota and
    no class.
    """
    ref = stored.obj.spec.priority_class_ref
    frozen = ref.kind != _WORKLOAD_CLASS if ref is not None else stored.reserved
    if frozen or (label(job_pass.job, PRIORITY_CLASS) or "") == (
        ref.name if ref is not None else ""
    ):
        return {}
    try:
        new, value = priority_of(job_pass.kind, job_pass.job, job_pass.view.classes)
    except ClassMissing as error:
        _report_missing(job_pass, error)
        return {}
    return {
        "priority": value,
        "priorityClassRef": msgspec.to_builtins(new) if new is not None else None,
    }


def created(job_pass: JobPass) -> None:
    """Create the Workload, unless the job still has pods, which would run without quota.

    A job that names a prebuilt Workload stays suspended until that Workload exists.
    """
    named = prebuilt_name(job_pass.job, job_pass.view.config.gates)
    if named:
        job_pass.stop(None, NO_MATCH, "The workload that the job names does not exist")
    if job_pass.busy:
        return
    if named:
        job_pass.fault = f"workload {named} not found"
        return
    new = _constructed(job_pass)
    if new is None:
        return
    key = Key(job_pass.key.namespace, child(new, "metadata")["name"])
    job_pass.add(Create(key=key, object=new))
    job_pass.record_event("CreatedWorkload", f"Created workload {key}")


def _constructed(job_pass: JobPass) -> Json | None:
    """Construct the Workload of the job; None with a fault or a refusal if that is impossible."""
    config, kind = job_pass.view.config, job_pass.kind
    if isinstance(kind, Composed):
        ready = kind.prepare(job_pass.job, config.gates)
        job_pass.refuse(ready)
        if ready.refused:
            return None
    try:
        made = workload(job_pass.kind, job_pass.job, job_pass.view.classes, config.gates)
    except ClassMissing as error:
        _report_missing(job_pass, error)
        return None
    meta = {field: each for field, each in made["metadata"].items() if field != "creationTimestamp"}
    for field, keys in (
        ("labels", config.labels_to_copy),
        ("annotations", config.annotations_to_copy),
    ):
        if isinstance(kind, Composed):
            copied = kind.copied(job_pass.job, field, keys)
        else:
            given = string_map(child(job_pass.job, "metadata").get(field))
            copied = {key: given[key] for key in keys if key in given}
        if copied:
            meta[field] = copied | (meta.get(field) or {})
    spec = made["spec"] | {"podSets": sanitized(made["spec"]["podSets"])}
    if not spec["queueName"]:
        # The API server rejects an empty queue name; a missing one may be set later.
        del spec["queueName"]
    return made | {"metadata": meta, "spec": spec}


def _report_missing(job_pass: JobPass, error: ClassMissing) -> None:
    job_pass.fault = str(error)
    if label(job_pass.job, PRIORITY_CLASS):
        reason = "WorkloadPriorityClassNotFound"
        job_pass.record_event(reason, f"Cannot queue the job: {error}", warning=True)
