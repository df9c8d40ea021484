# SPDX-License-Identifier: Apache-2.0
"""What protects running workloads from one that waits: policy, priority or their own quota.

Told about workloads that hold what is missing, once a search for victims has found nobody.
"""

from __future__ import annotations

from collections.abc import Iterator

from .amounts import FlavorResource
from .candidates import gives_up
from .entry import Entry
from .explanation import Protected, Shield
from .snapshot import Queue, Running, Snapshot
from .tree import Node

_NEVER = ("Never", "")


def protected(
    entry: Entry, missing: dict[FlavorResource, int], snapshot: Snapshot
) -> tuple[Protected, ...]:
    """Who holds any of the missing columns, and why each may stay; the own queue's first.

    `missing` are the columns with the whole amounts asked for.
    """
    found = []
    for leaf in entry.queue.node.root.leaves():
        queue = snapshot.queues.get(leaf.name)
        for running in snapshot.running(queue) if queue is not None else ():
            if running.uses(missing.keys()):
                assert queue is not None
                found.append(_protected(running, queue, entry, missing, snapshot))
    home = entry.queue.name
    return tuple(sorted(found, key=lambda each: (each.cluster_queue != home, *_order(each))))


def _order(each: Protected) -> tuple[str, int, str]:
    return each.cluster_queue, each.priority, str(each.workload)


def _protected(
    running: Running,
    queue: Queue,
    entry: Entry,
    missing: dict[FlavorResource, int],
    snapshot: Snapshot,
) -> Protected:
    own = queue.name == entry.queue.name
    shield, by, value = (
        _own_shield(running, entry, missing, snapshot)
        if own
        else _shield(running, queue, entry, missing, snapshot)
    )
    return Protected(
        workload=running.key,
        cluster_queue=queue.name,
        priority=running.workload.priority,
        shield=shield,
        by=by,
        value=value,
    )


_Answer = tuple[Shield, str, str]


def _own_shield(
    running: Running, entry: Entry, missing: dict[FlavorResource, int], snapshot: Snapshot
) -> _Answer:
    rule, name = entry.queue.spec.preemption.within_cluster_queue, entry.queue.name
    if rule in _NEVER:
        return Shield.WITHIN_POLICY, name, "Never"
    if not gives_up(rule, running.workload, entry.workload, snapshot.policy):
        return Shield.PRIORITY, name, rule
    return _last_resort(entry, missing, snapshot)


def _shield(
    running: Running,
    queue: Queue,
    entry: Entry,
    missing: dict[FlavorResource, int],
    snapshot: Snapshot,
) -> _Answer:
    rule = entry.queue.spec.preemption.reclaim_within_cohort
    safe = next((n for n in _beside(queue.node, entry) if n.within_quota(missing)), None)
    if rule in _NEVER:
        return Shield.RECLAIM_POLICY, entry.queue.name, "Never"
    if not queue.active:
        return Shield.INACTIVE_QUEUE, queue.name, ""
    if safe is not None:
        return Shield.WITHIN_QUOTA, safe.name, ""
    if not gives_up(rule, running.workload, entry.workload, snapshot.policy):
        return Shield.PRIORITY, entry.queue.name, rule
    return _last_resort(entry, missing, snapshot)


def _last_resort(entry: Entry, missing: dict[FlavorResource, int], snapshot: Snapshot) -> _Answer:
    """It would be given up, so it is not enough, or the preemptor has no right to more."""
    name, node = entry.queue.name, entry.queue.node
    borrows = any(node.cell(column).borrows_with(amount) for column, amount in missing.items())
    if borrows and snapshot.policy.fair_sharing is not None:
        return Shield.FAIR_SHARE, name, ""
    if borrows and not entry.queue.spec.preemption.borrow_within_cohort:
        return Shield.BORROW_POLICY, name, "Never"
    return Shield.NOT_ENOUGH, name, ""


def _beside(node: Node, entry: Entry) -> Iterator[Node]:
    """The queue and the cohorts around it that do not hold the preemptor too."""
    around = set(map(id, entry.queue.node.ancestors()))
    at: Node | None = node
    while at is not None and id(at) not in around:
        yield at
        at = at.parent
