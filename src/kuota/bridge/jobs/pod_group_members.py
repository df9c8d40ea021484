# SPDX-License-Identifier: Apache-2.0
"""The pods of a group: which of them can run, which are surplus, and what they agree on."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from kuota.api.base import Json
from kuota.api.core import ENDED
from kuota.api.rules.job_common import queue_name
from kuota.api.rules.metadata import PREFIX, annotation
from kuota.api.rules.pod import GROUP_TOTAL, RETRIABLE
from kuota.api.rules.report import child, elements, integer, mapping, text, whole

from ..conditions import time_s
from ..effects import Delete, Effect, Event, edit
from .composable import members_of
from .kind import key_of
from .members import Member, Members
from .pod import ready
from .pod_gates import FINALIZER, POD_INDEX, deleting, finalized, gated, role, uid

FAST_ADMISSION = f"{PREFIX}pod-group-fast-admission"
SERVING = f"{PREFIX}pod-group-serving"
_FAILED = ("Failed", "PodFailed")
_UNREAD = frozenset({"resourceVersion", "managedFields", "generation"})
_READ = ("Ready", "ContainersReady", "TerminationTarget")
"""The conditions of pods that a pass reads."""


class PodTraits(NamedTuple):
    """What a group depends on about a pod, apart from its identity and what a Workload copies."""

    role: str
    queue: str
    size: str
    phase: str
    runnable: bool
    gated: bool
    ready: bool
    held: bool
    deleting: bool
    unretriable: bool

    @property
    def ended(self) -> bool:
        return self.phase in ENDED

    @property
    def has_no_processes(self) -> bool:
        """Whether the pod has not started any process yet, or has ended."""
        return self.ended or self.gated


Pods = Members[PodTraits]


def described(pod: Json) -> Member[PodTraits]:
    traits = PodTraits(
        role=role(pod),
        queue=queue_name(pod),
        size=annotation(pod, GROUP_TOTAL) or "",
        phase=phase(pod),
        runnable=runnable(pod),
        gated=gated(pod),
        ready=ready(pod),
        held=_held(pod),
        deleting=deleting(pod),
        unretriable=annotation(pod, RETRIABLE) == "false",
    )
    return Member(key_of(pod), uid(pod), created_s(pod), traits)


def pods_of(job: Json) -> Pods:
    """Return the Pods of a group."""
    return members_of(job)


def runs(pod: PodTraits) -> bool:
    """Whether the pod was `runnable` when its traits were read."""
    return pod.runnable


def phase(pod: Json) -> str:
    return text(child(pod, "status").get("phase"))


def runnable(pod: Json) -> bool:
    """Whether the pod can still run, runs or has succeeded.

    A pod that is deleted before it has a node will never run.
    """
    if deleting(pod) and not child(pod, "spec").get("nodeName"):
        return False
    return phase(pod) != "Failed"


def relevant(pod: Json) -> tuple[object, ...]:
    """Return everything about a pod that its group depends on.

    Kubelets report much more in the status, several times for each pod that starts.
    """
    meta, conditions = child(pod, "metadata"), child(pod, "status").get("conditions")
    known = {text(each.get("type")): each for each in map(mapping, elements(conditions))}
    return (
        {field: value for field, value in meta.items() if field not in _UNREAD},
        pod.get("spec"),
        phase(pod),
        [known.get(type_) for type_ in _READ],
    )


def total(obj: Json) -> int | None:
    """Return the number of pods of the group according to one pod; None if it is not valid."""
    count = whole(annotation(obj, GROUP_TOTAL) or "")
    return count if count is not None and 0 < count < 2**31 else None


def fast(obj: Json) -> bool:
    """Whether the group is admitted as soon as one of its pods exists."""
    return annotation(obj, FAST_ADMISSION) == "true"


def serving(obj: Json) -> bool:
    """Whether the group serves requests, so that it never ends."""
    return annotation(obj, SERVING) == "true"


def created_s(pod: Json) -> float:
    return time_s(child(pod, "metadata").get("creationTimestamp")) or 0.0


def occupying(pod: Json, now: float, *, fast_release: bool) -> bool:
    """Whether the pod runs. A pod whose grace period is over is stuck, for example on a lost node.

    With `fast_release`, a pod that is being deleted does not count.
    """
    if phase(pod) != "Running" or (fast_release and deleting(pod)):
        return False
    meta = child(pod, "metadata")
    deleted_s, grace_s = (
        time_s(meta.get("deletionTimestamp")),
        meta.get("deletionGracePeriodSeconds"),
    )
    if deleted_s is None or integer(grace_s) is None:
        return True
    return now <= deleted_s + (integer(grace_s) or 0)


def to_keep(pods: Iterable[Json]) -> list[Json]:
    """Return runnable pods; the ones to keep come first.

    Prefers pods with the finalizer, then pods without the admission gate, then older pods.
    """
    return sorted(
        pods, key=lambda pod: (not _held(pod), gated(pod), created_s(pod), key_of(pod).name)
    )


def last_active(pods: Iterable[Json], now: float) -> list[Json]:
    """Return pods that will not run again; the ones to keep, which ended last, come first."""
    return sorted(
        pods,
        key=lambda pod: (
            not _held(pod),
            -_ended_s(pod, now),
            created_s(pod),
            key_of(pod).name,
        ),
    )


def _held(pod: Json) -> bool:
    return FINALIZER in elements(child(pod, "metadata").get("finalizers"))


def _ended_s(pod: Json, now: float) -> float:
    """Return when the pod failed or was deleted, whichever was first; `now` without either."""
    failed_s = None
    for each in map(mapping, elements(child(pod, "status").get("conditions"))):
        if each.get("type") == "ContainersReady":
            if each.get("status") == "False" and each.get("reason") in _FAILED:
                failed_s = time_s(each.get("lastTransitionTime"))
            break
    deleted_s = time_s(child(pod, "metadata").get("deletionTimestamp"))
    return min(now if failed_s is None else failed_s, now if deleted_s is None else deleted_s)


def removed(pods: Iterable[Json]) -> Iterator[Effect]:
    """Yield the writes that delete surplus pods, each with an event."""
    for pod in pods:
        key = key_of(pod)
        yield from edit("Pod", key, pod, finalized(pod))
        if not deleting(pod):
            yield Delete(key=key, uid=uid(pod), kind="Pod")
            yield Event.about(key, "ExcessPodDeleted", "Excess pod deleted", kind="Pod")


def index_label(obj: Json, key: str, bound: int) -> int | str | None:
    """Return the number in a label, or what is wrong with it; None if there is no label."""
    value = child(obj, "metadata", "labels").get(key)
    if value is None:
        return None
    number = whole(text(value)) if text(value).isascii() and text(value).isdigit() else None
    if number is None:
        return f"the label {key} is {value!r}, which is not an unsigned number"
    return number if number < bound else f"the label {key} is {number}; it must be below {bound}"


def index_fault(pod: Json, count: int) -> str:
    """Return what is wrong with the index of a pod in its group; "" if nothing is."""
    found = index_label(pod, POD_INDEX, count)
    return found if isinstance(found, str) else ""


def disagreement(pods: Pods, count: int) -> str:
    """Return how pods of a group contradict its first pod; "" if they agree.

    Failed pods do not count. Raises ValueError if the size of the group is not a number.
    """
    first = pods.first()
    if first is None:
        return ""
    queue, named = queue_name(first), key_of(first).name

    def contradicts(each: PodTraits) -> bool:
        return each.phase != "Failed" and (each.queue != queue or whole(each.size) != count)

    found = pods.first(contradicts)
    if found is None:
        return ""
    name, other = key_of(found).name, queue_name(found)
    if other != queue:
        return f"pods {named} and {name} have different queue names: {queue!r} and {other!r}"
    size = whole(annotation(found, GROUP_TOTAL) or "")
    if size is None:
        raise ValueError(f"pod {name}: the annotation {GROUP_TOTAL} is not a number")
    pair = f"{count} and {size}"
    return f"pods {named} and {name} have different values of {GROUP_TOTAL}: {pair}"
