# SPDX-License-Identifier: Apache-2.0
"""The resource groups of a ClusterQueue, indexed for the flavor search."""

from __future__ import annotations

from kuota.api.small_cache import small_cache

from .amounts import FlavorResource
from .model import ClusterQueue, ResourceGroup

PODS = "pods"
_KEPT = 1 << 14


class GroupIndex:
    """One resource group: its flavors in order, and the column of each flavor and resource."""

    __slots__ = ("columns", "flavors", "spec")

    def __init__(self, group: ResourceGroup) -> None:
        self.spec = group
        self.flavors = group.flavors
        self.columns: dict[str, dict[str, FlavorResource]] = {
            flavor: {resource: FlavorResource(flavor, resource) for resource in group.resources}
            for flavor in group.flavors
        }


class ResourceIndex:
    """All resource groups of one queue, by resource."""

    __slots__ = ("counts_pods", "groups", "spec")

    def __init__(self, spec: ClusterQueue) -> None:
        self.spec = spec
        self.groups: dict[str, GroupIndex] = {}
        for group in spec.groups:
            indexed = GroupIndex(group)
            for resource in group.resources:
                self.groups.setdefault(resource, indexed)
        self.counts_pods = PODS in self.groups


_indexes: dict[int, ResourceIndex] = {}


def resource_index(spec: ClusterQueue) -> ResourceIndex:
    """Return the index of a ClusterQueue, built once for each value of its spec.

    The index keeps its spec alive, so an id found in the cache always belongs to the same object.
    """
    found = _indexes.get(id(spec))
    if found is None:
        if len(_indexes) >= _KEPT:
            _indexes.clear()
        found = _indexes[id(spec)] = ResourceIndex(spec)
    return found


@small_cache(1024, longest=32)
def visiting_order(resources: tuple[str, ...]) -> tuple[str, ...]:
    """Return the resources in Kueue's order: by the 64-bit FNV-1a hash of the name."""
    return tuple(sorted(resources, key=fnv1a))


def fnv1a(text: str) -> int:
    value = 0xCBF29CE484222325
    for byte in text.encode():
        value = (value ^ byte) * 0x100000001B3 & 0xFFFFFFFFFFFFFFFF
    return value
