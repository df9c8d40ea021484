# SPDX-License-Identifier: Apache-2.0
"""The pods of a group: which of them can run, which are surplus, and what they agree on."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime

from kuota.api.base import Json
from kuota.api.rules.job_common import queue_name
from kuota.api.rules.metadata import PREFIX, annotation
from kuota.api.rules.pod import GROUP_TOTAL, RETRIABLE
from kuota.api.rules.report import child, elements, integer, mapping, text, whole

from ..effects import Delete, Effect, Event, edit
from .kind import key_of
from .pod_gates import FINALIZER, POD_INDEX, deleting, finalized, gated, uid

FAST_ADMISSION = f"{PREFIX}pod-group-fast-admission"
SERVING = f"{PREFIX}pod-group-serving"
_FAILED = ("Failed", "PodFailed")
_UNREAD = frozenset({"resourceVersion", "managedFields", "generation"})
_READ = ("Ready", "ContainersReady", "TerminationTarget")
"""The conditions of pods that a pass reads."""

Pods = Sequence[Json]


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


def unretriable(pod: Json) -> bool:
    return annotation(pod, RETRIABLE) == "false"


def time_s(value: object) -> float | None:
    """Return a Kubernetes timestamp in seconds; None if it is absent or malformed."""
    try:
        return datetime.fromisoformat(text(value)).timestamp() if value else None
    except (ValueError, OverflowError):
        return None


def created_s(pod: Json) -> float:
    return time_s(child(pod, "metadata").get("creationTimestamp")) or 0.0


def in_order(pods: Iterable[Json]) -> list[Json]:
    """Return the pods from the oldest to the newest."""
    return sorted(pods, key=lambda pod: (created_s(pod), key_of(pod).name))


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

    Accounted pods stay rather than others, then those that were started, then the oldest.
    """
    return sorted(
        pods, key=lambda pod: (not _held(pod), gated(pod), created_s(pod), key_of(pod).name)
    )


def last_active(pods: Iterable[Json], now: float) -> list[Json]:
    """Return pods that will not run again; the ones to keep for the account come first."""
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
    """Return when the pod failed or was deleted, whichever was first; `now` if it did not."""
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
    return number if number < bound else f"the label {key} is {number}, it must be below {bound}"


def index_fault(pod: Json, count: int) -> str:
    """Return what is wrong with the index of a pod in its group; "" if nothing is."""
    found = index_label(pod, POD_INDEX, count)
    return found if isinstance(found, str) else ""


def disagreement(first: Json, pods: Iterable[Json], count: int) -> str:
    """Return how pods of a group contradict its first pod; "" if they agree.

    Failed pods do not count. Raises ValueError if the size of the group is not a number.
    """
    queue, named = queue_name(first), key_of(first).name
    for pod in pods:
        if phase(pod) == "Failed":
            continue
        name, other = key_of(pod).name, queue_name(pod)
        if other != queue:
            return f"pods {named} and {name} have different queue names: {queue!r} and {other!r}"
        size = whole(annotation(pod, GROUP_TOTAL) or "")
        if size is None:
            raise ValueError(f"pod {name}: the annotation {GROUP_TOTAL} is not a number")
        if size != count:
            pair = f"{count} and {size}"
            return f"pods {named} and {name} have different values of {GROUP_TOTAL}: {pair}"
    return ""
