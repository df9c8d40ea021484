# SPDX-License-Identifier: Apache-2.0
"""What a ClusterQueue offers, prepared for the flavor search, and the order requests are met in."""

from __future__ import annotations

from functools import lru_cache

from .amounts import FlavorResource
from .model import ClusterQueue, ResourceGroup

PODS = "pods"
_KEPT = 1 << 14


class Shelf:
    """One resource group: its flavors in order, and the column of each flavor and resource."""

    __slots__ = ("columns", "flavors", "group")

    def __init__(self, group: ResourceGroup) -> None:
        self.group = group
        self.flavors = group.flavors
        self.columns: dict[str, dict[str, FlavorResource]] = {
            flavor: {resource: FlavorResource(flavor, resource) for resource in group.resources}
            for flavor in group.flavors
        }


class Offer:
    """All resource groups of one queue, by resource."""

    __slots__ = ("counts_pods", "shelves", "spec")

    def __init__(self, spec: ClusterQueue) -> None:
        self.spec = spec
        self.shelves: dict[str, Shelf] = {}
        for group in spec.groups:
            shelf = Shelf(group)
            for resource in group.resources:
                self.shelves.setdefault(resource, shelf)
        self.counts_pods = PODS in self.shelves


_offers: dict[int, Offer] = {}


def offer_of(spec: ClusterQueue) -> Offer:
    """The offer of a queue, made once for each value of its spec.

    The offer keeps its spec alive, so an id found here can only be that of the same object.
    """
    found = _offers.get(id(spec))
    if found is None:
        if len(_offers) >= _KEPT:
            _offers.clear()
        found = _offers[id(spec)] = Offer(spec)
    return found


@lru_cache(_KEPT)
def visit_order(resources: tuple[str, ...]) -> tuple[str, ...]:
    """Resource names in the order of Kueue's search: by the 64-bit FNV-1a hash of the name."""
    return tuple(sorted(resources, key=fnv1a))


def fnv1a(text: str) -> int:
    value = 0xCBF29CE484222325
    for byte in text.encode():
        value = (value ^ byte) * 0x100000001B3 & 0xFFFFFFFFFFFFFFFF
    return value
