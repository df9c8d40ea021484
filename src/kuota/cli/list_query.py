# SPDX-License-Identifier: Apache-2.0
"""Options that all `kuota list` commands share: which objects to list, and how to print them."""

from __future__ import annotations

import functools
from collections.abc import Callable
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import click
import msgspec

from kuota.api.base import Json
from kuota.kube.errors import Forbidden
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
from kuota.view.live import age, gets

from . import output as printed
from .connect import Choice, server_options
from .output import name_text, show_table, tidied
from .own_namespaces import own_namespaces

if TYPE_CHECKING:
    from .session import Session


class ListQuery(msgspec.Struct, frozen=True, kw_only=True):
    """Which objects to list, and how to print them."""

    labels: str
    fields: str
    output: str
    choice: Choice
    everywhere: bool = False

    def where(self, session: Session, resource: Resource) -> str | None:
        """Return the namespace to list; None for all namespaces or cluster-scoped objects."""
        return session.namespace if resource.namespaced and not self.everywhere else None

    async def items(self, session: Session, resource: Resource) -> list[Json]:
        """Return the objects. Members get those of their teams if they ask for all namespaces."""

        async def inside(namespace: str | None) -> list[Json]:
            found = await session.client.list(
                resource, namespace, label_selector=self.labels, field_selector=self.fields
            )
            return found.items

        try:
            return await inside(self.where(session, resource))
        except Forbidden:
            own = await own_namespaces(session) if self.everywhere and session.embedded else []
            if not own:
                raise
        return [obj for namespace in own for obj in await inside(namespace)]

    def show(
        self,
        session: Session,
        resource: Resource,
        items: list[Json],
        header: tuple[str, ...],
        row: Callable[[Json, datetime], list[str]],
        optional: tuple[str, ...] = (),
    ) -> None:
        """Print objects in the selected format; the default is a table with one row per object.

        On a narrow terminal, `optional` columns are dropped in order.
        """
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
            hint = "; -A lists all namespaces" if where and resource in _EVERYWHERE else ""
            click.echo(f"No {resource.plural} found{inside}{hint}.", err=True)
            return
        now = datetime.now(UTC)
        more, wide = _WIDE[resource] if self.output == "wide" else ((), lambda each: [])
        rows = [[*self._namespace(each), *row(each, now), *wide(each)] for each in items]
        titles = (*(("Namespace",) if self.everywhere else ()), *header, *more)
        show_table(titles, rows, optional=optional)

    def _namespace(self, obj: Json) -> list[str]:
        return [key_of(obj).namespace] if self.everywhere else []


def list_options(function: Callable[..., None]) -> Callable[..., None]:
    """Add the options that all list commands share; the command gets them as one `query`."""

    @click.option(
        "-o",
        "--output",
        type=click.Choice(["table", "wide", "json", "yaml", "name"]),
        default="table",
        help="Output format; wide adds columns.",
    )
    @click.option(
        "--field-selector", "fields", default="", metavar="FIELDS", help="Field selector."
    )
    @click.option(
        "-l", "--selector", "labels", default="", metavar="LABELS", help="Label selector."
    )
    @server_options
    @functools.wraps(function)
    def wrapped(**options: Any) -> None:
        given = {name: options.pop(name) for name in ListQuery.__struct_fields__ if name in options}
        function(query=ListQuery(**given), **options)

    return wrapped


_EVERYWHERE = (LOCAL_QUEUES, WORKLOADS)
"""Kinds whose lists have the option -A."""


def everywhere_option(words: str) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Add the option -A; the command gets it as `everywhere`."""
    return click.option("-A", "--all-namespaces", "everywhere", is_flag=True, help=words)


EVERYWHERE = everywhere_option("List all namespaces that you may read.")
ALL_TEAMS = everywhere_option("Report on all namespaces that you may read.")


def spec_text(obj: Json, field: str) -> str:
    return str((obj.get("spec") or {}).get(field) or "")


def status_text(obj: Json, field: str) -> str:
    return str((obj.get("status") or {}).get(field) or "")


def counts(queue: Json) -> list[str]:
    return [status_text(queue, field) or "0" for field in ("pendingWorkloads", "admittedWorkloads")]


def age_text(obj: Json, now: datetime) -> str:
    return age(obj["metadata"].get("creationTimestamp"), now)


def message_text(obj: Json, type_: str) -> str:
    return str((condition(obj, type_) or {}).get("message") or "")


def _wide_cluster_queue(queue: Json) -> list[str]:
    return [spec_text(queue, "queueingStrategy"), message_text(queue, "Active")]


def _wide_local_queue(queue: Json) -> list[str]:
    return [str(holds(queue, "Active")).lower(), message_text(queue, "Active")]


def _wide_flavor(flavor: Json) -> list[str]:
    taints = (flavor.get("spec") or {}).get("nodeTaints") or ()
    words = [f"{each['key']}={each.get('value') or ''}:{each['effect']}" for each in taints]
    return [", ".join(words)]


def _wide_workload(workload: Json) -> list[str]:
    pod_sets = (workload.get("spec") or {}).get("podSets") or ()
    pods = sum(int(each.get("count") or 1) for each in pod_sets)
    return [spec_text(workload, "priority") or "0", str(pods), gets(workload)]


def _wide_pod(pod: Json) -> list[str]:
    words = status_text(pod, "message") or message_text(pod, "PodScheduled")
    return [status_text(pod, "podIP"), words]


_WIDE: dict[Resource, tuple[tuple[str, ...], Callable[[Json], list[str]]]] = {
    CLUSTER_QUEUES: (("Strategy", "Message"), _wide_cluster_queue),
    LOCAL_QUEUES: (("Active", "Message"), _wide_local_queue),
    RESOURCE_FLAVORS: (("Node Taints",), _wide_flavor),
    WORKLOADS: (("Priority", "Pods", "Quota"), _wide_workload),
    PODS: (("IP", "Message"), _wide_pod),
}
"""The columns that `-o wide` adds for each kind."""
