# SPDX-License-Identifier: Apache-2.0
"""Reports quota that exceeds the capacity of the nodes, and the free capacity of a node.

Shortages are reported only by the embedded server, because a cluster may add nodes. Users without
permission to read queues, flavors and nodes get no report.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import TYPE_CHECKING

import click

from kuota.api.base import Json
from kuota.api.core import is_terminated
from kuota.api.resources import nanos
from kuota.kube.errors import ApiError
from kuota.kube.resources import CLUSTER_QUEUES, COHORTS, NODES, PODS, RESOURCE_FLAVORS, key_of
from kuota.runner.binding import placed
from kuota.view.live import queue_rows
from kuota.view.room import Shortage, concerns, rounded, shortage_words, shortages

from .output import show_table

if TYPE_CHECKING:
    from .session import Session

KINDS = frozenset({"ClusterQueue", "Cohort", "ResourceFlavor"})
"""Kinds that affect quota."""


async def found(session: Session) -> list[Shortage]:
    """Return where the quota of queues exceeds the capacity of the nodes."""
    if not session.embedded:
        return []
    kinds = (CLUSTER_QUEUES, COHORTS, RESOURCE_FLAVORS, NODES)
    try:
        listed = await asyncio.gather(*(session.client.list(each) for each in kinds))
    except ApiError:
        return []
    queues, cohorts, flavors, nodes = (each.items for each in listed)
    return shortages([*queues, *cohorts], flavors, nodes)


async def warn(session: Session) -> None:
    """Print a warning for each shortage, after a change of quota."""
    for each in await found(session):
        click.echo(f"Warning: {shortage_words(each)}", err=True)


async def print_shortages(session: Session, queue: Json) -> None:
    """Print the shortages that concern the quota of this queue."""
    quotas = [(each.flavor, each.resource) for each in queue_rows([queue])[0].quotas]
    for each in await found(session):
        if concerns(each, quotas):
            click.echo(f"{'Room:':<13}{shortage_words(each)}")


async def print_node(session: Session, node: Json) -> None:
    """Print what is allocatable on the node, what its pods request, and what is free."""
    try:
        here = f"spec.nodeName={node['metadata']['name']}"
        listed = await session.client.list(PODS, field_selector=here)
    except ApiError:
        return
    pods = [each for each in listed.items if not is_terminated(each)]
    offered = nanos((node.get("status") or {}).get("allocatable") or {})
    taken: Counter[str] = Counter()
    for each in pods:
        taken.update(placed(each).requests)
    click.echo("Room:")
    rows = [
        [f"  {name}", *(rounded(each, name) for each in (all_, taken[name], all_ - taken[name]))]
        for name, all_ in sorted(offered.items())
    ]
    show_table(("  RESOURCE", "OFFERED", "TAKEN", "FREE"), rows)
    if pods:
        names = [f"{key_of(each).namespace}/{key_of(each).name}" for each in pods]
        click.echo(f"{'Pods:':<13}{', '.join(names)}")
