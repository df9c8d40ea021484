# SPDX-License-Identifier: Apache-2.0
"""`kuota list`: queues, workloads, flavors and pods with the columns of kueuectl."""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

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
from kuota.view.conditions import condition, holds
from kuota.view.live import age, execution, gets, owner, state, why
from kuota.view.plan import State

from . import output as printed
from .connect import Choice, conduct, server_options
from .groups import KindGroup
from .job_objects import owners
from .kinds import resource_of
from .output import name_text, show_table, tidied

if TYPE_CHECKING:
    from .session import Session

_PENDING, _RESERVED, _ADMITTED, _FINISHED = "pending", "quotareserved", "admitted", "finished"
_STATUSES = {
    State.FINISHED: _FINISHED,
    State.ADMITTED: _ADMITTED,
    State.RESERVED: _RESERVED,
}
_VISIBILITY = "/apis/visibility.kueue.x-k8s.io/v1beta2/clusterqueues"


class Query(msgspec.Struct, frozen=True, kw_only=True):
    """Which objects to list, and how to print them."""

    labels: str
    fields: str
    output: str
    choice: Choice
    everywhere: bool = False

    def where(self, session: Session, resource: Resource) -> str | None:
        """The namespace to look in, None for all or no namespaces."""
        return session.namespace if resource.namespaced and not self.everywhere else None

    async def items(self, session: Session, resource: Resource) -> list[Json]:
        found = await session.client.list(
            resource,
            self.where(session, resource),
            label_selector=self.labels,
            field_selector=self.fields,
        )
        return found.items

    def show(
        self,
        session: Session,
        resource: Resource,
        items: list[Json],
        header: tuple[str, ...],
        row: Callable[[Json, datetime], list[str]],
    ) -> None:
        """Print objects, in a table with one row for each unless another form was asked for."""
        if self.output == "name":
            for each in items:
                click.echo(name_text(resource, each))
            return
        if self.output in printed.FORMATS:
            whole = {"apiVersion": "v1", "kind": "List", "items": [tidied(each) for each in items]}
            printed.show(whole, self.output)
            return
        if not items:
            where = self.where(session, resource)
            inside = f" in namespace {where}" if where else ""
            click.echo(f"No {resource.plural} found{inside}.", err=True)
            return
        now = datetime.now(UTC)
        more, wide = _WIDE[resource] if self.output == "wide" else ((), lambda each, items: [])
        rows = [[*self._namespace(each), *row(each, now), *wide(each, items)] for each in items]
        show_table((*(("Namespace",) if self.everywhere else ()), *header, *more), rows)

    def _namespace(self, obj: Json) -> list[str]:
        return [key_of(obj).namespace] if self.everywhere else []


def _list_options(function: Callable[..., None]) -> Callable[..., None]:
    """Adds the options that all of them take; the command gets them as one `query`."""

    @click.option(
        "-o",
        "--output",
        type=click.Choice(["table", "wide", "json", "yaml", "name"]),
        default="table",
    )
    @click.option("--field-selector", "fields", default="", metavar="FIELDS")
    @click.option("-l", "--selector", "labels", default="", metavar="LABELS")
    @server_options
    @functools.wraps(function)
    def wrapped(**options: Any) -> None:
        given = {name: options.pop(name) for name in Query.__struct_fields__ if name in options}
        function(query=Query(**given), **options)

    return wrapped


_EVERYWHERE = click.option(
    "-A", "--all-namespaces", "everywhere", is_flag=True, help="In every namespace."
)


@click.group("list", cls=KindGroup)
def command() -> None:
    """List queues, workloads, flavors or pods."""


@command.command("clusterqueue")
@click.option("--active", type=click.BOOL, help="Only those that can admit, or that cannot.")
@_list_options
def cluster_queue(active: bool | None, query: Query) -> None:
    """ClusterQueues, their cohorts, and how many workloads wait and run in each."""

    async def work(session: Session) -> None:
        found = await query.items(session, CLUSTER_QUEUES)
        items = [each for each in found if active in (None, holds(each, "Active"))]
        header = ("Name", "Cohort", "Pending Workloads", "Admitted Workloads", "Active", "Age")
        query.show(session, CLUSTER_QUEUES, items, header, _cluster_queue)

    conduct(query.choice, work)


def _cluster_queue(queue: Json, now: datetime) -> list[str]:
    return [
        queue["metadata"]["name"],
        _spec(queue, "cohortName"),
        *_counts(queue),
        str(holds(queue, "Active")).lower(),
        _age(queue, now),
    ]


@command.command("localqueue")
@click.option("-c", "--clusterqueue", default="", metavar="NAME", help="Only those of it.")
@_EVERYWHERE
@_list_options
def local_queue(clusterqueue: str, query: Query) -> None:
    """LocalQueues, and how many workloads wait and run in each."""

    async def work(session: Session) -> None:
        found = await query.items(session, LOCAL_QUEUES)
        items = [each for each in found if clusterqueue in ("", _spec(each, "clusterQueue"))]
        header = ("Name", "ClusterQueue", "Pending Workloads", "Admitted Workloads", "Age")
        query.show(session, LOCAL_QUEUES, items, header, _local_queue)

    conduct(query.choice, work)


def _local_queue(queue: Json, now: datetime) -> list[str]:
    return [
        queue["metadata"]["name"],
        _spec(queue, "clusterQueue"),
        *_counts(queue),
        _age(queue, now),
    ]


@command.command("resourceflavor")
@_list_options
def resource_flavor(query: Query) -> None:
    """ResourceFlavors and the labels of their nodes."""

    async def work(session: Session) -> None:
        items = await query.items(session, RESOURCE_FLAVORS)
        header = ("Name", "Node Labels", "Age")
        query.show(session, RESOURCE_FLAVORS, items, header, _flavor)

    conduct(query.choice, work)


def _flavor(flavor: Json, now: datetime) -> list[str]:
    labels = (flavor.get("spec") or {}).get("nodeLabels") or {}
    words = ", ".join(f"{key}={value}" for key, value in sorted(labels.items()))
    return [flavor["metadata"]["name"], words, _age(flavor, now)]


class WorkloadFilter(msgspec.Struct, frozen=True, kw_only=True):
    """Which workloads are wanted; what is empty does not matter."""

    cluster_queue: str = ""
    local_queue: str = ""
    statuses: frozenset[str] = frozenset()
    owner: str = ""

    def wants(self, workload: Json, queue: str) -> bool:
        return (
            self.cluster_queue in ("", queue)
            and self.local_queue in ("", _spec(workload, "queueName"))
            and (not self.statuses or status(workload) in self.statuses)
            and (not self.owner or self._owns(workload))
        )

    def _owns(self, workload: Json) -> bool:
        """Whether the wanted job has the workload. Its kind may be written in the plural."""
        kind, name = owner(workload)
        words, _, wanted_name = self.owner.rpartition("/")
        wanted = words.partition(".")[0].lower()
        return name == wanted_name and kind.lower() in (wanted, wanted.removesuffix("s"))


@command.command("workload")
@click.option("-c", "--clusterqueue", default="", metavar="NAME", help="Only those in it.")
@click.option("-q", "--localqueue", default="", metavar="NAME", help="Only those in it.")
@click.option(
    "--status",
    "statuses",
    multiple=True,
    type=click.Choice(["all", _PENDING, _RESERVED, _ADMITTED, _FINISHED], case_sensitive=False),
    help="Only those that stand so. May be repeated.",
)
@click.option("--for", "owner", default="", metavar="KIND/NAME", help="Only that of this job.")
@_EVERYWHERE
@_list_options
def workload(
    clusterqueue: str, localqueue: str, statuses: tuple[str, ...], owner: str, query: Query
) -> None:
    """Workloads: whose they are, where they queue, and how they stand."""
    only = WorkloadFilter(
        cluster_queue=clusterqueue,
        local_queue=localqueue,
        statuses=frozenset(each.lower() for each in statuses) - {"all"},
        owner=owner,
    )
    conduct(query.choice, lambda session: _show_workloads(session, query, only))


async def _show_workloads(session: Session, query: Query, only: WorkloadFilter) -> None:
    found, queues = await asyncio.gather(
        query.items(session, WORKLOADS),
        session.client.list(LOCAL_QUEUES, query.where(session, LOCAL_QUEUES)),
    )
    behind = {key_of(each): _spec(each, "clusterQueue") for each in queues.items}

    def queue_of(workload: Json) -> str:
        admission = (workload.get("status") or {}).get("admission") or {}
        key = msgspec.structs.replace(key_of(workload), name=_spec(workload, "queueName"))
        return str(admission.get("clusterQueue") or behind.get(key, ""))

    items = [each for each in found if only.wants(each, queue_of(each))]
    waiting = {queue_of(each) for each in items if status(each) == _PENDING} - {""}
    places = await positions(session, sorted(waiting))

    def row(workload: Json, now: datetime) -> list[str]:
        key = key_of(workload)
        return [
            key.name,
            *owner(workload),
            _spec(workload, "queueName"),
            queue_of(workload),
            status(workload).upper(),
            places.get((key.namespace, key.name), ""),
            execution(workload, now),
            _age(workload, now),
        ]

    header = (
        *("Name", "Job Type", "Job Name", "LocalQueue", "ClusterQueue"),
        *("Status", "Position in Queue", "Exec Time", "Age"),
    )
    query.show(session, WORKLOADS, items, header, row)


def status(workload: Json) -> str:
    """Where a workload stands in kueuectl's four words."""
    return _STATUSES.get(state(workload), _PENDING)


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


@command.command("pods")
@click.option("--for", "job", required=True, metavar="KIND/NAME", help="Those of this job.")
@_list_options
def pods(job: str, query: Query) -> None:
    """The pods of a job."""

    async def work(session: Session) -> None:
        kind, slash, name = job.partition("/")
        if not slash:
            raise click.BadParameter(f"'{job}' is not KIND/NAME", param_hint="--for")
        resource = await resource_of(session, kind)
        uid = (await session.client.get(resource, session.key(resource, name)))["metadata"]["uid"]
        items = [each for each in await query.items(session, PODS) if uid in owners(each)]
        query.show(session, PODS, items, ("Name", "Status", "Node", "Age"), _pod)

    conduct(query.choice, work)


def _pod(pod: Json, now: datetime) -> list[str]:
    return [
        pod["metadata"]["name"],
        _status(pod, "phase"),
        _spec(pod, "nodeName"),
        _age(pod, now),
    ]


def _spec(obj: Json, field: str) -> str:
    return str((obj.get("spec") or {}).get(field) or "")


def _status(obj: Json, field: str) -> str:
    return str((obj.get("status") or {}).get(field) or "")


def _counts(queue: Json) -> list[str]:
    return [_status(queue, field) or "0" for field in ("pendingWorkloads", "admittedWorkloads")]


def _age(obj: Json, now: datetime) -> str:
    return age(obj["metadata"].get("creationTimestamp"), now)


def _message(obj: Json, type_: str) -> str:
    return str((condition(obj, type_) or {}).get("message") or "")


def _wide_cluster_queue(queue: Json, known: Sequence[Json]) -> list[str]:
    return [_spec(queue, "queueingStrategy"), _message(queue, "Active")]


def _wide_local_queue(queue: Json, known: Sequence[Json]) -> list[str]:
    return [str(holds(queue, "Active")).lower(), _message(queue, "Active")]


def _wide_flavor(flavor: Json, known: Sequence[Json]) -> list[str]:
    taints = (flavor.get("spec") or {}).get("nodeTaints") or ()
    words = [f"{each['key']}={each.get('value') or ''}:{each['effect']}" for each in taints]
    return [", ".join(words)]


def _wide_workload(workload: Json, known: Sequence[Json]) -> list[str]:
    pod_sets = (workload.get("spec") or {}).get("podSets") or ()
    pods = sum(int(each.get("count") or 1) for each in pod_sets)
    words = gets(workload) if holds(workload, "QuotaReserved") else why(workload, known)
    return [_spec(workload, "priority") or "0", str(pods), words]


def _wide_pod(pod: Json, known: Sequence[Json]) -> list[str]:
    return [_status(pod, "podIP"), _status(pod, "message") or _message(pod, "PodScheduled")]


_WIDE: dict[Resource, tuple[tuple[str, ...], Callable[[Json, Sequence[Json]], list[str]]]] = {
    CLUSTER_QUEUES: (("Strategy", "Message"), _wide_cluster_queue),
    LOCAL_QUEUES: (("Active", "Message"), _wide_local_queue),
    RESOURCE_FLAVORS: (("Node Taints",), _wide_flavor),
    WORKLOADS: (("Priority", "Pods", "Gets, or why not"), _wide_workload),
    PODS: (("IP", "Message"), _wide_pod),
}
"""What `-o wide` adds to each kind's columns."""
