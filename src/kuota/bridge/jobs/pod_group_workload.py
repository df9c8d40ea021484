# SPDX-License-Identifier: Apache-2.0
"""The Workload of a pod group: its construction, and which Pods a Workload covers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from kuota.api.base import Json
from kuota.api.gates import Gate, Gates
from kuota.api.rules.job_common import prebuilt, time_limit_s
from kuota.api.rules.metadata import annotation
from kuota.api.rules.report import child, string_map, text
from kuota.api.workload import PodSet

from ..draft import StoredWorkload
from ..effects import Effect, Event
from .composable import IS_GROUP, Match
from .kind import PodSetsUnknown, key_of
from .pod import pod_set, released
from .pod_gates import role
from .pod_group_members import (
    Pods,
    PodTraits,
    disagreement,
    fast,
    index_fault,
    last_active,
    pods_of,
    removed,
    runs,
    to_keep,
    total,
)

MAX_ROLES = 18
INVALID_GROUP = "InvalidPodGroup"
"""The reason of the event about Pods that contradict each other."""


def sizes(job: Json) -> list[tuple[str, int]]:
    """Return the name and size of the pod set of each role, in the order of their names.

    A group with fast admission consists of pods like the first one. Raises PodSetsUnknown.
    """
    pods = pods_of(job)
    if not fast(job):
        return _by_role(pods)
    first, count = pods.first(runs), total(job)
    if first is None or count is None:
        raise PodSetsUnknown("the pod group has no runnable pod")
    return [(role(first), count)]


def pod_sets(job: Json, gates: Gates) -> list[Json]:
    """Return a pod set for each role, with its oldest pod as template. Raises PodSetsUnknown."""
    found = ((_oldest(job, name), name, count) for name, count in sizes(job))
    return [pod_set(pod, name, count, gates) for pod, name, count in found]


def _by_role(pods: Pods) -> list[tuple[str, int]]:
    found = Counter[str]()
    for each, count in pods.tally():
        found[each.role] += count if each.runnable else 0
    return sorted((name, count) for name, count in found.items() if count)


def _oldest(job: Json, name: str) -> Json:
    """Return the oldest runnable pod of a role."""
    return pods_of(job).first(lambda each: each.runnable and each.role == name) or {}


def pod_priority_class(job: Json) -> str:
    """Return the PriorityClass of the first role that names one."""
    oldest = (_oldest(job, name) for name, _ in _by_role(pods_of(job)))
    named = (text(child(pod, "spec").get("priorityClassName")) for pod in oldest)
    return next(filter(None, named), "")


def metadata(job: Json) -> Json:
    """Return the metadata of a new Workload. Every Pod owns it, and none controls it."""
    return {
        "name": child(job, "metadata").get("name"),
        "annotations": {IS_GROUP: "true"},
        "ownerReferences": [owner(pod) for pod in pods_of(job)],
    }


def owner(pod: Json) -> Json:
    """Return the reference of a Workload to a Pod."""
    meta = child(pod, "metadata")
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "name": text(meta.get("name")),
        "uid": text(meta.get("uid")),
    }


def copied(job: Json, field: str, keys: Sequence[str]) -> dict[str, str]:
    """Return these labels or annotations of the Pods. Raises PodSetsUnknown if they differ."""
    found: dict[str, str] = {}
    for pod in pods_of(job) if keys else ():
        given = string_map(child(pod, "metadata").get(field))
        for key in keys:
            if key in given and found.setdefault(key, given[key]) != given[key]:
                raise PodSetsUnknown(f"the pods of the group have different {field} {key}")
    return found


def owns(stored: StoredWorkload, gates: Gates) -> bool:
    """Whether the Workload is that of a group, and not of another job with the same name."""
    return (
        not gates.on(Gate.PodIntegrationValidateGroupOwner)
        or _of_group(stored)
        or not any(each.controller for each in stored.obj.metadata.owner_references or ())
    )


def woken_by(workload: Json, gates: Gates, *, deleted: bool) -> bool:
    """Whether a change of the Workload concerns the group of the same name.

    The deletion of another Workload releases the name.
    """
    if annotation(workload, IS_GROUP) == "true":
        return bool(child(workload, "metadata").get("ownerReferences"))
    return deleted and gates.on(Gate.PodIntegrationValidateGroupOwner)


def _of_group(stored: StoredWorkload) -> bool:
    return stored.obj.metadata.annotation(IS_GROUP) == "true"


def prepare(job: Json, gates: Gates) -> Match:
    """Return the group without surplus Pods, if it is complete and its Pods agree.

    Pods that will not run again are released. Raises PodSetsUnknown.
    """
    pods = pods_of(job)
    usable, count = pods.count(runs), _size(job)
    effects: list[Effect] = list(released(pods.where(_ended)))
    if not fast(job) and usable < count:
        fault = f"the group has {usable} of {count} pods; create the missing ones"
        return _refused(job, effects, "ErrWorkloadCompose", fault)
    fault = _disagreement(pods, count)
    if not fault and usable > count:
        surplus = to_keep(pods.where(runs))[count:]
        effects += removed(surplus)
        pods = pods.only(runs).without(surplus)
        job = job | {"items": pods}
    roles = len(_by_role(pods))
    if not fault and roles > MAX_ROLES:
        fault = f"a pod group can have {MAX_ROLES} roles; this one has {roles}"
    if fault:
        return _refused(job, effects, INVALID_GROUP, fault)
    return Match(job=job, effects=tuple(effects))


def _ended(pod: PodTraits) -> bool:
    """Whether the pod will not run again, and a finalizer keeps it."""
    return pod.held and not pod.runnable


def _refused(job: Json, effects: Sequence[Effect], reason: str, fault: str) -> Match:
    first = pods_of(job).first() or job
    event = Event.about(key_of(first), reason, fault, warning=True, kind="Pod")
    return Match(job=job, effects=(*effects, event), refused=fault)


def _size(job: Json) -> int:
    """Return the size of the group. Raises PodSetsUnknown."""
    count = total(job)
    if count is None:
        raise PodSetsUnknown("the size of the pod group is not a number above 0")
    fault = index_fault(pods_of(job).first() or {}, count)
    if fault:
        raise PodSetsUnknown(fault)
    return count


def _disagreement(pods: Pods, count: int) -> str:
    try:
        return disagreement(pods, count)
    except ValueError as error:
        raise PodSetsUnknown(str(error)) from error


def match(job: Json, stored: StoredWorkload, gates: Gates) -> Match:
    """Return the Pods that the Workload covers, and the writes that remove the surplus.

    A Workload that is not of a group stays as it is.
    """
    if gates.on(Gate.PodIntegrationValidateGroupOwner) and not _of_group(stored):
        return _conflict(job, stored)
    if stored.obj.spec.maximum_execution_time_seconds != time_limit_s(job):
        return Match(job=job, matches=False)
    now = child(job, "status").get("observedAt") or 0.0
    roles = {each.name: _Role(job, each, now) for each in stored.obj.spec.pod_sets or ()}
    kept = [(name, each.usable) for name, each in sorted(roles.items()) if each.usable]
    if not any(each.kept for each in roles.values()) or not equivalent(job, stored, kept, gates):
        return Match(job=job, matches=False)
    excess = [pod for each in roles.values() for pod in each.excess]
    replaced = [pod for each in roles.values() for pod in each.replaced]
    pods = pods_of(job).only(lambda each: each.role in roles).without((*excess, *replaced))
    absent = sum(each.absent for each in roles.values())
    covered = job | {"items": pods, "status": child(job, "status") | {"absentPods": absent}}
    if child(job, "status").get("stale"):
        # The cache may contain Pods that were removed already. Counting them would remove others.
        return Match(job=covered, refused="the pods of the group may have changed")
    return Match(job=covered, effects=(*removed(excess), *released(replaced)))


class _Role:
    """The Pods of one role: how many stay, surplus ones, and ended ones that were replaced."""

    def __init__(self, job: Json, pod_set: PodSet, now: float) -> None:
        pods, count = pods_of(job), pod_set.count

        def usable(each: PodTraits) -> bool:
            return each.runnable and each.role == pod_set.name

        def ended(each: PodTraits) -> bool:
            return not each.runnable and each.role == pod_set.name

        running, over = pods.count(usable), pods.count(ended)
        left = max(0, count - running)
        self.usable = min(running, count)
        self.kept = self.usable + min(over, left)
        self.excess = to_keep(pods.where(usable))[count:] if running > count else []
        self.replaced = last_active(pods.where(ended), now)[left:] if over > left else []
        # With fast admission Pods may be created later; only a role without any is incomplete.
        self.absent = int(count > 0 and not running) if fast(job) else left


def equivalent(
    job: Json, stored: StoredWorkload, asked: Sequence[tuple[str, int]], gates: Gates
) -> bool:
    """Whether the Workload covers pod sets of these names and sizes.

    Fewer Pods are fine: they may be replaced. Of a finished Workload, only the roles are compared.
    """
    named = prebuilt(job, gates)[0] or child(job, "metadata").get("name")
    if stored.obj.metadata.name != named:
        return False
    finished, offered = stored.true("Finished"), iter(stored.obj.spec.pod_sets or ())
    if not finished and len(stored.obj.spec.pod_sets or ()) < len(asked):
        return False
    for name, count in asked:
        found = next((each for each in offered if each.name == name), None)
        if found is None or (not finished and found.count < count):
            return False
    return True


def _conflict(job: Json, stored: StoredWorkload) -> Match:
    name = stored.obj.metadata.name
    message = (
        f'A Workload named "{name}" already exists but is not a pod group workload; '
        "this pod group cannot be admitted"
    )
    # The Pods of this group stay gated, so deleted ones would be kept forever.
    effects = list(released(pods_of(job).where(_ended)))
    return _refused(job, effects, "WorkloadNameConflict", message)
