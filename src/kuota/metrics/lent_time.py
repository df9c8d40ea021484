# SPDX-License-Identifier: Apache-2.0
"""Device seconds that ClusterQueues lend, sampled from the quota tree."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator

from kuota.api.device_resources import is_device
from kuota.engine.amounts import FlavorResource
from kuota.engine.tree import QuotaTree

from .lending import lent_by_queue

_At = tuple[str, FlavorResource]
"""A ClusterQueue and a column of its quota."""


class LentTime:
    """Adds up what each ClusterQueue lends. Between two samples the amounts count as constant."""

    def __init__(self) -> None:
        self._totals: dict[_At, float] = defaultdict(float)
        self._amounts: dict[_At, float] = {}
        self._sampled: float | None = None

    def sample(self, tree: QuotaTree, now: float) -> None:
        """Count the time since the last sample, and read what is lent now."""
        self._advance(now)
        self._amounts = dict(_lent(tree))
        for at in self._amounts:
            self._totals[at] += 0.0

    def totals(self) -> Iterator[tuple[_At, float]]:
        """Yield the device seconds of each queue and column up to the last sample."""
        yield from self._totals.items()

    def restart(self) -> None:
        """Count from the next sample on."""
        self._totals.clear()
        self._sampled = None

    def keep(self, wanted: Callable[[str], bool]) -> None:
        """Drop the ClusterQueues that are no longer wanted."""
        for at in [each for each in self._totals if not wanted(each[0])]:
            del self._totals[at]

    def _advance(self, now: float) -> None:
        if self._sampled is not None:
            for at, amount in self._amounts.items():
                self._totals[at] += amount * max(0.0, now - self._sampled)
        self._sampled = now


def _lent(tree: QuotaTree) -> Iterator[tuple[_At, float]]:
    for cohort in tree.cohorts.values():
        if cohort.parent is not None:
            continue
        for column in [each for each in cohort.cells if is_device(each.resource)]:
            for name, amount in lent_by_queue(cohort, column):
                yield (name, column), amount
