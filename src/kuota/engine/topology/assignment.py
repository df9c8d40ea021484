# SPDX-License-Identifier: Apache-2.0
"""Topology assignments: how many pods go to which leaf, and what follows from them.

Domains are in the order of all their level values, although only the hostname is stored if it is
the lowest level. The rank of a pod is its position in this order.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from kuota.api.resources import multiplied
from kuota.api.topology_codec import AssignedDomain, compact, expand
from kuota.api.workload import TopologyAssignment
from kuota.engine.amounts import Requests
from kuota.engine.model import Struct

from .capacity import PODS
from .fit import DomainShare
from .tree import DomainId, Leaf, TopologyTree


class LeafAssignment(Struct):
    """Pods by leaf. `levels` are those of the stored values."""

    levels: tuple[str, ...] = ()
    domains: tuple[AssignedDomain, ...] = ()

    @property
    def pods(self) -> int:
        return sum(domain.count for domain in self.domains)

    def stored(self, *, by_prefix: bool = True) -> TopologyAssignment:
        """Return the compact form of the API."""
        return compact(self.levels, self.domains, by_prefix)


def read(stored: TopologyAssignment) -> LeafAssignment:
    """Return the assignment of the API's compact form."""
    return LeafAssignment(levels=tuple(stored.levels or ()), domains=tuple(expand(stored)))


def built(tree: TopologyTree, shares: Iterable[DomainShare]) -> LeafAssignment:
    """Return the assignment of the shares of leaves, without those that get no pods."""
    placed = [share for share in shares if share.pods]
    placed.sort(key=lambda share: share.domain.values)
    first = len(tree.levels) - 1 if tree.by_host else 0
    domains = (AssignedDomain(list(share.domain.values[first:]), share.pods) for share in placed)
    return LeafAssignment(levels=tree.levels[first:], domains=tuple(domains))


def usage(assignment: LeafAssignment, requests: Mapping[str, int]) -> dict[DomainId, Requests]:
    """Return what the pods use by leaf, including one unit of `pods` each."""
    found: dict[DomainId, Requests] = {}
    for domain in assignment.domains:
        amounts = multiplied({**requests, PODS: requests.get(PODS, 0) + 1}, domain.count)
        add_usage(found, {tuple(domain.values): amounts})
    return found


def add_usage(total: dict[DomainId, Requests], more: Mapping[DomainId, Requests]) -> None:
    """Add usage by leaf to a total."""
    for id, amounts in more.items():
        own = total.setdefault(id, {})
        for resource, amount in amounts.items():
            own[resource] = own.get(resource, 0) + amount


def truncated(assignment: LeafAssignment, count: int) -> LeafAssignment:
    """Return the assignment of the first `count` pods."""
    kept: list[AssignedDomain] = []
    left = count
    for domain in assignment.domains:
        if left <= 0:
            break
        kept.append(AssignedDomain(domain.values, min(domain.count, left)))
        left -= domain.count
    return LeafAssignment(levels=assignment.levels, domains=tuple(kept))


def merged(tree: TopologyTree, a: LeafAssignment, b: LeafAssignment) -> LeafAssignment:
    """Return both assignments as one. All their domains must be leaves of the tree."""
    counts: dict[DomainId, int] = {}
    for domain in (*a.domains, *b.domains):
        id = tuple(domain.values)
        counts[id] = counts.get(id, 0) + domain.count
    order = sorted(counts, key=lambda id: tree.leaves[id].values)
    domains = tuple(AssignedDomain(list(id), counts[id]) for id in order)
    return LeafAssignment(levels=a.levels, domains=domains)


def stale(tree: TopologyTree, assignment: LeafAssignment) -> str | None:
    """Return the name of the first domain that is not in the tree, or None."""
    for domain in assignment.domains:
        if tree.find(domain.values) is None:
            return domain.values[0] if domain.values else ""
    return None


def without(assignment: LeafAssignment, node: str) -> tuple[LeafAssignment, int]:
    """Return the assignment without a node, and how many pods are missing."""
    kept = tuple(each for each in assignment.domains if each.values[-1:] != [node])
    rest = LeafAssignment(levels=assignment.levels, domains=kept)
    return rest, assignment.pods - rest.pods


def leaves(tree: TopologyTree, assignment: LeafAssignment) -> list[tuple[Leaf, int]]:
    """Return the leaves of the assignment that are in the tree, with their pods."""
    found = ((tree.find(domain.values), domain.count) for domain in assignment.domains)
    return [(leaf, count) for leaf, count in found if leaf is not None]
