# SPDX-License-Identifier: Apache-2.0
"""Asks the server of one machine whether it has what its queues offer.

A cluster may grow, so it is not asked. Who may not see enough to tell is told nothing.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import click

from kuota.kube.errors import ApiError
from kuota.kube.resources import CLUSTER_QUEUES, COHORTS, NODES, RESOURCE_FLAVORS
from kuota.view.room import Shortage, shortage_words, shortages

if TYPE_CHECKING:
    from .session import Session

KINDS = frozenset({"ClusterQueue", "Cohort", "ResourceFlavor"})
"""What is written where quota is."""


async def found(session: Session) -> list[Shortage]:
    """Where queues offer more than the nodes have."""
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
    """Say it to whoever has just written quota."""
    for each in await found(session):
        click.echo(f"Warning: {shortage_words(each)}", err=True)
