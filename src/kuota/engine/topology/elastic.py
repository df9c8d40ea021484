# SPDX-License-Identifier: Apache-2.0
"""Places a workload slice that replaces a smaller or larger one, whose pods keep running.

Additional pods get new places, and superfluous places are removed from the end. The leader keeps
its place. If the previous assignment names a domain that is gone, all pods are placed anew.
"""

from __future__ import annotations

from msgspec.structs import replace

from .assignment import LeafAssignment, merged, stale, truncated
from .place import Outcome, Placer, PodsToPlace
from .placement_failure import PlacementFailure


def resized(placer: Placer, workers: PodsToPlace, leader: PodsToPlace | None) -> Outcome | None:
    """Return the new assignments, or None if nothing of the previous ones can be kept."""
    tree = placer.flavor.tree
    before = workers.previous
    kept_leader = leader.previous if leader is not None else None
    if (
        before is None
        or stale(tree, before)
        or (kept_leader is not None and stale(tree, kept_leader))
    ):
        return None
    if workers.count > before.pods:
        return _grown(placer, workers, leader, before)
    kept = truncated(before, workers.count)
    placer.assume(kept, workers)
    outcome: Outcome = {workers.name: kept}
    if leader is not None:
        outcome[leader.name] = kept_leader or LeafAssignment()
        placer.assume(kept_leader or LeafAssignment(), leader)
    return outcome


def _grown(
    placer: Placer, workers: PodsToPlace, leader: PodsToPlace | None, before: LeafAssignment
) -> Outcome:
    placer.assume(before, workers)
    kept_leader = leader.previous if leader is not None else None
    if leader is not None and kept_leader is not None:
        placer.assume(kept_leader, leader)
    added = replace(workers, count=workers.count - before.pods, previous=None)
    outcome = placer.find(added, leader if kept_leader is None else None)
    more = outcome[workers.name]
    if isinstance(more, PlacementFailure):
        return outcome
    placer.assume(more, workers)
    outcome[workers.name] = merged(placer.flavor.tree, more, before)
    if leader is not None and kept_leader is not None:
        outcome[leader.name] = kept_leader
    elif leader is not None:
        host = outcome[leader.name]
        assert isinstance(host, LeafAssignment)
        placer.assume(host, leader)
    return outcome
