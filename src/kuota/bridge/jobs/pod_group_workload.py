# SPDX-License-Identifier: Apache-2.0
"""The Workload of a pod group: its construction, and which Pods a Workload covers."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from kuota.api.base import Json
from kuota.api.gates import Gate, Gates
from kuota.api.rules.job_common import prebuilt, time_limit_s
from kuota.api.rules.metadata import PREFIX, annotation
from kuota.api.rules.report import child, elements, integer, mapping, string_map, text

from ..draft import StoredWorkload
from ..effects import Effect, Event
from .composed import Match
from .kind import PodSetsUnknown, key_of
from .pod import pod_set, released
from .pod_gates import role
from .pod_group_members import (
    disagreement,
    fast,
    index_fault,
    last_active,
    removed,
    runnable,
    to_keep,
    total,
)

IS_GROUP = f"{PREFIX}is-group-workload"
MAX_ROLES = 18
INVALID_GROUP = "InvalidPodGroup"
"""The reason of the event about Pods that contradict each other."""


def _pods(job: Json) -> list[Json]:
    return [mapping(each) for each in elements(job.get("items"))]


def pod_sets(job: Json, gates: Gates) -> list[Json]:
    """Return a pod set for each role, in the order of their names.

    A group with fast admission consists of pods like the first one. Raises PodSetsUnknown.
    """
    usable = [pod for pod in _pods(job) if runnable(pod)]
    if not fast(job):
        return _by_role(usable, gates)
    count = total(job)
    if not usable or count is None:
        raise PodSetsUnknown("the pod group has no runnable pod")
    return [pod_set(usable[0], role(usable[0]), count, gates)]


def _by_role(pods: Iterable[Json], gates: Gates) -> list[Json]:
    found: dict[str, Json] = {}
    for pod in filter(runnable, pods):
        name = role(pod)
        if name in found:
            found[name]["count"] += 1
        else:
            found[name] = pod_set(pod, name, 1, gates)
    return [found[name] for name in sorted(found)]


def pod_priority_class(job: Json) -> str:
    """Return the PriorityClass of the first role that names one."""
    first = {role(pod): pod for pod in reversed(_pods(job)) if runnable(pod)}
    named = (text(child(first[name], "spec").get("priorityClassName")) for name in sorted(first))
    return next(filter(None, named), "")


def metadata(job: Json) -> Json:
    """Return the metadata of a new Workload. Every Pod owns it, and none controls it."""
    return {
        "name": child(job, "metadata").get("name"),
        "annotations": {IS_GROUP: "true"},
        "ownerReferences": [owner(pod) for pod in _pods(job)],
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
    for pod in _pods(job):
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
    usable = [pod for pod in _pods(job) if runnable(pod)]
    effects: list[Effect] = list(released(pod for pod in _pods(job) if not runnable(pod)))
    count = _size(job)
    if not fast(job) and len(usable) < count:
        fault = f"the group has {len(usable)} of {count} pods; create the missing ones"
        return _refused(job, effects, "ErrWorkloadCompose", fault)
    fault = _disagreement(job, count)
    if not fault and len(usable) > count:
        kept = to_keep(usable)
        effects += removed(kept[count:])
        job = _with_only(job, kept[:count])
    if not fault and len(_roles(job)) > MAX_ROLES:
        fault = f"a pod group can have {MAX_ROLES} roles, this one has {len(_roles(job))}"
    if fault:
        return _refused(job, effects, INVALID_GROUP, fault)
    return Match(job=job, effects=tuple(effects))


def _refused(job: Json, effects: Sequence[Effect], reason: str, fault: str) -> Match:
    first = _pods(job)[0] if _pods(job) else job
    event = Event.about(key_of(first), reason, fault, warning=True, kind="Pod")
    return Match(job=job, effects=(*effects, event), refused=fault)


def _size(job: Json) -> int:
    """Return the size of the group. Raises PodSetsUnknown."""
    count = total(job)
    if count is None:
        raise PodSetsUnknown("the size of the pod group is not a number above 0")
    fault = index_fault(_pods(job)[0] if _pods(job) else {}, count)
    if fault:
        raise PodSetsUnknown(fault)
    return count


def _disagreement(job: Json, count: int) -> str:
    pods = _pods(job)
    try:
        return disagreement(pods[0], pods, count) if pods else ""
    except ValueError as error:
        raise PodSetsUnknown(str(error)) from error


def _roles(job: Json) -> set[str]:
    return {role(pod) for pod in _pods(job) if runnable(pod)}


def match(job: Json, stored: StoredWorkload, gates: Gates) -> Match:
    """Return the Pods that the Workload covers, and the writes that remove the surplus.

    A Workload that is not of a group stays as it is.
    """
    if gates.on(Gate.PodIntegrationValidateGroupOwner) and not _of_group(stored):
        return _conflict(job, stored)
    if stored.obj.spec.maximum_execution_time_seconds != time_limit_s(job):
        return Match(job=job, matches=False)
    now = child(job, "status").get("observedAt") or 0.0
    roles = list(_sorted_out(job, stored, now))
    kept = [pod for each in roles for pod in each.kept]
    if not kept or not equivalent(job, stored, _by_role(kept, gates), gates):
        return Match(job=job, matches=False)
    absent = sum(each.absent for each in roles)
    effects = [*removed(pod for each in roles for pod in each.excess)]
    effects += released(pod for each in roles for pod in each.replaced)
    covered = _with_only(job, kept)
    covered["status"] = child(job, "status") | {"absentPods": absent}
    if child(job, "status").get("stale"):
        # Pods that were removed already would be counted, and others removed in addition.
        return Match(job=covered, refused="the pods of the group may have changed")
    return Match(job=covered, effects=tuple(effects))


def _with_only(job: Json, kept: Iterable[Json]) -> Json:
    """Return the group with only these Pods, in its order."""
    ids = set(map(id, kept))
    return job | {"items": [pod for pod in _pods(job) if id(pod) in ids]}


class _Role:
    """The Pods of one role: those that stay, surplus ones, and ended ones that were replaced."""

    def __init__(self, usable: list[Json], ended: list[Json], count: int, now: float) -> None:
        usable, ended = to_keep(usable), last_active(ended, now)
        self.excess = usable[count:]
        left = max(0, count - len(usable))
        self.replaced = ended[left:]
        self.kept = [*usable[:count], *ended[:left]]
        self.absent = left


def _sorted_out(job: Json, stored: StoredWorkload, now: float) -> Iterator[_Role]:
    by_role: dict[str, tuple[list[Json], list[Json]]] = {}
    for pod in _pods(job):
        usable, ended = by_role.setdefault(role(pod), ([], []))
        (usable if runnable(pod) else ended).append(pod)
    for each in stored.obj.spec.pod_sets or ():
        usable, ended = by_role.get(each.name, ([], []))
        found = _Role(usable, ended, each.count, now)
        if fast(job):
            # The other Pods may be created later; only a role without any is incomplete.
            found.absent = int(each.count > 0 and not usable)
        yield found


def equivalent(job: Json, stored: StoredWorkload, asked: Sequence[Json], gates: Gates) -> bool:
    """Whether the Workload covers these pod sets. Fewer Pods are fine: they may be replaced.

    Of a finished Workload, only the roles are compared.
    """
    named = prebuilt(job, gates)[0] or child(job, "metadata").get("name")
    if stored.obj.metadata.name != named:
        return False
    finished, offered = stored.true("Finished"), iter(stored.obj.spec.pod_sets or ())
    if not finished and len(stored.obj.spec.pod_sets or ()) < len(asked):
        return False
    for pod_set_ in asked:
        found = next((each for each in offered if each.name == pod_set_["name"]), None)
        if found is None or (not finished and found.count < (integer(pod_set_["count"]) or 0)):
            return False
    return True


def _conflict(job: Json, stored: StoredWorkload) -> Match:
    name = stored.obj.metadata.name
    message = (
        f'A Workload named "{name}" already exists but is not a pod group workload; '
        "this pod group cannot be admitted"
    )
    # The Pods of this group stay gated, so deleted ones would be kept for ever.
    effects = list(released(pod for pod in _pods(job) if not runnable(pod)))
    return _refused(job, effects, "WorkloadNameConflict", message)
