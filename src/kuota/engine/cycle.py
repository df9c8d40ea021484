# SPDX-License-Identifier: Apache-2.0
"""One scheduling cycle: heads in, decisions out.

    heads -> nominate each on the untouched snapshot -> order -> settle one by one -> decisions

Nothing outside is changed: what the cycle does to the snapshot is undone when it ends.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Set

from kuota.api.base import Key

from .decisions import Decision, Outcome, Wait, Why
from .entry import Entry, Head
from .model import Namespace
from .nominate import nominate
from .order import in_order, shadowed
from .reasons import WaitReason
from .settle import Books, settle
from .snapshot import Snapshot


def decide(
    heads: Iterable[Head],
    snapshot: Snapshot,
    namespaces: Mapping[str, Namespace],
    *,
    evicting: Set[Key] = frozenset(),
    not_ready: Callable[[], bool] = lambda: False,
) -> Outcome:
    """Decide about the head of every queue. Leaves no trace in the snapshot.

    `evicting` are workloads told to leave whose departure has not shown yet. `not_ready` says
    whether admission is held up by pods that are not ready.
    """
    with snapshot.trial():
        nominated = [nominate(head, snapshot, namespaces) for head in heads]
        decisions: list[Decision] = [each for each in nominated if isinstance(each, Wait)]
        entries = [each for each in nominated if isinstance(each, Entry)]
        decisions += [_later(entry) for entry in shadowed(entries, snapshot)]
        books = Books(snapshot, evicting)
        for entry in in_order(entries, snapshot):
            decisions.append(settle(entry, books, not_ready))
    return Outcome(
        decisions=tuple(decisions),
        skipped_preemptions=dict(books.skipped),
        recomputations=dict(books.recomputed),
    )


def _later(entry: Entry) -> Wait:
    """A second pass whose queue sent a fresh head: it comes round again, nothing is written."""
    return Wait(
        workload=entry.workload,
        cluster_queue=entry.queue.name,
        reason=WaitReason.PENDING_EVALUATION,
        why=Why.SECOND_PASS,
    )
