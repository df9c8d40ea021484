# SPDX-License-Identifier: Apache-2.0
"""Converts topology assignments between a list of domains and the compact stored slices.

A domain is one place in the topology (a value per level) with its pod count. Thousands of domains
share most of their text, so v1beta2 stores columns instead of rows. For each level, a slice has
either one value for all domains, or a common prefix and suffix and one root per domain. Likewise,
it has one pod count for all domains or one per domain.

Hostnames often share a prefix per node pool. If the lowest level is the hostname and the gate
TASAssignmentsEncodingByHostnamePrefix is enabled, domains are also split into runs with the same
prefix, one slice per run. The smaller of the two encodings is used.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import chain, groupby, islice, repeat
from typing import TypeVar

import msgspec

from .workload import (
    LevelSlice,
    LevelValues,
    PodCounts,
    PodSetAssignment,
    TopologyAssignment,
    TopologySlice,
)

HOSTNAME = "kubernetes.io/hostname"
MAX_DOMAINS = 100_000
MAX_SLICES = 1000
MOST_EXPANDED = 500_000
"""More domains than an object can list: only repetitions of one domain can exceed this number."""

_T = TypeVar("_T")


class AssignedDomain(msgspec.Struct, frozen=True, gc=False):
    """One place, identified by a value per level from high to low, and its pod count."""

    values: list[str]
    count: int


def expand(assignment: TopologyAssignment) -> list[AssignedDomain]:
    """Return the domains in stored order, at most `MOST_EXPANDED`.

    A slice ends early if a column is too short.
    """
    every = chain.from_iterable(map(_domains, assignment.slices or ()))
    return list(islice(every, MOST_EXPANDED))


def _domains(part: TopologySlice) -> Iterator[AssignedDomain]:
    columns = [_column(level, part.domain_count) for level in part.values_per_level or ()]
    # A slice without levels still has domains, which have no values.
    rows = zip(*columns, strict=False) if columns else repeat((), part.domain_count)
    for values, count in zip(rows, _counts(part), strict=False):
        yield AssignedDomain(list(values), count)


def _column(level: LevelSlice, length: int) -> Iterator[str]:
    if level.individual is None:
        return repeat(level.universal or "", length)
    prefix, suffix = level.individual.prefix or "", level.individual.suffix or ""
    return (f"{prefix}{root}{suffix}" for root in (level.individual.roots or ())[:length])


def _counts(part: TopologySlice) -> Iterator[int]:
    if part.pod_counts.universal is not None:
        return repeat(part.pod_counts.universal, part.domain_count)
    return iter((part.pod_counts.individual or ())[: part.domain_count])


def by_hostname(levels: Sequence[str] | None) -> bool:
    """Whether the domains of the lowest level are nodes."""
    return levels[-1] == HOSTNAME if levels else False


def node_of(levels: Sequence[str] | None, values: Sequence[str]) -> str | None:
    """Return the node of a domain: "" if it has no values, None if domains are not nodes."""
    if not by_hostname(levels):
        return None
    return values[-1] if values else ""


def on_node(assignment: PodSetAssignment | None, node: str) -> bool:
    """Whether pods are assigned to this node. Always false without a hostname level."""
    topology = assignment.topology_assignment if assignment else None
    if topology is None or not by_hostname(topology.levels):
        return False
    return any(domain.values[-1:] == [node] and domain.count > 0 for domain in expand(topology))


def compact(
    levels: Sequence[str], domains: Sequence[AssignedDomain], by_hostname_prefix: bool = True
) -> TopologyAssignment:
    """Return the stored form. `expand` returns `domains` in the same order."""
    single = TopologyAssignment(levels=list(levels), slices=_slices([domains]))
    if not by_hostname_prefix or not by_hostname(levels):
        return single
    split = split_by_hostname(levels, domains)
    if split is None or len(split.slices or ()) > MAX_SLICES or _size(split) > _size(single):
        return single
    return split


def split_by_hostname(
    levels: Sequence[str], domains: Sequence[AssignedDomain]
) -> TopologyAssignment | None:
    """Encode one slice per run of hostnames. Return None if no hostname has a prefix."""
    keys = prefix_keys(["".join(domain.values[-1:]) for domain in domains])
    if keys is None:
        return None
    return TopologyAssignment(levels=list(levels), slices=_slices(runs(domains, keys)))


def _size(assignment: TopologyAssignment) -> int:
    return len(msgspec.json.encode(assignment))


def _slices(parts: Sequence[Sequence[AssignedDomain]]) -> list[TopologySlice]:
    # All domains of a slice must have the same number of levels. Older writers did not ensure it.
    even = (run for part in parts for run in runs(part, [len(each.values) for each in part]))
    return [_slice(chunk) for run in even for chunk in chunks(run, MAX_DOMAINS)]


def _slice(domains: Sequence[AssignedDomain]) -> TopologySlice:
    columns = zip(*(domain.values for domain in domains), strict=True)
    counts = [domain.count for domain in domains]
    same = len(set(counts)) == 1
    return TopologySlice(
        domain_count=len(domains),
        values_per_level=[_level(column) for column in columns],
        pod_counts=PodCounts(universal=counts[0]) if same else PodCounts(individual=counts),
    )


def _level(values: tuple[str, ...]) -> LevelSlice:
    if len(set(values)) == 1:
        return LevelSlice(universal=values[0])
    suffix = _common_prefix([value[::-1] for value in values])[::-1]
    # If prefix and suffix overlap in the shortest value, the suffix takes precedence.
    rest = [value.removesuffix(suffix) for value in values]
    prefix = _common_prefix(rest)
    roots = [value.removeprefix(prefix) for value in rest]
    return LevelSlice(
        individual=LevelValues(prefix=prefix or None, suffix=suffix or None, roots=roots)
    )


def _common_prefix(values: Sequence[str]) -> str:
    low, high = min(values), max(values)
    length = next((i for i, (a, b) in enumerate(zip(low, high, strict=False)) if a != b), len(low))
    return low[:length]


def prefix_keys(hostnames: Sequence[str]) -> list[str] | None:
    """Return the longest prefix of each hostname that ends in a dash and that another one shares.

    The prefix is "" if there is none. Return None if no hostname contains a dash.
    """
    uses = Counter(prefix for name in hostnames for prefix in _dashed(name))
    if not uses:
        return None
    return [next((p for p in _dashed(name) if uses[p] > 1), "") for name in hostnames]


def _dashed(name: str) -> list[str]:
    """Return the prefixes that end in a dash, longest first."""
    return [name[: i + 1] for i in range(len(name) - 1, -1, -1) if name[i] == "-"]


def runs(items: Sequence[_T], keys: Sequence[object]) -> list[list[_T]]:
    """Split the items wherever the key changes."""
    pairs = groupby(zip(keys, items, strict=True), key=lambda pair: pair[0])
    return [[item for _, item in run] for _, run in pairs]


def chunks(items: Sequence[_T], size: int) -> list[Sequence[_T]]:
    """Split the items into chunks of at most `size`. Without items there are no chunks."""
    return [items[start : start + size] for start in range(0, len(items), size)]
