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
from kuota.api.rules.job_common import MAX_EXEC_TIME, PREBUILT, PRIORITY_CLASS, STOPPING, suspended
from kuota.api.rules.metadata import ADMISSION_GATED_BY, annotation, label
from kuota.api.rules.report import child, string_map, text, whole

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

    def write(self, after: Json) -> None:
        """Make the job so; its status is left alone."""
        self.add(*edit(JOB, self.key, self.job, after))
        self.job = after

    def stop(self, seen: Seen | None, note: str) -> bool:
        """Suspend the job and take back what its start gave it; whether all of it is taken back.

        Three writes, because a Job may be set back only while suspended, without a start time and
        without active pods. The mark of the first makes the next pass go on, should this one be
        cut off or have to wait for the pods.
        """
        pod_sets = child(seen.json, "spec").get("podSets") if seen is not None else None
        if suspended(self.job):
            self.write(as_before(self.job, pod_sets))
            return True
        told = annotation(self.job, STOPPING) == "true"
        self.write(stopping(self.job))
        if not told:
            self.tell("Stopped", note)
        if child(self.job, "status").get("startTime"):
            version = child(self.job, "metadata").get("resourceVersion", "")
            cleared = {"startTime": None}
            self.add(StatusPatch(key=self.key, resource_version=version, status=cleared, kind=JOB))
        if child(self.job, "status").get("active"):
            return False
        self.write(as_before(self.job, pod_sets))
        return True

    def delete(self, seen: Seen) -> None:
        """Let go of a Workload, and delete it."""
        with self.draft(seen) as draft:
            draft.drop_finalizer()
            draft.add(Delete(key=seen.key, uid=seen.obj.metadata.uid))
        note = f"Deleted workload {seen.key}, which is not the job's any more"
        self.tell("DeletedWorkload", note)

    def done(self) -> Pass:
        return Pass(effects=tuple(self._effects), again_s=self.again_s, fault=self.fault)


def prebuilt_name(job: Json, gates: Gates) -> str:
    """The Workload that the job brings with it, "" for none."""
    named = annotation(job, PREBUILT) if gates.on(Gate.WorkloadIdentifierAnnotations) else ""
    return named or label(job, PREBUILT) or ""


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


_WORKLOAD_CLASS = "WorkloadPriorityClass"


def found(turn: Turn) -> bool:
    """Find the job's Workload, and make it say what the job says; ends if that takes a write."""
    if prebuilt_name(turn.job, turn.view.rules.gates):
        return _prebuilt(turn)
    rules, flavors = turn.view.rules, turn.view.flavors
    surplus: list[Seen] = []
    for seen in turn.view.workloads:
        own = controlled(seen, turn.job, rules.gates)
        if turn.seen is None and own and matching(seen, turn.job, flavors, rules.gates):
            turn.seen = seen
        else:
            surplus.append(seen)
    if turn.seen is None and _updated(turn, surplus):
        return True
    if turn.seen is None and end(turn.job) is None:
        only = surplus[0] if len(surplus) == 1 else None
        if not turn.stop(only, "No workload matches the job"):
            # What the start changed is known only from the Workload, so that has to stay.
            return True
    for seen in surplus:
        turn.delete(seen)
    if surplus:
        turn.fault = "workloads that do not match the job were deleted"
        return True
    return turn.seen is not None and _followed(turn, turn.seen)


def _updated(turn: Turn, surplus: list[Seen]) -> bool:
    """A job that is edited while it waits keeps its Workload, which is edited with it."""
    own = [each for each in surplus if controlled(each, turn.job, turn.view.rules.gates)]
    first = own[0] if own else None
    usable = first is not None and not first.reserved and not first.deleting
    if first is None or not usable or first.true("Finished") or not suspended(turn.job):
        return False
    new = _constructed(turn)
    if new is None:
        return True
    before, after = child(first.json, "spec"), child(new, "spec")
    kept = {"active": before["active"]} if "active" in before else {}
    with turn.draft(first) as draft:
        draft.patch({"spec": difference(before, after | kept)})
    turn.tell("UpdatedWorkload", f"Updated workload {first.key}: the job was changed")
    return True


def _prebuilt(turn: Turn) -> bool:
    """The Workload that the job names, adopted. One of somebody else's counts as missing."""
    seen, gates = turn.view.prebuilt, turn.view.rules.gates
    if seen is None or (owned(seen) and not controlled(seen, turn.job, gates)):
        turn.stop(None, "The workload that the job names does not exist")
        turn.fault = f"workload {prebuilt_name(turn.job, gates)} not found"
        return True
    turn.seen = seen
    if not owned(seen):
        _adopt(turn, seen)
    seen = turn.seen
    if not seen.true("Finished") and not matching(seen, turn.job, turn.view.flavors, gates):
        turn.finish(seen, "OutOfSync", "The job asks for something else")
        turn.stop(seen, "The workload does not match the job")
        turn.fault = f"workload {seen.key} does not match the job"
        return True
    return False


def _adopt(turn: Turn, seen: Seen) -> None:
    with turn.draft(seen) as draft:
        draft.patch({"metadata": owned_by(turn.job)})


def _followed(turn: Turn, seen: Seen) -> bool:
    """Let the Workload follow the admission gates and the priority class of its job."""
    if seen.true("Finished") or seen.deleting:
        return False
    priority = _new_priority(turn, seen)
    if turn.fault:
        return True
    with turn.draft(seen) as draft:
        gated = annotation(turn.job, ADMISSION_GATED_BY) or ""
        if seen.obj.metadata.annotation(ADMISSION_GATED_BY) not in ("", gated):
            draft.patch({"metadata": {"annotations": {ADMISSION_GATED_BY: gated or None}}})
        if priority:
            draft.patch({"spec": priority})
    if not draft.changed:
        return False
    turn.tell("UpdatedWorkload", f"Updated workload {seen.key}: the job was changed")
    return True


def _new_priority(turn: Turn, seen: Seen) -> Json:
    """The priority of the class that the job names by now; nothing when it is the same.

    One that came from a PriorityClass, or a reserved one without any class, may not change.
    """
    name = label(turn.job, PRIORITY_CLASS) or ""
    ref = seen.obj.spec.priority_class_ref
    frozen = ref.kind != _WORKLOAD_CLASS if ref is not None else seen.reserved
    if not name or frozen or (ref is not None and ref.name == name):
        return {}
    new = _constructed(turn)
    if new is None:
        return {}
    spec = child(new, "spec")
    return {field: spec.get(field) for field in ("priority", "priorityClassRef")}


def created(turn: Turn) -> None:
    """Make the Workload, unless pods of the job are still there: they would run without quota."""
    if active(turn.job):
        return
    new = _constructed(turn)
    if new is None:
        return
    key = Key(turn.key.namespace, child(new, "metadata")["name"])
    turn.add(Create(key=key, object=new))
    turn.tell("CreatedWorkload", f"Created workload {key}")


def _constructed(turn: Turn) -> Json | None:
    """The Workload of the job; None, with a word to its owner, when it cannot be made."""
    rules = turn.view.rules
    try:
        made = workload(turn.job, turn.view.classes, rules.gates)
    except ClassMissing as error:
        turn.fault = str(error)
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
