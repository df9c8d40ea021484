# SPDX-License-Identifier: Apache-2.0
"""The one Workload of a job: found among those there are, kept up to date, or made.

It is the one that asks for what the job asks for. `Turn` is the pass in which that happens.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

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
    STOPPING,
    prebuilt,
    suspended,
    time_limit_s,
)
from kuota.api.rules.metadata import ADMISSION_GATED_BY, annotation, label
from kuota.api.rules.report import child, string_map, text

from .draft import Draft, Pass, Seen
from .effects import Create, Delete, Effect, Event, StatusPatch, edit
from .jobs.batch_job import owned_by, pod_sets, sanitized, workload
from .jobs.job_start import as_before, injections, stopping
from .jobs.job_state import active, end
from .lifecycle_view import JobView

JOB = "Job"


class Turn:
    """One pass over a job. `seen` is its Workload once it was found."""

    def __init__(self, view: JobView, now: float) -> None:
        self.view = view
        self.now = now
        self.job: Json = view.job or {}
        self.seen: Seen | None = None
        self.again_s: float | None = None
        self.fault = ""
        self._effects: list[Effect] = []

    @property
    def key(self) -> Key:
        return self.view.key

    def add(self, *effects: Effect) -> None:
        self._effects += effects

    def tell(self, reason: str, note: str, *, warning: bool = False) -> None:
        self.add(Event.about(self.key, reason, note, warning=warning, kind=JOB))

    @contextmanager
    def draft(self, seen: Seen) -> Iterator[Draft]:
        """A block that changes a Workload. What it leads to is written when it ends."""
        draft = Draft(seen, self.now)
        yield draft
        self.add(*draft.done().effects)
        if self.seen is not None and self.seen.key == seen.key:
            self.seen = draft.seen

    def finish(self, seen: Seen, reason: str, message: str) -> None:
        """Say that the Workload is finished."""
        with self.draft(seen) as draft:
            draft.set_condition("Finished", True, reason, message)

    def write(self, after: Json, *, may_be_refused: bool = False) -> None:
        """Change the job to `after`, except for its status."""
        self.add(*edit(JOB, self.key, self.job, after, may_be_refused=may_be_refused))
        self.job = after

    def stop(self, seen: Seen | None, note: str) -> bool:
        """Suspend the job and restore its pod template; False while that has to wait for its pods.

        A template can be changed only while the Job is suspended and has no start time, so this
        takes three writes. The annotation set by the first makes the next pass continue if this one
        is interrupted.
        """
        waits = annotation(self.job, STOPPING) == "true" and self._has_active_pods
        if not suspended(self.job):
            told = annotation(self.job, STOPPING) == "true"
            self.write(stopping(self.job))
            if not told:
                self.tell("Stopped", note)
        if child(self.job, "status").get("startTime"):
            version = child(self.job, "metadata").get("resourceVersion", "")
            cleared = {"startTime": None}
            self.add(StatusPatch(key=self.key, resource_version=version, status=cleared, kind=JOB))
        if waits:
            # An earlier pass tried to restore the template, and the API server refused.
            return False
        pod_sets = child(seen.json, "spec").get("podSets") if seen is not None else None
        self.write(as_before(self.job, pod_sets), may_be_refused=self._has_active_pods)
        return True

    @property
    def _has_active_pods(self) -> bool:
        """Whether API servers of Kubernetes 1.36 and later refuse changes of the template."""
        return bool(child(self.job, "status").get("active"))

    def delete(self, seen: Seen) -> None:
        """Remove the finalizer of a Workload and delete it, unless it is being deleted already."""
        with self.draft(seen) as draft:
            draft.drop_finalizer()
            if not seen.deleting:
                draft.add(Delete(key=seen.key, uid=seen.obj.metadata.uid))
        if not seen.deleting:
            self.tell("DeletedWorkload", f"Deleted workload {seen.key}, which matches no job")

    def done(self) -> Pass:
        return Pass(effects=tuple(self._effects), again_s=self.again_s, fault=self.fault)


def prebuilt_name(job: Json, gates: Gates) -> str:
    """The Workload that the job brings with it, "" for none."""
    return prebuilt(job, gates)[0]


def controlled(seen: Seen, job: Json, gates: Gates) -> bool:
    """Whether the job controls the Workload. Another of the same name does not, gate permitting."""
    meta = child(job, "metadata")
    for owner in seen.obj.metadata.owner_references or ():
        if owner.controller and owner.kind == "Job" and owner.name == meta.get("name"):
            return owner.uid == text(meta.get("uid")) or not gates.on(Gate.FinishOrphanedWorkloads)
    return False


def matching(seen: Seen, job: Json, flavors: Mapping[str, ResourceFlavor], gates: Gates) -> bool:
    """Whether the Workload asks for what the job asks for.

    A Workload that holds quota is compared as it runs, with what its flavors add. A suspended job
    may also match the Workload as it was before it was admitted.
    """
    if seen.obj.spec.maximum_execution_time_seconds != time_limit_s(job):
        return False
    asked = sanitized(pod_sets(job, gates))
    lenient = seen.true("Admitted")
    running = _running(seen, flavors, gates) if seen.reserved else None
    if running is not None:
        if equivalent(asked, running, ignore_tolerations=lenient):
            return True
        if not suspended(job):
            return False
    stored = child(seen.json, "spec").get("podSets")
    return equivalent(asked, stored, ignore_tolerations=lenient)


def _running(seen: Seen, flavors: Mapping[str, ResourceFlavor], gates: Gates) -> list[Json] | None:
    """The pod sets as the job runs them; None if the admission does not say."""
    stored = child(seen.json, "spec").get("podSets") or []
    try:
        named = {each.name: each for each in injections(seen.obj, flavors, gates)}
        return [_with(each, named[each.get("name")]) for each in stored]
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


def found(turn: Turn) -> bool:
    """Find the job's Workload and bring it in line with the job; ends the pass if others go."""
    if prebuilt_name(turn.job, turn.view.rules.gates):
        _find_prebuilt(turn)
        return False
    surplus = _sorted_out(turn)
    outdated = None if turn.seen is not None else _updatable(turn, surplus)
    if turn.seen is None and not suspended(turn.job) and end(turn.job) is None:
        only = surplus[0] if len(surplus) == 1 else None
        if not turn.stop(only, "No workload matches the job"):
            # The original pod template is known only from the Workload, so it has to stay.
            return True
    excess = [seen for seen in surplus if seen is not outdated]
    for seen in excess:
        turn.delete(seen)
    if any(not seen.deleting for seen in excess):
        turn.fault = "workloads that do not match the job were deleted"
        return True
    if outdated is not None:
        _update(turn, outdated)
    elif turn.seen is not None:
        _follow(turn)
    return bool(turn.fault)


def _sorted_out(turn: Turn) -> list[Seen]:
    """Take the first Workload that matches the job as its own; the others are surplus."""
    rules, flavors = turn.view.rules, turn.view.flavors
    surplus: list[Seen] = []
    for seen in turn.view.workloads:
        own = controlled(seen, turn.job, rules.gates)
        if turn.seen is None and own and matching(seen, turn.job, flavors, rules.gates):
            turn.seen = seen
        else:
            surplus.append(seen)
    return surplus


def _updatable(turn: Turn, surplus: list[Seen]) -> Seen | None:
    """The Workload that is kept and updated because its suspended job was edited, if any."""
    own = (each for each in surplus if controlled(each, turn.job, turn.view.rules.gates))
    first = next(own, None)
    if first is None or first.reserved or first.deleting or first.true("Finished"):
        return None
    return first if suspended(turn.job) else None


def _update(turn: Turn, outdated: Seen) -> None:
    """Write what the job asks for into its Workload."""
    new = _constructed(turn)
    if new is None:
        return
    turn.seen = outdated
    before, after = child(outdated.json, "spec"), child(new, "spec")
    kept = {"active": before["active"]} if "active" in before else {}
    with turn.draft(outdated) as draft:
        draft.patch({"spec": difference(before, after | kept)})
    turn.tell("UpdatedWorkload", f"Updated workload {outdated.key}: the job was changed")


def _find_prebuilt(turn: Turn) -> None:
    """Adopt the Workload that the job names. One that another object controls counts as missing.

    One that asks for something else is finished, and counts as missing too.
    """
    seen, gates = turn.view.prebuilt, turn.view.rules.gates
    if seen is None:
        return
    owners = [each.uid for each in seen.obj.metadata.owner_references or () if each.controller]
    if owners and owners[0] != text(child(turn.job, "metadata").get("uid")):
        return
    turn.seen = seen
    if not owners:
        _adopt(turn, seen)
    if not matching(turn.seen, turn.job, turn.view.flavors, gates):
        if not turn.seen.true("Finished"):
            turn.finish(turn.seen, "OutOfSync", "The job asks for something else")
        turn.seen = None


def _adopt(turn: Turn, seen: Seen) -> None:
    with turn.draft(seen) as draft:
        draft.patch({"metadata": owned_by(turn.job)})


def _follow(turn: Turn) -> None:
    """Bring admission gates and priority of the Workload in line with the job."""
    seen = turn.seen
    if seen is None or seen.true("Finished") or seen.deleting:
        return
    gates = annotation(turn.job, ADMISSION_GATED_BY) or ""
    enabled = turn.view.rules.gates.on(Gate.AdmissionGatedBy)
    if enabled and seen.obj.metadata.annotation(ADMISSION_GATED_BY) not in ("", gates):
        with turn.draft(seen) as draft:
            draft.patch({"metadata": {"annotations": {ADMISSION_GATED_BY: gates or None}}})
        turn.tell("UpdatedWorkload", f"Updated workload {seen.key}: admission gates were removed")
    priority = _new_priority(turn, seen)
    if priority:
        with turn.draft(turn.seen or seen) as draft:
            draft.patch({"spec": priority})
        turn.tell("UpdatedWorkload", f"Updated workload {seen.key}: its priority class changed")


def _new_priority(turn: Turn, seen: Seen) -> Json:
    """The priority that follows from the class that the job names now; empty if it is the same.

    The priority of a Workload that follows a PriorityClass does not change, nor that of one that
    holds quota without any class.
    """
    ref = seen.obj.spec.priority_class_ref
    frozen = ref.kind != _WORKLOAD_CLASS if ref is not None else seen.reserved
    if frozen or (label(turn.job, PRIORITY_CLASS) or "") == (ref.name if ref is not None else ""):
        return {}
    new = _constructed(turn)
    if new is None:
        return {}
    spec = child(new, "spec")
    return {field: spec.get(field) for field in ("priority", "priorityClassRef")}


def created(turn: Turn) -> None:
    """Create the Workload, unless the job still has pods: they would run without quota.

    The Workload of a job that brings its own is waited for, while the job is suspended.
    """
    named = prebuilt_name(turn.job, turn.view.rules.gates)
    if named:
        turn.stop(None, "The workload that the job names does not exist")
    if active(turn.job):
        return
    if named:
        turn.fault = f"workload {named} not found"
        return
    new = _constructed(turn)
    if new is None:
        return
    key = Key(turn.key.namespace, child(new, "metadata")["name"])
    turn.add(Create(key=key, object=new))
    turn.tell("CreatedWorkload", f"Created workload {key}")


def _constructed(turn: Turn) -> Json | None:
    """The Workload of the job; None, with a fault, if it names a priority class that is missing."""
    rules = turn.view.rules
    try:
        made = workload(turn.job, turn.view.classes, rules.gates)
    except ClassMissing as error:
        turn.fault = str(error)
        if label(turn.job, PRIORITY_CLASS):
            reason = "WorkloadPriorityClassNotFound"
            turn.tell(reason, f"Cannot queue the job: {error}", warning=True)
        return None
    meta = {field: each for field, each in made["metadata"].items() if field != "creationTimestamp"}
    for field, keys in (
        ("labels", rules.labels_to_copy),
        ("annotations", rules.annotations_to_copy),
    ):
        given = string_map(child(turn.job, "metadata").get(field))
        copied = {key: given[key] for key in keys if key in given}
        if copied:
            meta[field] = copied | (meta.get(field) or {})
    spec = made["spec"] | {"podSets": sanitized(made["spec"]["podSets"])}
    if not spec["queueName"]:
        # An API server refuses an empty name; no name at all is one to be set later.
        del spec["queueName"]
    return made | {"metadata": meta, "spec": spec}
