# SPDX-License-Identifier: Apache-2.0
"""Where the CPUs, memory and GPUs of this machine are: sockets, NUMA nodes, switches. Pure.

The input is a recorded part of sysfs, and what NVML reports about each GPU. Machines without some
of this information, such as many virtual ones, are taken as one socket and one NUMA node.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from itertools import pairwise

import msgspec

SOCKET, NUMA, PCIE_SWITCH, NVLINK_GROUP = "socket", "numa", "pcie-switch", "nvlink-group"
LEVELS = (SOCKET, NUMA, PCIE_SWITCH, NVLINK_GROUP)

NODES, CPUS, PCI = "devices/system/node", "devices/system/cpu", "bus/pci/devices"
"""Directories of sysfs."""
_NODE = re.compile(rf"{NODES}/node(\d+)/cpulist")
_MEMORY = re.compile(r"MemTotal:\s+(\d+) kB")
_ADDRESS = re.compile(r"[0-9a-f]{4,}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]")
_RANGE = re.compile(r"\s*(\d+)(?:-(\d+))?\s*")
_PORTS_OF_SWITCH = 2
"""A switch appears in the path of a device as an upstream port and a downstream port."""

Record = Mapping[str, str]
"""Paths below /sys, with the content of the file or the target of the link."""


class Card(msgspec.Struct, frozen=True):
    """A physical GPU as NVML reports it.

    `ids` has the ids of its devices by resource: the GPU itself, or its MIG instances. `peers` are
    the PCI addresses at the other ends of its NVLinks, and `switched` says whether one leads to an
    NVSwitch. `cpus` are those next to it, if known. `file` is the device file, "" if unknown.
    """

    ids: dict[str, list[str]]
    address: str = ""
    peers: tuple[str, ...] = ()
    switched: bool = False
    cpus: frozenset[int] = frozenset()
    file: str = ""


class Cpu(msgspec.Struct, frozen=True):
    """A CPU that may be used. `core` is the lowest number among the threads of its core."""

    number: int
    socket: int
    numa: int
    core: int


class PlacedCard(msgspec.Struct, frozen=True):
    """A GPU and its place. `switch` and `group` are "" if the machine has no such level."""

    ids: dict[str, list[str]]
    numa: int
    switch: str = ""
    group: str = ""


class HostTopology(msgspec.Struct, frozen=True):
    """The usable CPUs, the memory of each NUMA node that has some of them, and the GPUs."""

    cpus: tuple[Cpu, ...]
    memory_bytes: dict[int, int]
    cards: tuple[PlacedCard, ...] = ()


def host_topology(
    record: Record, cards: Sequence[Card], allowed: Collection[int], memory_bytes: int
) -> HostTopology:
    """Return the places of the allowed CPUs, of memory and of the cards.

    `memory_bytes` is the memory of the machine, which its NUMA nodes have in proportion to what
    they report now: a virtual machine may get memory only when it uses it.
    """
    nodes = {
        int(found[1]): cpu_list(text)
        for path, text in record.items()
        if (found := _NODE.fullmatch(path))
    }
    numa_of = {cpu: node for node, cpus in sorted(nodes.items()) for cpu in cpus}
    cpus = tuple(_cpu(record, number, numa_of.get(number, 0)) for number in sorted(allowed))
    count = Counter(each.numa for each in cpus)
    reported = {node: _memory(record, node) for node in nodes}
    weights = reported if all(reported.get(node) for node in count) else count
    total = sum(weights.values())
    memory = {node: memory_bytes * weights[node] // total for node in sorted(count)}
    numas = [_numa(record, card, count, numa_of) for card in cards]
    switches, groups = _switches(record, cards), _groups(cards)
    placed = (
        PlacedCard(card.ids, numa, switch, group)
        for card, numa, switch, group in zip(cards, numas, switches, groups, strict=True)
    )
    return HostTopology(cpus, memory, tuple(placed))


def device_ids(cards: Iterable[Card | PlacedCard]) -> dict[str, list[str]]:
    """The ids of the devices of these cards, by resource."""
    ids: dict[str, list[str]] = {}
    for card in cards:
        for resource, some in card.ids.items():
            ids.setdefault(resource, []).extend(some)
    return ids


def cpu_list(text: str) -> set[int]:
    """The CPUs in a list of the kernel, such as `0-3,8`. Invalid parts are left out."""
    found: set[int] = set()
    for part in text.split(","):
        match = _RANGE.fullmatch(part)
        if match:
            first = int(match[1])
            found.update(range(first, int(match[2] or first) + 1))
    return found


def pci_address(text: str) -> str:
    """A PCI address of NVML, `00000000:18:00.0`, as the kernel writes it; "" if it is invalid."""
    domain, _, rest = text.strip().lower().partition(":")
    try:
        return f"{int(domain, 16):04x}:{rest}" if rest else ""
    except ValueError:
        return ""


def _cpu(record: Record, number: int, numa: int) -> Cpu:
    folder = f"{CPUS}/cpu{number}/topology"
    socket = _number(record.get(f"{folder}/physical_package_id", ""))
    threads = cpu_list(record.get(f"{folder}/thread_siblings_list", ""))
    # Virtual machines report -1 for unknown sockets.
    return Cpu(number, max(0, socket or 0), numa, min(threads, default=number))


def _number(text: str) -> int | None:
    try:
        return int(text)
    except ValueError:
        return None


def _memory(record: Record, node: int) -> int:
    """The memory of a NUMA node in KiB; 0 if it is not reported."""
    found = _MEMORY.search(record.get(f"{NODES}/node{node}/meminfo", ""))
    return int(found[1]) if found else 0


def _numa(record: Record, card: Card, usable: Mapping[int, int], numa_of: Mapping[int, int]) -> int:
    """The NUMA node of a card: from sysfs, otherwise that of its CPUs, otherwise the first one.

    Only nodes with usable CPUs count, since processes that use the card cannot run on others.
    """
    said = _number(record.get(f"{PCI}/{card.address}/numa_node", ""))
    if said in usable:
        assert said is not None
        return said
    near = {numa_of[cpu] for cpu in card.cpus if numa_of.get(cpu) in usable}
    return near.pop() if len(near) == 1 else min(usable, default=0)


def _switches(record: Record, cards: Sequence[Card]) -> list[str]:
    """The number of the PCIe switch of each card; a card without one counts as its own.

    All are "" if no card is behind a switch.
    """
    upstream = [_upstream(record.get(f"{PCI}/{card.address}", "")) for card in cards]
    if not any(upstream):
        return [""] * len(cards)
    return _numbered(port or f"none {at}" for at, port in enumerate(upstream))


def _upstream(link: str) -> str:
    """The upstream port of the innermost switch above a device; "" if there is none."""
    ports = [part for part in link.split("/") if _ADDRESS.fullmatch(part)][:-1]
    # The first port is the root port.
    return ports[-_PORTS_OF_SWITCH] if len(ports) > _PORTS_OF_SWITCH else ""


def _groups(cards: Sequence[Card]) -> list[str]:
    """The number of the NVLink group of each card: the cards that it reaches through NVLinks.

    All are "" if no card has an NVLink. NVSwitches connect all cards that are linked to one.
    """
    if not any(card.peers or card.switched for card in cards):
        return [""] * len(cards)
    group = list(range(len(cards)))
    switched = [at for at, card in enumerate(cards) if card.switched]
    # Cards that share a peer are connected through it, even if it is no card.
    first = {card.address: at for at, card in enumerate(cards) if card.address}
    links = [
        (at, first.setdefault(peer, at)) for at, card in enumerate(cards) for peer in card.peers
    ]
    for one, other in [*links, *pairwise(switched)]:
        joined, kept = group[other], group[one]
        group = [kept if each == joined else each for each in group]
    return _numbered(str(each) for each in group)


def _numbered(names: Iterable[str]) -> list[str]:
    """The names replaced by numbers, in the order of their first appearance."""
    numbers: dict[str, str] = {}
    return [numbers.setdefault(name, str(len(numbers))) for name in names]
