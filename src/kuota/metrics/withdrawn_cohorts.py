# SPDX-License-Identifier: Apache-2.0
"""Deleted Cohorts that have no gauges for now, although ClusterQueues still name them.

As in Kueue, such a Cohort is shown again after the next admission below it, or after the next
change of the spec of an object that names it.
"""

from __future__ import annotations

from collections.abc import Set

from kuota.engine.engine import Engine


class WithdrawnCohorts:
    """The names of these Cohorts."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._names: set[str] = set()

    def withdraw(self, name: str) -> None:
        self._names.add(name)

    def show(self, name: str) -> None:
        self._names.discard(name)

    def current(self) -> Set[str]:
        """Return the withdrawn cohorts that something names. The others are forgotten."""
        self._names.intersection_update(self._engine.state.tree.cohorts)
        return self._names
