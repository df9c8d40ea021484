# SPDX-License-Identifier: Apache-2.0
"""Rows that describe the workloads and queues of a running server. Pure: time is an argument.

Objects are JSON in the current version. Fields that a controller has not written yet are omitted,
never guessed.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime

from kuota.api.base import Json, Key
from kuota.api.quantity import QuantityError, text, units

from .conditions import condition, holds
from .links import cluster_queue_of, object_key
from .plan import ViewStruct
from .workload_state import OVER, LiveState, Pods, owner, state, why

_UNITS = (("d", 86_400), ("h", 3600), ("m", 60), ("s", 1))


class LiveQuota(ViewStruct):
    """The quota and usage of one flavor-resource of a queue."""

    flavor: str
    resource: str
    nominal: str
    used: str
    borrowed: str


class LiveQueue(ViewStruct):
    """The current state of a ClusterQueue. `inactive` is the reason; "" if it is active."""

    name: str
    cohort: str
    quotas: list[LiveQuota]
    pending: int
    admitted: int
    inactive: str


class LiveWorkload(ViewStruct):
    """The current state of a workload, under the name of its job."""

    name: str
    kind: str
    workload: str
    queue: str
    cluster_queue: str
    state: LiveState
    priority: int
    pods: int
    gets: str
    why: str
    age: str


def asks(workload: Json) -> str:
    """Return the total requests of all pods: "4 cpu and 2 nvidia.com/gpu"."""
    total: dict[str, int] = {}
    for pods in (workload.get("status") or {}).get("resourceRequests") or ():
        for name, quantity in (pods.get("resources") or {}).items():
            total[name] = total.get(name, 0) + _units(quantity, name)
    return " and ".join(f"{text(amount, name)} {name}" for name, amount in sorted(total.items()))


def gets(workload: Json) -> str:
    """Return what an admitted workload was assigned: "2 nvidia.com/gpu on gpu-any"."""
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


_RANKS = {LiveState.ADMITTED: 0, LiveState.QUOTARESERVED: 1, LiveState.DEACTIVATED: 3}
_LAST_RANK = 4


def workload_rows(
    workloads: Iterable[Json],
    now: datetime,
    failed: Pods | None = None,
    local_queues: Iterable[Json] = (),
) -> list[LiveWorkload]:
    """Return rows of running workloads, then of pending ones by priority and age, then the rest."""
    known, queues = list(workloads), {object_key(each): each for each in local_queues}
    rows = {id(each): _workload_row(each, now, known, failed or {}, queues) for each in known}
    ordered = sorted(
        known,
        key=lambda each: (
            _rank(rows[id(each)].state),
            -rows[id(each)].priority,
            str(each["metadata"].get("creationTimestamp") or ""),
            str(each["metadata"].get("name")),
        ),
    )
    return [rows[id(each)] for each in ordered]


def _rank(state: LiveState) -> int:
    return _LAST_RANK if state in OVER else _RANKS.get(state, 2)


def _workload_row(
    workload: Json,
    now: datetime,
    known: Iterable[Json],
    failed: Pods,
    local_queues: Mapping[Key, Json],
) -> LiveWorkload:
    metadata, spec = workload["metadata"], workload.get("spec") or {}
    kind, name = owner(workload)
    return LiveWorkload(
        name=f"{metadata.get('namespace', '')}/{name or metadata['name']}",
        kind=kind,
        workload=metadata["name"],
        queue=str(spec.get("queueName") or ""),
        cluster_queue=cluster_queue_of(workload, local_queues),
        state=state(workload, failed),
        priority=int(spec.get("priority") or 0),
        pods=sum(int(each.get("count") or 0) for each in spec.get("podSets") or ()),
        gets=gets(workload),
        why=why(workload, known, failed),
        age=age(metadata.get("creationTimestamp"), now),
    )


def queue_rows(cluster_queues: Iterable[Json]) -> list[LiveQueue]:
    """Return rows by cohort, then by name. Queues without a cohort are last."""
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
    """Parse a Kubernetes timestamp; None if it is absent. Without a time zone, it is in UTC."""
    try:
        found = datetime.fromisoformat(str(stamp)) if stamp else None
    except ValueError:
        return None
    return found.replace(tzinfo=UTC) if found is not None and found.tzinfo is None else found


def age(stamp: object, now: datetime) -> str:
    """Return the time since then; "" if it is unknown."""
    then = moment(stamp)
    return "" if then is None else span((now - then).total_seconds())


def span(seconds: float) -> str:
    """Format a duration in its two largest units: "3m5s", "2h10m", "40s". The minimum is "0s"."""
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
    """Return how long the workload ran since its last admission; "" if never admitted."""
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
