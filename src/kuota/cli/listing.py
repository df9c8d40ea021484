# SPDX-License-Identifier: Apache-2.0
"""The rows of `kuota list`, made from whole objects."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import click
import msgspec

from kuota.api.base import Json
from kuota.kube.errors import ApiError
from kuota.kube.resources import (
    CLUSTER_QUEUES,
    LOCAL_QUEUES,
    PODS,
    RESOURCE_FLAVORS,
    WORKLOADS,
    Resource,
    key_of,
)
from kuota.view.live import age, condition, execution, gets, holds, owner, state, why
from kuota.view.plan import State

from . import output
from .job_follow import owners
from .kinds import resource_of
from .output import name_text, show_table, tidied

if TYPE_CHECKING:
    from .session import Session

_PENDING, _RESERVED, _ADMITTED, _FINISHED = "pending", "quotareserved", "admitted", "finished"
_VISIBILITY = "/apis/visibility.kueue.x-k8s.io/v1beta2/clusterqueues"


class Listed(msgspec.Struct, frozen=True):
    """Objects and the table of them. `where` is the namespace, None for all or no namespaces."""

    resource: Resource
    items: list[Json]
    header: tuple[str, ...]
    rows: list[list[str]]
    where: str | None = None


class WorkloadFilter(msgspec.Struct, frozen=True, kw_only=True):
    """Which workloads are wanted; what is empty does not matter."""

    cluster_queue: str = ""
    local_queue: str = ""
    statuses: frozenset[str] = frozenset()
    owner: str = ""

    def wants(self, workload: Json, queue: str, status: str) -> bool:
        kind, name = owner(workload)
        words, _, wanted_name = self.owner.rpartition("/")
        wanted_kind = words.partition(".")[0].lower()
        return (
            self.cluster_queue in ("", queue)
            and self.local_queue in ("", (workload.get("spec") or {}).get("queueName"))
            and (not self.statuses or status in self.statuses)
            and (not self.owner or (name == wanted_name and kind.lower() in _kinds(wanted_kind)))
        )


def _kinds(word: str) -> tuple[str, ...]:
    """A kind as written, or its plural without the s."""
    return (word, word.removesuffix("s"))


def show(listed: Listed, form: str) -> None:
    if form == "name":
        for each in listed.items:
            click.echo(name_text(listed.resource, each))
    elif form in output.FORMATS:
        items = [tidied(each) for each in listed.items]
        output.show({"apiVersion": "v1", "kind": "List", "items": items}, form)
    elif not listed.rows:
        inside = f" in namespace {listed.where}" if listed.where else ""
        click.echo(f"No {listed.resource.plural} found{inside}.", err=True)
    elif form == "wide":
        more, cells = _WIDE[listed.resource]
        pairs = zip(listed.rows, listed.items, strict=True)
        rows = [[*row, *cells(each, listed.items)] for row, each in pairs]
        show_table((*listed.header, *more), rows)
    else:
        show_table(listed.header, listed.rows)


async def cluster_queues(session: Session, labels: str, fields: str, active: bool | None) -> Listed:
    found = await session.client.list(CLUSTER_QUEUES, label_selector=labels, field_selector=fields)
    items = [each for each in found.items if active in (None, holds(each, "Active"))]
    header = ("Name", "Cohort", "Pending Workloads", "Admitted Workloads", "Active", "Age")
    return _listed(CLUSTER_QUEUES, items, header, _cluster_queue)


def _cluster_queue(queue: Json, now: datetime) -> list[str]:
    return [
        queue["metadata"]["name"],
        str((queue.get("spec") or {}).get("cohortName") or ""),
        _count(queue, "pendingWorkloads"),
        _count(queue, "admittedWorkloads"),
        str(holds(queue, "Active")).lower(),
        age(queue["metadata"].get("creationTimestamp"), now),
    ]


async def local_queues(
    session: Session, everywhere: bool, labels: str, fields: str, cluster_queue: str
) -> Listed:
    where = None if everywhere else session.namespace
    found = await session.client.list(
        LOCAL_QUEUES, where, label_selector=labels, field_selector=fields
    )
    items = [
        each for each in found.items if cluster_queue in ("", each["spec"].get("clusterQueue"))
    ]
    header = ("Name", "ClusterQueue", "Pending Workloads", "Admitted Workloads", "Age")
    return _listed(LOCAL_QUEUES, items, header, _local_queue, where, everywhere)


def _local_queue(queue: Json, now: datetime) -> list[str]:
    return [
        queue["metadata"]["name"],
        str(queue["spec"].get("clusterQueue") or ""),
        _count(queue, "pendingWorkloads"),
        _count(queue, "admittedWorkloads"),
        age(queue["metadata"].get("creationTimestamp"), now),
    ]


async def resource_flavors(session: Session, labels: str, fields: str) -> Listed:
    found = await session.client.list(
        RESOURCE_FLAVORS, label_selector=labels, field_selector=fields
    )
    return _listed(RESOURCE_FLAVORS, found.items, ("Name", "Node Labels", "Age"), _flavor)


def _flavor(flavor: Json, now: datetime) -> list[str]:
    labels = (flavor.get("spec") or {}).get("nodeLabels") or {}
    return [
        flavor["metadata"]["name"],
        ", ".join(f"{key}={value}" for key, value in sorted(labels.items())),
        age(flavor["metadata"].get("creationTimestamp"), now),
    ]


async def workloads(
    session: Session, everywhere: bool, labels: str, fields: str, only: WorkloadFilter
) -> Listed:
    where = None if everywhere else session.namespace
    found, queues = await asyncio.gather(
        session.client.list(WORKLOADS, where, label_selector=labels, field_selector=fields),
        session.client.list(LOCAL_QUEUES, where),
    )
    behind = {key_of(each): str(each["spec"].get("clusterQueue")) for each in queues.items}

    def queue_of(workload: Json) -> str:
        admission = (workload.get("status") or {}).get("admission") or {}
        own = str((workload.get("spec") or {}).get("queueName") or "")
        key = msgspec.structs.replace(key_of(workload), name=own)
        return str(admission.get("clusterQueue") or behind.get(key, ""))

    items = [each for each in found.items if only.wants(each, queue_of(each), status(each))]
    waiting = {queue_of(each) for each in items if status(each) == _PENDING} - {""}
    places = await positions(session, sorted(waiting))

    def row(workload: Json, now: datetime) -> list[str]:
        kind, name = owner(workload)
        key = key_of(workload)
        return [
            key.name,
            kind,
            name,
            str((workload.get("spec") or {}).get("queueName") or ""),
            queue_of(workload),
            status(workload).upper(),
            places.get((key.namespace, key.name), ""),
            execution(workload, now),
            age(workload["metadata"].get("creationTimestamp"), now),
        ]

    header = (
        *("Name", "Job Type", "Job Name", "LocalQueue", "ClusterQueue"),
        *("Status", "Position in Queue", "Exec Time", "Age"),
    )
    return _listed(WORKLOADS, items, header, row, where, everywhere)


def status(workload: Json) -> str:
    """Where a workload stands in kueuectl's four words."""
    match state(workload):
        case State.FINISHED:
            return _FINISHED
        case State.ADMITTED:
            return _ADMITTED
        case State.RESERVED:
            return _RESERVED
        case _:
            return _PENDING


async def positions(session: Session, queues: Sequence[str]) -> dict[tuple[str, str], str]:
    """Places in the ClusterQueues, from 1; none where the server does not tell."""
    places: dict[tuple[str, str], str] = {}
    for queue in queues:
        try:
            summary = await session.client.fetch(f"{_VISIBILITY}/{queue}/pendingworkloads")
        except ApiError:
            return places
        for each in summary.get("items") or ():
            metadata = each["metadata"]
            place = str(int(each.get("positionInClusterQueue") or 0) + 1)
            places[metadata.get("namespace", ""), metadata["name"]] = place
    return places


async def pods_of(session: Session, job: str, labels: str, fields: str) -> Listed:
    kind, slash, name = job.partition("/")
    if not slash:
        raise click.BadParameter(f"'{job}' is not KIND/NAME", param_hint="--for")
    resource = await resource_of(session, kind)
    owner_uid = (await session.client.get(resource, session.key(resource, name)))["metadata"]["uid"]
    found = await session.client.list(
        PODS, session.namespace, label_selector=labels, field_selector=fields
    )
    items = [each for each in found.items if owner_uid in owners(each)]
    return _listed(PODS, items, ("Name", "Status", "Node", "Age"), _pod, session.namespace)


def _pod(pod: Json, now: datetime) -> list[str]:
    return [
        pod["metadata"]["name"],
        str((pod.get("status") or {}).get("phase") or ""),
        str((pod.get("spec") or {}).get("nodeName") or ""),
        age(pod["metadata"].get("creationTimestamp"), now),
    ]


def _count(obj: Json, field: str) -> str:
    return str((obj.get("status") or {}).get(field) or 0)


def _listed(
    resource: Resource,
    items: list[Json],
    header: tuple[str, ...],
    row: Callable[[Json, datetime], list[str]],
    where: str | None = None,
    everywhere: bool = False,
) -> Listed:
    now = datetime.now(UTC)
    rows = [row(each, now) for each in items]
    if everywhere:
        header = ("Namespace", *header)
        rows = [[key_of(each).namespace, *cells] for each, cells in zip(items, rows, strict=True)]
    return Listed(resource, items, header, rows, where)


def _wide_cluster_queue(queue: Json, known: Sequence[Json]) -> list[str]:
    active = condition(queue, "Active") or {}
    spec = queue.get("spec") or {}
    return [str(spec.get("queueingStrategy") or ""), str(active.get("message") or "")]


def _wide_local_queue(queue: Json, known: Sequence[Json]) -> list[str]:
    active = condition(queue, "Active") or {}
    return [str(holds(queue, "Active")).lower(), str(active.get("message") or "")]


def _wide_flavor(flavor: Json, known: Sequence[Json]) -> list[str]:
    taints = (flavor.get("spec") or {}).get("nodeTaints") or ()
    words = [f"{each['key']}={each.get('value') or ''}:{each['effect']}" for each in taints]
    return [", ".join(words)]


def _wide_workload(workload: Json, known: Sequence[Json]) -> list[str]:
    spec = workload.get("spec") or {}
    pods = sum(int(each.get("count") or 1) for each in spec.get("podSets") or ())
    words = gets(workload) if holds(workload, "QuotaReserved") else why(workload, known)
    return [str(spec.get("priority") or 0), str(pods), words]


def _wide_pod(pod: Json, known: Sequence[Json]) -> list[str]:
    waits = condition(pod, "PodScheduled") or {}
    status = pod.get("status") or {}
    return [
        str(status.get("podIP") or ""),
        str(status.get("message") or waits.get("message") or ""),
    ]


_WIDE: dict[Resource, tuple[tuple[str, ...], Callable[[Json, Sequence[Json]], list[str]]]] = {
    CLUSTER_QUEUES: (("Strategy", "Message"), _wide_cluster_queue),
    LOCAL_QUEUES: (("Active", "Message"), _wide_local_queue),
    RESOURCE_FLAVORS: (("Node Taints",), _wide_flavor),
    WORKLOADS: (("Priority", "Pods", "Gets, or why not"), _wide_workload),
    PODS: (("IP", "Message"), _wide_pod),
}
"""What `-o wide` adds to each kind's columns."""
