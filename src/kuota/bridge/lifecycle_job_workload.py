# SPDX-License-Identifier: Apache-2.0
"""The one Workload of a job: found among those there are, kept up to date, or made."""

from __future__ import annotations

from kuota.api.base import Json
from kuota.api.merge_patch import difference
from kuota.api.names import label_value
from kuota.api.priority import ClassMissing
from kuota.api.rules.job_common import PRIORITY_CLASS, suspended
from kuota.api.rules.metadata import annotation, label
from kuota.api.rules.report import child, string_map, text
from kuota.bridge.jobs.batch_job import sanitized

from .draft import Seen
from .effects import Create
from .inbound_workload import GATED_BY
from .jobs.batch_job import JOB_UID, workload
from .jobs.job_state import active, end
from .lifecycle_match import controlled, matching, owned, prebuilt_name
from .lifecycle_turn import Turn

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
    wanted = after | kept
    draft = turn.draft(first)
    draft.patch({"spec": difference(before, wanted)})
    turn.take(draft)
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
        draft = turn.draft(seen)
        conditions = draft.conditions()
        conditions.put("Finished", True, "OutOfSync", "The job asks for something else")
        draft.put(conditions)
        turn.take(draft)
        turn.stop(seen, "The workload does not match the job")
        turn.fault = f"workload {seen.key} does not match the job"
        return True
    return False


def _adopt(turn: Turn, seen: Seen) -> None:
    meta = child(turn.job, "metadata")
    name, uid = text(meta.get("name")), text(meta.get("uid"))
    owner: Json = {"apiVersion": "batch/v1", "kind": "Job", "name": name, "uid": uid}
    owner |= {"controller": True, "blockOwnerDeletion": True}
    body: Json = {"ownerReferences": [owner]}
    if uid and not label_value(uid):
        body["labels"] = {JOB_UID: uid}
    draft = turn.draft(seen)
    draft.patch({"metadata": body})
    turn.take(draft)


def _followed(turn: Turn, seen: Seen) -> bool:
    """Let the Workload follow the admission gates and the priority class of its job."""
    if seen.true("Finished") or seen.deleting:
        return False
    draft = turn.draft(seen)
    gated = annotation(turn.job, GATED_BY) or ""
    if seen.obj.metadata.annotation(GATED_BY) not in ("", gated):
        draft.patch({"metadata": {"annotations": {GATED_BY: gated or None}}})
    priority = _new_priority(turn, seen)
    if turn.fault:
        return True
    if priority:
        draft.patch({"spec": priority})
    if not draft.changed:
        return False
    turn.take(draft)
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
    key = turn.key
    name = child(new, "metadata")["name"]
    turn.add(Create(key=type(key)(key.namespace, name), object=new))
    turn.tell("CreatedWorkload", f"Created workload {key.namespace}/{name}")


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
