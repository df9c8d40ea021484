# SPDX-License-Identifier: Apache-2.0
"""The Nodes of this machine: one, or one for each domain of its topology, which is an option.

If it is divided, a Topology has its levels, for flavors to name. Levels of a Topology never change,
so if the machine is divided in another way, the Topology is replaced, unless a flavor uses it.
"""

from __future__ import annotations

import logging
import os
import re
from collections.abc import Mapping, Sequence

import msgspec

from kuota.api.base import Json, Key
from kuota.kube.client import Client
from kuota.kube.clock import Clock
from kuota.kube.errors import Conflict, NotFound
from kuota.kube.resources import RESOURCE_FLAVORS, TOPOLOGIES, key_of
from kuota.runner.domain_nodes import TOPOLOGY, domain_nodes, machine_topology
from kuota.runner.host_topology import host_topology
from kuota.runner.inventory import Machine
from kuota.runner.machine_layout import Layout, LayoutError, layout, simulated
from kuota.runner.nodes import NodePlan, NodesError, this_machine
from kuota.runner.sysfs import recorded

_POLL_S = 0.2
_log = logging.getLogger(__name__)


class TopologyOptions(msgspec.Struct, frozen=True):
    """How the machine is divided: by a level, by simulated levels, or not at all."""

    level: str = ""
    simulated: Mapping[str, int] = {}

    def __bool__(self) -> bool:
        return bool(self.level or self.simulated)


class MachineNodes(msgspec.Struct, frozen=True):
    """The Nodes to register, and the Topology of a machine that is divided."""

    plans: Sequence[NodePlan]
    topology: Json | None = None


def machine_nodes(name: str, machine: Machine, options: TopologyOptions) -> MachineNodes:
    """Return the Nodes of this machine. Raises NodesError if it cannot be divided like this."""
    if not options:
        return MachineNodes([this_machine(name, machine)])
    try:
        divided = _layout(machine, options)
    except LayoutError as error:
        raise NodesError(f"--topology {options.level}: {error}") from error
    return MachineNodes(domain_nodes(name, machine, divided), machine_topology(divided))


def node_name(host: str) -> str:
    """A valid name for this machine's Node. Not every host name is a valid object name."""
    parts = [re.sub(r"[^a-z0-9-]+", "-", part).strip("-") for part in host.lower().split(".")]
    return ".".join(filter(None, parts))[:253].strip("-.") or "localhost"


def _layout(machine: Machine, options: TopologyOptions) -> Layout:
    cards = machine.gpus.cards
    record = recorded(each.address for each in cards if each.address)
    host = host_topology(record, cards, os.sched_getaffinity(0), machine.memory_bytes)
    if options.simulated:
        return simulated(options.simulated, host, cards)
    return layout(host, options.level)


async def publish(client: Client, topology: Json | None, clock: Clock) -> None:
    """Create the Topology, or replace one with other levels that no flavor uses.

    Without a topology, an existing one is kept for the next start that divides the machine.
    """
    if topology is None:
        return
    key, wanted = Key("", TOPOLOGY), topology["spec"]["levels"]
    while True:
        try:
            found = await client.get(TOPOLOGIES, key)
        except NotFound:
            await client.create(TOPOLOGIES, topology)
            return
        if found["spec"]["levels"] == wanted and not found["metadata"].get("deletionTimestamp"):
            return
        flavors = await client.list(RESOURCE_FLAVORS)
        users = [key_of(each).name for each in flavors.items if _uses(each)]
        if users:
            if found["spec"]["levels"] != wanted:
                _warn(found, wanted, users)
            return
        try:
            await client.delete(TOPOLOGIES, key, uid=found["metadata"]["uid"])
        except (NotFound, Conflict):
            continue
        await clock.sleep(_POLL_S)  # Its finalizer is removed by a controller.


def _uses(flavor: Json) -> bool:
    return bool((flavor.get("spec") or {}).get("topologyName") == TOPOLOGY)


def _warn(found: Json, wanted: Sequence[Json], users: Sequence[str]) -> None:
    stored, now = (_words(each) for each in (found["spec"]["levels"], wanted))
    _log.warning(
        "Topology %s has the levels %s, but this machine is divided by %s. It is not replaced, "
        "because these flavors use it: %s. Start with the former options, or remove topologyName "
        "from the flavors and start again",
        TOPOLOGY,
        stored,
        now,
        ", ".join(sorted(users)),
    )


def _words(levels: Sequence[Json]) -> str:
    return " > ".join(each["nodeLabel"] for each in levels)
