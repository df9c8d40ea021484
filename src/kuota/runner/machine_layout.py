# SPDX-License-Identifier: Apache-2.0
"""Divides this machine into domains, each of which becomes a Node: real or simulated ones. Pure.

A domain has its own CPUs, memory and GPUs. The levels of the topology are those that contain whole
domains, from the largest to the smallest.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence

import msgspec

from .host_topology import (
    LEVELS,
    NUMA,
    NVLINK_GROUP,
    PCIE_SWITCH,
    SOCKET,
    Card,
    Cpu,
    HostTopology,
    PlacedCard,
    device_ids,
)

AUTO = "auto"
MAX_DOMAINS = 256
NO_GPU = "none"
"""The value of GPU levels for domains without GPUs. Without any value, a Node would not be used."""


class LayoutError(ValueError):
    """The machine cannot be divided as requested; the message states the reason."""


class MachineDomain(msgspec.Struct, frozen=True):
    """A part of this machine. `name` is unique among the domains of a layout.

    Several domains may share a CPU if there are more domains than cores. Each then has a fraction.
    """

    name: str
    values: dict[str, str]
    cpus: tuple[int, ...]
    cpu_milli: int
    memory_bytes: int
    devices: dict[str, list[str]] = {}


class Layout(msgspec.Struct, frozen=True):
    """The levels from the largest to the smallest, and the domains of the smallest one."""

    levels: tuple[str, ...]
    domains: tuple[MachineDomain, ...]


class _Part:
    """A domain under construction."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.cpus: list[Cpu] = []
        self.cards: list[PlacedCard] = []
        self.cpu_milli = 0
        self.memory_bytes = 0

    def values(self, level: str) -> set[str]:
        """The values of the level in this part; several if the level divides it."""
        if level in _OF_CARDS:
            return set(map(_OF_CARDS[level], self.cards)) or {NO_GPU}
        return {str(each.socket if level == SOCKET else each.numa) for each in self.cpus}


def layout(host: HostTopology, level: str) -> Layout:
    """Divide the machine by one of the levels. Raises LayoutError if it has no such level.

    `auto` divides by NVLink groups if there are several of them, otherwise by NUMA nodes.
    """
    if level == AUTO:
        several = len({each.group for each in host.cards}) > 1
        level = NVLINK_GROUP if several else NUMA
    reported = [each for each in LEVELS if _reports(host, each)]
    if level not in reported:
        raise LayoutError(
            f"this machine cannot be divided by {level}: its GPUs have none, or do not report it; "
            f"use {', '.join([AUTO, *reported[:-1]])} or {reported[-1]}"
        )
    by_cards = level in _OF_CARDS
    parts = _by_cards(host, level, _OF_CARDS[level]) if by_cards else _by_cpus(host, level)
    whole = [each for each in reported if all(len(part.values(each)) == 1 for part in parts)]
    domains = tuple(_domain(part, whole) for part in parts)
    return Layout(_ordered(whole, domains), domains)


_OF_CARDS: dict[str, Callable[[PlacedCard], str]] = {
    PCIE_SWITCH: lambda card: card.switch,
    NVLINK_GROUP: lambda card: card.group,
}
"""The value of each level that only GPUs have."""


def _reports(host: HostTopology, level: str) -> bool:
    return level not in _OF_CARDS or any(map(_OF_CARDS[level], host.cards))


def _by_cpus(host: HostTopology, level: str) -> list[_Part]:
    parts: dict[int, _Part] = {}
    for cpu in host.cpus:
        at = cpu.socket if level == SOCKET else cpu.numa
        part = parts.setdefault(at, _Part(f"{level}-{at}"))
        part.cpus.append(cpu)
        part.cpu_milli += 1000
    total = Counter(each.numa for each in host.cpus)
    for part in parts.values():
        for node, count in Counter(each.numa for each in part.cpus).items():
            part.memory_bytes += host.memory_bytes[node] * count // total[node]
    for card in host.cards:
        near = next(each for each in host.cpus if each.numa == card.numa)
        parts[near.socket if level == SOCKET else card.numa].cards.append(card)
    return [parts[at] for at in sorted(parts)]


def _by_cards(host: HostTopology, level: str, value: Callable[[PlacedCard], str]) -> list[_Part]:
    """Divide the CPUs and the memory of each NUMA node among its groups of cards.

    A NUMA node without cards is a part of its own.
    """
    parts: dict[str, _Part] = {}
    for node, memory in host.memory_bytes.items():
        cards = [each for each in host.cards if each.numa == node]
        names = [f"{level}-{each}" for each in dict.fromkeys(map(value, cards))]
        weights = [sum(f"{level}-{value(card)}" == name for card in cards) for name in names]
        names, weights = names or [f"{NUMA}-{node}"], weights or [1]
        cpus = [each for each in host.cpus if each.numa == node]
        shares = zip(names, weights, _shares(_cores(cpus), weights), strict=True)
        for name, weight, (some, cpu_milli) in shares:
            part = parts.setdefault(name, _Part(name))
            part.cpus += some
            part.cpu_milli += cpu_milli
            part.memory_bytes += memory * weight // sum(weights)
            part.cards += [each for each in cards if f"{level}-{value(each)}" == name]
    return list(parts.values())


def _cores(cpus: Iterable[Cpu]) -> list[list[Cpu]]:
    cores: dict[int, list[Cpu]] = {}
    for each in sorted(cpus, key=lambda cpu: (cpu.core, cpu.number)):
        cores.setdefault(each.core, []).append(each)
    return list(cores.values())


def _shares(cores: Sequence[Sequence[Cpu]], weights: Sequence[int]) -> list[tuple[list[Cpu], int]]:
    """Divide whole cores by weight: the CPUs of each share, and their capacity in milli-CPUs.

    If there are fewer cores than shares, shares use the same core, and get a fraction of it.
    """
    total, before, shares = sum(weights), 0, []
    everything = 1000 * sum(map(len, cores))
    exclusive = len(cores) * min(weights) >= total
    for weight in weights:
        first, last = (round(len(cores) * at / total) for at in (before, before + weight))
        if not exclusive:
            first = len(cores) * before // total
            last = max(first + 1, math.ceil(len(cores) * (before + weight) / total))
        cpus = [cpu for core in cores[first:last] for cpu in core]
        shares.append((cpus, 1000 * len(cpus) if exclusive else everything * weight // total))
        before += weight
    return shares


def _domain(part: _Part, levels: Iterable[str]) -> MachineDomain:
    return MachineDomain(
        name=part.name,
        values={level: min(part.values(level)) for level in levels},
        cpus=tuple(sorted(each.number for each in part.cpus)),
        cpu_milli=part.cpu_milli,
        memory_bytes=part.memory_bytes,
        devices=device_ids(part.cards),
    )


def _ordered(levels: Sequence[str], domains: Sequence[MachineDomain]) -> tuple[str, ...]:
    """The levels from the largest to the smallest: NVSwitches connect GPUs of several sockets."""
    return tuple(sorted(levels, key=lambda each: len({one.values[each] for one in domains})))


def simulated_levels(text: str) -> dict[str, int]:
    """Parse `socket=2,nvlink-group=2`: each domain of a level has so many of the next one.

    Raises LayoutError with all faults.
    """
    levels: dict[str, int] = {}
    faults: list[str] = []
    for part in text.split(","):
        name, equals, number = (each.strip() for each in part.partition("="))
        count = int(number) if number.isascii() and number.isdigit() and len(number) < 9 else 0
        if not equals or name not in LEVELS:
            known = ", ".join(LEVELS)
            faults.append(f"{part.strip()!r} is not LEVEL=NUMBER with one of the levels {known}")
        elif name in levels:
            faults.append(f"{name} is given twice")
        if equals and count < 1:
            faults.append(f"{number!r} is not a number of domains; use 1 or more")
        levels.setdefault(name, count)
    total = math.prod(levels.values())
    if not faults and total > MAX_DOMAINS:
        faults.append(f"{total} domains are too many; use at most {MAX_DOMAINS}")
    if faults:
        raise LayoutError("; ".join(faults))
    return levels


def simulated(levels: Mapping[str, int], host: HostTopology, cards: Sequence[Card]) -> Layout:
    """Divide the machine evenly into simulated domains, in the order of the levels."""
    counts = list(levels.values())
    total = math.prod(counts)
    memory = sum(host.memory_bytes.values()) // total
    shares = _shares(_cores(host.cpus), [1] * total)
    domains = []
    for at, (cpus, cpu_milli) in enumerate(shares):
        here = cards[len(cards) * at // total : len(cards) * (at + 1) // total]
        values = {
            level: str(at // math.prod(counts[depth + 1 :])) for depth, level in enumerate(levels)
        }
        lowest = list(levels)[-1]
        domains.append(
            MachineDomain(
                name=f"{lowest}-{at}",
                values=values,
                cpus=tuple(sorted(each.number for each in cpus)),
                cpu_milli=cpu_milli,
                memory_bytes=memory,
                devices=device_ids(here),
            )
        )
    return Layout(tuple(levels), tuple(domains))
