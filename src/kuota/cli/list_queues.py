# SPDX-License-Identifier: Apache-2.0
"""`kuota list`: queues, workloads, flavors and pods with the columns of kueuectl."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any

import click

from .connect import Choice, conduct, server_options
from .groups import KindGroup

if TYPE_CHECKING:
    from .listing import Listed
    from .session import Session

STATUSES = ("all", "pending", "quotareserved", "admitted", "finished")
_EVERYWHERE = click.option(
    "-A", "--all-namespaces", "everywhere", is_flag=True, help="In every namespace."
)


def _list_options(function: Any) -> Any:
    for made in (
        click.option("-l", "--selector", "labels", default="", metavar="LABELS"),
        click.option("--field-selector", "fields", default="", metavar="FIELDS"),
        click.option(
            "-o",
            "--output",
            type=click.Choice(["table", "wide", "json", "yaml", "name"]),
            default="table",
        ),
    ):
        function = made(function)
    return function


@click.group("list", cls=KindGroup)
def command() -> None:
    """List queues, workloads, flavors or pods."""


@command.command("clusterqueue")
@click.option("--active", type=click.BOOL, help="Only those that can admit, or that cannot.")
@_list_options
@server_options
def cluster_queue(
    active: bool | None, labels: str, fields: str, output: str, choice: Choice
) -> None:
    """ClusterQueues, their cohorts, and how many workloads wait and run in each."""

    async def found(session: Session) -> Listed:
        from .listing import cluster_queues

        return await cluster_queues(session, labels, fields, active)

    _list(choice, found, output)


@command.command("localqueue")
@click.option("-c", "--clusterqueue", default="", metavar="NAME", help="Only those of it.")
@_EVERYWHERE
@_list_options
@server_options
def local_queue(
    clusterqueue: str, everywhere: bool, labels: str, fields: str, output: str, choice: Choice
) -> None:
    """LocalQueues, and how many workloads wait and run in each."""

    async def found(session: Session) -> Listed:
        from .listing import local_queues

        return await local_queues(session, everywhere, labels, fields, clusterqueue)

    _list(choice, found, output)


@command.command("resourceflavor")
@_list_options
@server_options
def resource_flavor(labels: str, fields: str, output: str, choice: Choice) -> None:
    """ResourceFlavors and the labels of their nodes."""

    async def found(session: Session) -> Listed:
        from .listing import resource_flavors

        return await resource_flavors(session, labels, fields)

    _list(choice, found, output)


@command.command("workload")
@click.option("-c", "--clusterqueue", default="", metavar="NAME", help="Only those in it.")
@click.option("-q", "--localqueue", default="", metavar="NAME", help="Only those in it.")
@click.option(
    "--status",
    "statuses",
    multiple=True,
    type=click.Choice(STATUSES, case_sensitive=False),
    help="Only those that stand so. May be repeated.",
)
@click.option("--for", "owner", default="", metavar="KIND/NAME", help="Only that of this job.")
@_EVERYWHERE
@_list_options
@server_options
def workload(
    clusterqueue: str,
    localqueue: str,
    statuses: tuple[str, ...],
    owner: str,
    everywhere: bool,
    labels: str,
    fields: str,
    output: str,
    choice: Choice,
) -> None:
    """Workloads: whose they are, where they queue, and how they stand."""

    async def found(session: Session) -> Listed:
        from .listing import WorkloadFilter, workloads

        only = WorkloadFilter(
            cluster_queue=clusterqueue,
            local_queue=localqueue,
            statuses=frozenset(each.lower() for each in statuses) - {"all"},
            owner=owner,
        )
        return await workloads(session, everywhere, labels, fields, only)

    _list(choice, found, output)


@command.command("pods")
@click.option("--for", "owner", required=True, metavar="KIND/NAME", help="Those of this job.")
@_list_options
@server_options
def pods(owner: str, labels: str, fields: str, output: str, choice: Choice) -> None:
    """The pods of a job."""

    async def found(session: Session) -> Listed:
        from .listing import pods_of

        return await pods_of(session, owner, labels, fields)

    _list(choice, found, output)


def _list(choice: Choice, found: Callable[[Session], Awaitable[Listed]], output: str) -> None:
    async def work(session: Session) -> None:
        from .listing import show

        show(await found(session), output)

    conduct(choice, work)
