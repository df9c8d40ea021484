# SPDX-License-Identifier: Apache-2.0
"""The order in which nominated entries are settled.

Ties that Kueue breaks arbitrarily are broken by UID, then by name.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from kuota.api.gates import Gate

from .entry import Entry
from .fairness import DominantResourceShare, share
from .policy import Policy
from .snapshot import Snapshot
from .tree import QuotaNode

Rank = tuple[object, ...]


def in_order(entries: list[Entry], snapshot: Snapshot) -> Iterator[Entry]:
    """Yield the entries in order. Under fair sharing each choice sees the earlier decisions."""
    if snapshot.policy.fair_sharing is None:
        return iter(sorted(entries, key=lambda entry: classical_rank(entry, snapshot.policy)))
    return _by_tournament(entries, snapshot)


def classical_rank(entry: Entry, policy: Policy) -> Rank:
    """Rank by second pass, preemptor, borrowing height, priority, timestamp."""
    workload = entry.workload
    return (
        workload.reservation is None,
        policy.on(Gate.PrioritizePreemptorWorkloads) and not entry.head.preemptor,
        entry.assignment.height,
        -workload.priority if policy.on(Gate.PrioritySortingWithinCohort) else 0,
        entry.timestamp,
        workload.uid,
        workload.key,
    )


def shadowed(entries: Iterable[Entry], snapshot: Snapshot) -> list[Entry]:
    """Return second-pass entries that have to wait: under fair sharing a queue has one entry."""
    if snapshot.policy.fair_sharing is None:
        return []
    entries = list(entries)
    fresh = {entry.queue.name for entry in entries if not entry.head.second_pass}
    seen: set[str] = set()
    late = []
    for entry in entries:
        name = entry.queue.name
        if entry.head.second_pass and (name in fresh or name in seen):
            late.append(entry)
        seen.add(name)
    return late


def _by_tournament(entries: list[Entry], snapshot: Snapshot) -> Iterator[Entry]:
    late = {id(entry) for entry in shadowed(entries, snapshot)}
    trees: dict[str, dict[str, Entry]] = {}
    for entry in entries:
        if id(entry) not in late:
            trees.setdefault(entry.queue.node.root.name, {})[entry.queue.name] = entry
    for name in sorted(trees):
        left = trees[name]
        while left:
            winner = _winner(left, snapshot)
            del left[winner.queue.name]
            yield winner


def _winner(entries: dict[str, Entry], snapshot: Snapshot) -> Entry:
    """Return the next entry of one tree: every cohort passes its best entry to its parent."""
    first = next(iter(entries.values()))
    if len(entries) == 1:
        return first
    ranks = {name: _ranks(entry, snapshot) for name, entry in entries.items()}
    return _best_below(first.queue.node.root, entries, ranks) or first


Ranks = dict[str, Rank]
"""The rank of an entry in each cohort above it, by the cohort's name. Lower is better."""


def _ranks(entry: Entry, snapshot: Snapshot) -> Ranks:
    """Return the ranks of the entry as if it were admitted.

    In a cohort, the child's share counts.
    """
    found: Ranks = {}
    with snapshot.trial():
        snapshot.add_usage(entry.queue, entry.usage)
        node: QuotaNode = entry.queue.node
        while node.parent is not None:
            found[node.parent.name] = fair_rank(entry, share(node), snapshot.policy)
            node = node.parent
    return found


def _best_below(
    cohort: QuotaNode, entries: dict[str, Entry], ranks: dict[str, Ranks]
) -> Entry | None:
    """Return the best of the child cohorts' best entries and the child queues' entries."""
    rivals = [_best_below(cohort.cohorts[name], entries, ranks) for name in sorted(cohort.cohorts)]
    rivals += [entries[name] for name in sorted(cohort.queues) if name in entries]
    return min(
        (rival for rival in rivals if rival is not None),
        key=lambda rival: ranks[rival.queue.name][cohort.name],
        default=None,
    )


def fair_rank(entry: Entry, node_share: DominantResourceShare, policy: Policy) -> Rank:
    """Rank by preemptor, borrowing, share, priority, timestamp."""
    requested = (column for column, amount in entry.usage.quota.items() if amount > 0)
    return (
        policy.on(Gate.PrioritizePreemptorWorkloads) and not entry.head.preemptor,
        policy.on(Gate.FairSharingPrioritizeNonBorrowing) and node_share.borrowing_on(requested),
        node_share.load,
        -entry.workload.priority if policy.on(Gate.PrioritySortingWithinCohort) else 0,
        entry.timestamp,
    )
