# SPDX-License-Identifier: Apache-2.0
"""`kuota list`: lists queues, workloads, flavors and pods with the columns of kueuectl."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING

import click

from kuota.api.base import Json
from kuota.kube.resources import CLUSTER_QUEUES, LOCAL_QUEUES, PODS, RESOURCE_FLAVORS
from kuota.view.conditions import holds

from .connect import conduct
from .groups import KindGroup
from .job_objects import owners
from .kinds import resource_of
from .list_query import (
    EVERYWHERE,
    ListQuery,
    age_text,
    counts,
    list_options,
    spec_text,
    status_text,
)
from .workload_list import workload

if TYPE_CHECKING:
    from .session import Session


@click.group("list", cls=KindGroup, jobs_are_workloads=True, default="workload")
def command() -> None:
    """List queues, workloads, flavors or pods. Without a kind, list workloads.

    \b
    Examples:
      kuota list                        # the jobs of the namespace: states, and why they wait
      kuota list -A --status pending
      kuota list cq -o wide
      kuota list pods --for job/train
    """


command.add_command(workload)


@command.command("clusterqueue")
@click.option("--active", type=click.BOOL, help="Show only active queues, or only inactive ones.")
@list_options
def cluster_queue(active: bool | None, query: ListQuery) -> None:
    """List ClusterQueues, their cohorts, and how many workloads wait and run in each.

    \b
    Examples:
      kuota list cq -o wide    # also why a queue is inactive
      kuota list cq --active false
    """

    async def work(session: Session) -> None:
        found = await query.items(session, CLUSTER_QUEUES)
        items = [each for each in found if active in (None, holds(each, "Active"))]
        header = ("Name", "Cohort", "Pending Workloads", "Admitted Workloads", "Active", "Age")
        query.show(session, CLUSTER_QUEUES, items, header, _cluster_queue)

    conduct(query.choice, work)


def _cluster_queue(queue: Json, now: datetime) -> list[str]:
    return [
        queue["metadata"]["name"],
        spec_text(queue, "cohortName"),
        *counts(queue),
        str(holds(queue, "Active")).lower(),
        age_text(queue, now),
    ]


@command.command("localqueue")
@click.option(
    "-c",
    "--clusterqueue",
    default="",
    metavar="NAME",
    help="Only of this ClusterQueue.",
)
@EVERYWHERE
@list_options
def local_queue(clusterqueue: str, query: ListQuery) -> None:
    """List LocalQueues, and how many workloads wait and run in each.

    \b
    Examples:
      kuota list lq -A
      kuota list lq -c team-a
    """

    async def work(session: Session) -> None:
        found = await query.items(session, LOCAL_QUEUES)
        items = [each for each in found if clusterqueue in ("", spec_text(each, "clusterQueue"))]
        header = ("Name", "ClusterQueue", "Pending Workloads", "Admitted Workloads", "Age")
        query.show(session, LOCAL_QUEUES, items, header, _local_queue)

    conduct(query.choice, work)


def _local_queue(queue: Json, now: datetime) -> list[str]:
    return [
        queue["metadata"]["name"],
        spec_text(queue, "clusterQueue"),
        *counts(queue),
        age_text(queue, now),
    ]


@command.command("resourceflavor")
@list_options
def resource_flavor(query: ListQuery) -> None:
    """List ResourceFlavors and the labels of their nodes.

    \b
    Example:
      kuota list flavors -o wide
    """

    async def work(session: Session) -> None:
        items = await query.items(session, RESOURCE_FLAVORS)
        header = ("Name", "Node Labels", "Age")
        query.show(session, RESOURCE_FLAVORS, items, header, _flavor)

    conduct(query.choice, work)


def _flavor(flavor: Json, now: datetime) -> list[str]:
    labels = (flavor.get("spec") or {}).get("nodeLabels") or {}
    words = ", ".join(f"{key}={value}" for key, value in sorted(labels.items()))
    return [flavor["metadata"]["name"], words, age_text(flavor, now)]


@command.command("pods")
@click.option("--for", "job", required=True, metavar="KIND/NAME", help="The job of the pods.")
@list_options
def pods(job: str, query: ListQuery) -> None:
    """List the pods of a job.

    \b
    Example:
      kuota list pods --for job/train -o wide
    """

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
        status_text(pod, "phase"),
        spec_text(pod, "nodeName"),
        age_text(pod, now),
    ]
