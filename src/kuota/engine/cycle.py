# SPDX-License-Identifier: Apache-2.0
"""One scheduling cycle: heads in, decisions out.

    heads -> nominate each on the unchanged snapshot -> order -> settle one by one -> decisions

The cycle has no side effects: changes of the snapshot are undone when it ends. An exception while
one head is processed does not affect the others. The changes made for that head are undone, the
head waits, and the exception is returned with the decisions.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import ParamSpec, TypeVar

from .decisions import CycleResult, Decision, Failure, Wait, WaitCause
from .entry import Entry, Head
from .model import Namespace
from .nominate import nominate
from .order import in_order, shadowed
from .reasons import RequeueReason, WaitReason
from .settle import CycleState, settle
from .snapshot import Snapshot

P = ParamSpec("P")
T = TypeVar("T")


def decide(
    heads: Iterable[Head],
    snapshot: Snapshot,
    namespaces: Mapping[str, Namespace],
    *,
    not_ready: Callable[[], bool] = lambda: False,
) -> CycleResult:
    """Decide about the head of every queue. The snapshot is unchanged afterwards.

    `not_ready` returns whether pods that are not ready block admission.
    """
    isolation = FaultIsolation(snapshot)
    with snapshot.trial():
        nominated = [isolation.run(nominate, head, head, snapshot, namespaces) for head in heads]
        decisions: list[Decision] = [each for each in nominated if isinstance(each, Wait)]
        entries = [each for each in nominated if isinstance(each, Entry)]
        # Under fair sharing a new head takes precedence over a second pass, which is retried later.
        late = WaitReason.PENDING_EVALUATION, WaitCause.SECOND_PASS
        decisions += [entry.head.wait(*late) for entry in shadowed(entries, snapshot)]
        cycle_state = CycleState(snapshot)
        for entry in isolation.ordered(entries, decisions):
            decisions.append(isolation.run(settle, entry.head, entry, cycle_state, not_ready))
    return CycleResult(
        decisions=tuple(decisions),
        skipped_preemptions=dict(cycle_state.skipped),
        recomputations=dict(cycle_state.recomputed),
        failures=tuple(isolation.failures),
    )


class FaultIsolation:
    """Isolates failures: if processing one head raises, the cycle continues with the others."""

    def __init__(self, snapshot: Snapshot) -> None:
        self._snapshot = snapshot
        self.failures: list[Failure] = []

    def run(self, step: Callable[P, T], head: Head, *args: P.args, **kwargs: P.kwargs) -> T | Wait:
        """Return the result of the step.

        If it raises, the snapshot is restored and the head waits.
        """
        mark = self._snapshot.mark()
        try:
            return step(*args, **kwargs)
        except Exception as error:
            self._snapshot.rewind(mark)
            return self._failed(head, error)

    def ordered(self, entries: list[Entry], decisions: list[Decision]) -> Iterator[Entry]:
        """Yield the entries in order. If ordering fails, the remaining heads wait.

        Ordering changes the snapshot only in trials, so a failure leaves it unchanged.
        """
        try:
            yield from in_order(entries, self._snapshot)
        except Exception as error:
            decided = {each.workload.key for each in decisions}
            left = [each.head for each in entries if each.workload.key not in decided]
            decisions += [self._failed(head, error) for head in left]

    def _failed(self, head: Head, error: Exception) -> Wait:
        self.failures.append(Failure(head.workload.key, error))
        details = (f"{type(error).__name__}: {error}",)
        bug = WaitReason.INTERNAL_ERROR, WaitCause.INTERNAL_ERROR, RequeueReason.INTERNAL_ERROR
        return head.wait(*bug, details)
