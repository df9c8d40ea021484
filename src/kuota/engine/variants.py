# SPDX-License-Identifier: Apache-2.0
"""Concurrent admission: variants of one workload, each bound to a flavor.

The order of flavors in the ClusterQueue is the order of preference.
"""

from __future__ import annotations

from .entry import Entry
from .model import ClusterQueue, Workload
from .snapshot import Running


def better_sibling(entry: Entry) -> Running | None:
    """An admitted variant of the same parent, on a flavor preferred to this one's."""
    own = _rank_of(entry.workload, entry.queue.spec)
    for sibling in _siblings(entry):
        if _rank_of(sibling.workload, entry.queue.spec) < own:
            return sibling
    return None


def worse_sibling(entry: Entry) -> Running | None:
    """An admitted variant of the same parent, on a less preferred flavor."""
    own = _rank_of(entry.workload, entry.queue.spec)
    for sibling in _siblings(entry):
        if _rank_of(sibling.workload, entry.queue.spec) > own:
            return sibling
    return None


def migration_allowed(entry: Entry) -> bool:
    """Whether moving to this entry's flavor is worth an eviction, by the queue's own policy."""
    spec = entry.queue.spec
    policy = spec.concurrent_admission
    if policy is not None and policy.retains:
        return False
    last = policy.last_acceptable_flavor if policy is not None else ""
    if not last:
        return True
    flavors = _flavors(spec)
    limit = flavors.index(last) if last in flavors else len(flavors)
    return _rank_of(entry.workload, spec) <= limit


def _siblings(entry: Entry) -> list[Running]:
    """The others that are admitted. One that still waits for checks has not won yet."""
    parent = entry.workload.parent_uid
    if not parent:
        return []
    return [
        running
        for running in entry.queue.running.values()
        if running.workload.parent_uid == parent
        and running.workload.admitted
        and running.key != entry.workload.key
    ]


def _flavors(spec: ClusterQueue) -> tuple[str, ...]:
    return spec.groups[0].flavors if spec.groups else ()


def _rank_of(workload: Workload, spec: ClusterQueue) -> int:
    """The place of the variant's flavor in the queue's order; past the end if it has none."""
    flavors = _flavors(spec)
    allowed = workload.allowed_flavors or frozenset()
    return min((flavors.index(f) for f in allowed if f in flavors), default=len(flavors))
