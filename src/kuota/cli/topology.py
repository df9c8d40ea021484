# SPDX-License-Identifier: Apache-2.0
"""`kuota topology`: draws the domains of topologies with their capacity, and where a job runs.

Exit status: as for all commands that talk to a server, or as for `kuota plan` with manifests.
"""

from __future__ import annotations

import asyncio
import difflib
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

import click

from kuota.api.base import Json, Key
from kuota.engine.state import State
from kuota.kube.errors import Forbidden
from kuota.kube.resources import (
    CLUSTER_QUEUES,
    NODES,
    PODS,
    RESOURCE_FLAVORS,
    TOPOLOGIES,
    WORKLOADS,
    Resource,
    key_of,
)
from kuota.view.observed import ObservedState
from kuota.view.topology import TopologyReport, topology_report
from kuota.view.workload_state import owner, waiting_words

from . import output as printed
from .connect import Choice, Failed, conduct, filename_option, server_options
from .plan import planned
from .topology_tree import draw

if TYPE_CHECKING:
    from .session import Session


_NEEDED = (TOPOLOGIES, RESOURCE_FLAVORS, CLUSTER_QUEUES, NODES)


@click.command("topology")
@click.argument("name", default="", metavar="[[NAMESPACE/]NAME]")
@filename_option()
@click.option("--flavor", default="", metavar="NAME", help="Show only this ResourceFlavor.")
@click.option("--level", default="", metavar="LABEL", help="The lowest level to show.")
@click.option(
    "-o",
    "--output",
    type=click.Choice(["table", "wide", "json", "yaml"]),
    default="table",
    show_default=True,
)
@server_options
def command(
    name: str,
    filenames: tuple[str, ...],
    flavor: str,
    level: str,
    output: str,
    choice: Choice,
) -> None:
    """Show the domains of each topology, such as racks, with free capacity and usage.

    With the NAME of a job or Workload, only the domains in which its pods are placed are shown,
    with the ranks of the pods. The bar of each resource shows how much of it is used. Large
    topologies are drawn without their lowest levels, which --level adds.

    With -f, no server is needed: manifests of nodes, topologies, flavors, queues and jobs are
    planned as by `kuota plan`, and the result is shown.

    \b
    Examples:
      kuota topology
      kuota topology train -n team-a
      kuota topology --level cloud.com/topology-rack
      kuota topology -f cluster.yaml -f job.yaml team-a/train -o json
    """
    if filenames:
        wanted = _key(name, choice.namespace or "default")
        _show(_plan(filenames, wanted, flavor), output, level)
        return

    async def work(session: Session) -> None:
        wanted = _key(name, session.namespace or "default")
        _show(await _live(session, wanted, flavor), output, level)

    conduct(choice, work)


def _key(name: str, namespace: str) -> Key | None:
    """Return the key that the user named; None if no name was given."""
    found = Key.parse(name)
    return Key(found.namespace or namespace, found.name) if name else None


def _show(report: TopologyReport, output: str, level: str) -> None:
    if output in printed.FORMATS:
        printed.show(report, output)
    else:
        draw(report, level=level, wide=output == "wide")


def _plan(paths: Sequence[str], wanted: Key | None, flavor: str) -> TopologyReport:
    """Return the state after a plan of the manifests. Ends the command if they are invalid."""
    state, plan = planned(paths)
    if wanted is None:
        return topology_report(state, flavor=_known(state, flavor), notes=plan.notes)
    for row in plan.workloads:
        own = Key(row.name.partition("/")[0], row.workload)
        if wanted in (Key.parse(row.name), own):
            return topology_report(
                state,
                state.workloads.get(own),
                name=row.name,
                flavor=_known(state, flavor),
                waiting=row.why.text if row.why is not None else "",
                notes=plan.notes,
            )
    raise _unknown(wanted, (each.name for each in plan.workloads))


async def _live(session: Session, wanted: Key | None, flavor: str) -> TopologyReport:
    """Return the current state of a server."""
    notes: list[str] = []
    needed = [_named(session, each) for each in _NEEDED]
    objects = [each for found in await asyncio.gather(*needed) for each in found]
    workloads = await _allowed(session, WORKLOADS, wanted, notes)
    pods = await _allowed(session, PODS, wanted, notes)
    observed = ObservedState.of([*objects, *workloads, *pods])
    found = _chosen(workloads, wanted)
    return topology_report(
        observed.state,
        observed.workload_model(key_of(found)) if found is not None else None,
        name=_job(found) if found is not None else "",
        flavor=_known(observed.state, flavor),
        waiting=waiting_words(found) if found is not None else "",
        notes=notes,
    )


async def _named(session: Session, resource: Resource, namespace: str | None = None) -> list[Json]:
    """List objects of a kind, with the kind, which lists omit."""
    listed = await session.client.list(resource, namespace)
    kind = {"apiVersion": resource.api_version, "kind": resource.kind}
    return [kind | each for each in listed.items]


async def _allowed(
    session: Session, resource: Resource, wanted: Key | None, notes: list[str]
) -> list[Json]:
    """List what the user may read: all namespaces, or only their own."""
    try:
        return await _named(session, resource)
    except Forbidden:
        namespace = wanted.namespace if wanted is not None else session.namespace
        notes.append(
            f"You may not list {resource.plural} of all namespaces. Usage by other namespaces than "
            f"{namespace} is not shown."
        )
    try:
        return await _named(session, resource, namespace)
    except Forbidden:
        return []


def _chosen(workloads: Sequence[Json], wanted: Key | None) -> Json | None:
    """Return the newest Workload with this name or of a job with this name."""
    if wanted is None:
        return None
    here = [each for each in workloads if key_of(each).namespace == wanted.namespace]
    found = [each for each in here if wanted.name in (key_of(each).name, owner(each)[1])]
    if not found:
        raise _unknown(wanted, (_job(each) for each in workloads))
    return found[-1]


def _job(workload: Json) -> str:
    key = key_of(workload)
    return f"{key.namespace}/{owner(workload)[1] or key.name}"


def _known(state: State, flavor: str) -> str:
    """Return the flavor if it has a topology. Raises Failed."""
    names = sorted(each.name for each in state.flavors.values() if each.topology)
    if flavor and flavor not in names:
        there = f"there are: {', '.join(names)}" if names else "no flavor has one"
        raise Failed(f"no flavor {flavor} with a topology; {there}")
    return flavor


def _unknown(wanted: Key, names: Iterable[str]) -> Failed:
    close = difflib.get_close_matches(str(wanted), sorted(set(names)), n=1)
    hint = f"did you mean {close[0]}?" if close else "see `kuota list workloads -A`"
    return Failed(f"no job or Workload {wanted}; {hint}")
