# SPDX-License-Identifier: Apache-2.0
"""When more cycles lead nowhere new, so that a driver can wait for the next fact."""

from __future__ import annotations

from .decisions import Admit, Decision, Evict, Migrate, Outcome, Preempt, Wait


class Rest:
    """Watches the cycles since the last fact.

    A blocked StrictFIFO head comes again for ever, and so does a preemptor while its victims leave.
    """

    def __init__(self) -> None:
        self._tried: set[frozenset[object]] = set()

    def after(self, outcome: Outcome) -> bool:
        """Whether nothing new is to be expected after this cycle: nobody had a turn, or the same
        workloads waited for the same reasons, with their scans at the same place, as before.
        """
        if any(_moves(each) for each in outcome.decisions):
            self._tried.clear()
            return False
        attempt = frozenset(_signature(each) for each in outcome.decisions)
        if not attempt or attempt in self._tried:
            return True
        self._tried.add(attempt)
        return False


def _moves(decision: Decision) -> bool:
    """Whether the decision changes what the engine believes."""
    if isinstance(decision, Preempt):
        return not all(victim.leaving for victim in decision.victims)
    return isinstance(decision, Admit | Evict)


def _signature(decision: Decision) -> object:
    """Who waits, why, and where its scan stands: equal ones lead nowhere new."""
    key = decision.workload.key
    if isinstance(decision, Preempt):
        return key, tuple(victim.workload.key for victim in decision.victims)
    if isinstance(decision, Migrate):
        return key, decision.sibling.key
    if not isinstance(decision, Wait):
        return key
    tried = decision.assignment.bookmark.tried if decision.assignment is not None else ()
    scans = tuple(tuple(sorted(each.items(), key=str)) for each in tried)
    return key, decision.why, scans
