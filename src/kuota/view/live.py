# SPDX-License-Identifier: Apache-2.0
"""Where workloads and queues stand, read off the objects of a running server. Pure: time is given.

Objects are JSON in the current version. What a controller has not written yet is left out, never
guessed.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import datetime

from kuota.api.base import Json
from kuota.api.quantity import QuantityError, text, units
from kuota.api.workload import PREEMPTOR_UID
from kuota.bridge.messages import PREEMPTION_CAUSES

from .conditions import condition, holds, message
from .plan import Row, State

_WAYS_OUT = {
    "ExceedsMaxQuota": "ask for less, or have the quota raised: as it is, this never starts",
    "NoMatchingFlavor": "ask for what `kuota describe cq` shows, or have it offered there",
}
_CAUSES = {reason.value: words for reason, words in PREEMPTION_CAUSES.items()}
_UNITS = (("d", 86_400), ("h", 3600), ("m", 60), ("s", 1))


class LiveQuota(Row):
    """What a queue has and uses of one resource in one flavor."""

    flavor: str
    resource: str
    nominal: str
    used: str
    borrowed: str


class LiveQueue(Row):
    """A ClusterQueue at this moment. `inactive` says why it admits nothing, "" if it does."""

    name: str
    cohort: str
    quotas: list[LiveQuota]
    pending: int
    admitted: int
    inactive: str


class LiveWorkload(Row):
    """A workload at this moment, by the name of its job."""

    name: str
    kind: str
    workload: str
    queue: str
    cluster_queue: str
    state: State
    priority: int
    pods: int
    gets: str
    why: str
    age: str


def state(workload: Json) -> State:
    """Where the workload stands, from its conditions."""
    if holds(workload, "Finished"):
        return State.FINISHED
    if (workload.get("spec") or {}).get("active") is False:
        return State.DEACTIVATED
    if holds(workload, "Admitted"):
        return State.ADMITTED
    if holds(workload, "QuotaReserved"):
        return State.RESERVED
    evicted = condition(workload, "Evicted")
    preempted = evicted is not None and evicted.get("status") == "True"
    if preempted and evicted is not None and evicted.get("reason") == "Preempted":
        return State.PREEMPTED
    return State.WAITING


def why(workload: Json, known: Iterable[Json] = ()) -> str:
    """Why the workload does not run, or how it ended; "" when there is nothing to add.

    A preemptor is named if it is among the `known` Workloads.
    """
    match state(workload):
        case State.FINISHED:
            return message(workload, "Finished")
        case State.DEACTIVATED:
            return message(workload, "Evicted") or "it was stopped"
        case State.ADMITTED:
            waiting = condition(workload, "PodsReady")
            return "" if waiting is None else _unless_true(waiting)
        case State.RESERVED:
            return _checks(workload)
        case State.PREEMPTED:
            return _preemption(workload, known) or message(workload, "Evicted")
        case _:
            return message(workload, "QuotaReserved") or "its turn has not come yet"


def preemptor_uid(workload: Json) -> str:
    """The uid of the Workload for which this one had to stop, "" where nobody recorded it."""
    return str((workload["metadata"].get("annotations") or {}).get(PREEMPTOR_UID) or "")


def _preemption(workload: Json, known: Iterable[Json]) -> str:
    """For whom a preempted workload made room, and by which rule; "" if that is not recorded."""
    uid, preempted = preemptor_uid(workload), condition(workload, "Preempted")
    cause = _CAUSES.get(str((preempted or {}).get("reason")))
    if not uid or cause is None:
        return ""
    found = next((each for each in known if each["metadata"].get("uid") == uid), None)
    return f"preempted to make room for {_named(found)} due to {cause}"


def _named(workload: Json | None) -> str:
    if workload is None:
        return "another workload"
    kind, name = owner(workload)
    who = f"{kind} {name}" if name else f"Workload {workload['metadata']['name']}"
    return f"{who} in namespace {workload['metadata'].get('namespace')}"


def way_out(workload: Json) -> str:
    """What would help a workload that waits in vain; "" where waiting does."""
    found = condition(workload, "QuotaReserved") or {}
    if state(workload) is State.DEACTIVATED:
        return f"let it queue again: kuota resume workload {workload['metadata']['name']}"
    return _WAYS_OUT.get(str(found.get("reason")), "") if found.get("status") == "False" else ""


def asks(workload: Json) -> str:
    """What all its pods together ask for: "4 cpu and 2 nvidia.com/gpu"."""
    total: dict[str, int] = {}
    for pods in (workload.get("status") or {}).get("resourceRequests") or ():
        for name, quantity in (pods.get("resources") or {}).items():
            total[name] = total.get(name, 0) + _units(quantity, name)
    return " and ".join(f"{text(amount, name)} {name}" for name, amount in sorted(total.items()))


def _unless_true(found: Json) -> str:
    return "" if found.get("status") == "True" else str(found.get("message") or "")


def _checks(workload: Json) -> str:
    states = (workload.get("status") or {}).get("admissionChecks") or ()
    open_ones = [
        f"{each.get('name')} ({each.get('message') or each.get('state')})"
        for each in states
        if each.get("state") != "Ready"
    ]
    return f"quota is reserved; waiting for {', '.join(open_ones)}" if open_ones else ""


def pod_why(pod: Json) -> str:
    """Why the pod does not run, or how it failed, in the words of its status; "" if it does."""
    scheduled = condition(pod, "PodScheduled")
    if scheduled is not None and scheduled.get("status") == "False":
        return str(scheduled.get("message") or scheduled.get("reason") or "")
    status = pod.get("status") or {}
    for field, what in (("initContainerStatuses", "init container"), ("containerStatuses", "")):
        for each in status.get(field) or ():
            found = _container_why(each.get("state") or {})
            if found:
                return f"{what} {each.get('name')}: {found}".strip() if what else found
    return str(status.get("message") or "")


def _container_why(now: Json) -> str:
    waiting, ended = now.get("waiting") or {}, now.get("terminated") or {}
    if waiting.get("reason") not in (None, "ContainerCreating", "PodInitializing"):
        return ": ".join(filter(None, (waiting.get("reason"), waiting.get("message"))))
    if ended.get("exitCode"):
        return str(ended.get("message") or f"failed with exit status {ended['exitCode']}")
    return ""


def owner(workload: Json) -> tuple[str, str]:
    """Kind and name of the job that the workload is for; both empty if it stands alone."""
    references = workload["metadata"].get("ownerReferences") or ()
    for each in sorted(references, key=lambda each: not each.get("controller")):
        return str(each.get("kind") or ""), str(each.get("name") or "")
    return "", ""


def gets(workload: Json) -> str:
    """What an admitted workload was given: "2 nvidia.com/gpu on gpu-any"."""
    admission = (workload.get("status") or {}).get("admission") or {}
    by_flavor: dict[str, dict[str, int]] = {}
    for pods in admission.get("podSetAssignments") or ():
        usage = pods.get("resourceUsage") or {}
        for resource, flavor in (pods.get("flavors") or {}).items():
            amounts = by_flavor.setdefault(flavor, {})
            amounts[resource] = amounts.get(resource, 0) + _units(usage.get(resource), resource)
    return ", ".join(
        f"{' and '.join(f'{text(amount, name)} {name}' for name, amount in sorted(given.items()))}"
        f" on {flavor}"
        for flavor, given in by_flavor.items()
    )


def _units(quantity: object, resource: str) -> int:
    try:
        return units(str(quantity), resource) if quantity is not None else 0
    except QuantityError:
        return 0


def workload_rows(workloads: Iterable[Json], now: datetime) -> list[LiveWorkload]:
    """Those that run, those that wait by priority and age, then the rest."""
    rank = {State.ADMITTED: 0, State.RESERVED: 1, State.FINISHED: 4, State.DEACTIVATED: 3}
    known = list(workloads)
    ordered = sorted(
        known,
        key=lambda each: (
            rank.get(state(each), 2),
            -int((each.get("spec") or {}).get("priority") or 0),
            str(each["metadata"].get("creationTimestamp") or ""),
            str(each["metadata"].get("name")),
        ),
    )
    return [_workload_row(each, now, known) for each in ordered]


def _workload_row(workload: Json, now: datetime, known: Iterable[Json]) -> LiveWorkload:
    metadata, spec = workload["metadata"], workload.get("spec") or {}
    kind, name = owner(workload)
    admission = (workload.get("status") or {}).get("admission") or {}
    return LiveWorkload(
        name=f"{metadata.get('namespace', '')}/{name or metadata['name']}",
        kind=kind,
        workload=metadata["name"],
        queue=str(spec.get("queueName") or ""),
        cluster_queue=str(admission.get("clusterQueue") or ""),
        state=state(workload),
        priority=int(spec.get("priority") or 0),
        pods=sum(int(each.get("count") or 0) for each in spec.get("podSets") or ()),
        gets=gets(workload),
        why=why(workload, known),
        age=age(metadata.get("creationTimestamp"), now),
    )


def queue_rows(cluster_queues: Iterable[Json]) -> list[LiveQueue]:
    """By cohort, then by name; queues without a cohort last."""
    rows = [_queue_row(each) for each in cluster_queues]
    return sorted(rows, key=lambda row: (row.cohort == "", row.cohort, row.name))


def _queue_row(queue: Json) -> LiveQueue:
    spec, status = queue.get("spec") or {}, queue.get("status") or {}
    active = condition(queue, "Active")
    unable = active is not None and active.get("status") != "True"
    return LiveQueue(
        name=queue["metadata"]["name"],
        cohort=str(spec.get("cohortName") or ""),
        quotas=list(_quotas(spec, status)),
        pending=int(status.get("pendingWorkloads") or 0),
        admitted=int(status.get("admittedWorkloads") or 0),
        inactive=str(active.get("message") or active.get("reason")) if active and unable else "",
    )


def _quotas(spec: Json, status: Json) -> Iterator[LiveQuota]:
    used = {
        (flavor["name"], each["name"]): each
        for flavor in status.get("flavorsReservation") or ()
        for each in flavor.get("resources") or ()
    }
    for group in spec.get("resourceGroups") or ():
        for flavor in group.get("flavors") or ():
            for each in flavor.get("resources") or ():
                usage = used.get((flavor["name"], each["name"])) or {}
                borrowed = str(usage.get("borrowed") or "0")
                yield LiveQuota(
                    flavor=flavor["name"],
                    resource=each["name"],
                    nominal=str(each.get("nominalQuota", "0")),
                    used=str(usage.get("total") or "0"),
                    borrowed="" if borrowed == "0" else borrowed,
                )


def moment(stamp: object) -> datetime | None:
    """A time of Kubernetes, None for none."""
    try:
        return datetime.fromisoformat(str(stamp)) if stamp else None
    except ValueError:
        return None


def age(stamp: object, now: datetime) -> str:
    """How long ago that was, "" if it is not known."""
    then = moment(stamp)
    return "" if then is None else span((now - then).total_seconds())


def span(seconds: float) -> str:
    """A time in its two largest units: "3m5s", "2h10m", "40s". Below nothing it is "0s"."""
    left = max(0, int(seconds))
    parts: list[str] = []
    for unit, size in _UNITS:
        count, left = divmod(left, size)
        if count or parts:
            parts.append(f"{count}{unit}" if count else "")
        if len(parts) == 2:
            break
    return "".join(parts) or "0s"


def execution(workload: Json, now: datetime) -> str:
    """How long the workload has run since it was last admitted, or did; "" if it never was."""
    admitted = condition(workload, "Admitted")
    if admitted is None or admitted.get("status") != "True":
        return ""
    begun = moment(admitted.get("lastTransitionTime"))
    finished = condition(workload, "Finished")
    over = (
        moment(finished.get("lastTransitionTime"))
        if holds(workload, "Finished") and finished
        else now
    )
    return "" if begun is None else span(((over or now) - begun).total_seconds())
