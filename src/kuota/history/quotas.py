# SPDX-License-Identifier: Apache-2.0
"""Quotas of the past: what ClusterQueues, Cohorts and LocalQueues defined, and since when. Pure."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from enum import StrEnum
from typing import TypeVar

import msgspec

from kuota.api import kueue
from kuota.api.base import Json
from kuota.bridge import inbound
from kuota.engine.tree import QuotaNode, QuotaTree


class QuotaKind(StrEnum):
    """The kinds that determine how much quota a waiting job can get."""

    CLUSTER_QUEUE = "ClusterQueue"
    COHORT = "Cohort"
    LOCAL_QUEUE = "LocalQueue"


_FIELDS = {
    QuotaKind.CLUSTER_QUEUE: ("cohortName", "resourceGroups"),
    QuotaKind.COHORT: ("parentName", "resourceGroups"),
    QuotaKind.LOCAL_QUEUE: ("clusterQueue",),
}


class QuotaFact(msgspec.Struct, frozen=True):
    """An object had this spec since a time, until the next fact about it; None if it was deleted.

    `name` contains the namespace of a LocalQueue: `team/main`.
    """

    kind: QuotaKind
    name: str
    since: float
    spec: Json | None


def fact(kind: QuotaKind, name: str, obj: Json | None, now: float) -> QuotaFact:
    """Return the fact about an object, with the fields of its spec that define quota."""
    if obj is None:
        return QuotaFact(kind, name, now, None)
    spec = obj.get("spec") or {}
    return QuotaFact(kind, name, now, {each: spec[each] for each in _FIELDS[kind] if each in spec})


class Targets:
    """The ClusterQueues that LocalQueues led to, by time."""

    def __init__(self, facts: Iterable[QuotaFact]) -> None:
        self._of: dict[str, list[tuple[float, str]]] = {}
        for each in sorted(facts, key=lambda each: each.since):
            target = str((each.spec or {}).get("clusterQueue") or "")
            if each.kind is QuotaKind.LOCAL_QUEUE and target:
                self._of.setdefault(each.name, []).append((each.since, target))

    def at(self, local_queue: str, moment: float) -> str:
        """Return where a LocalQueue led at a time, or led last; "" if it never existed.

        Quotas are recorded some time after Workloads, so the first fact counts for earlier times.
        """
        known = self._of.get(local_queue, [])
        past = [target for since, target in known if since <= moment]
        return past[-1] if past else known[0][1] if known else ""


class Quotas:
    """The quota tree at a moment that only advances, and which LocalQueue leads where."""

    def __init__(self, facts: Iterable[QuotaFact]) -> None:
        self.tree = QuotaTree()
        self.queues: dict[str, str] = {}
        """The ClusterQueue of each LocalQueue."""
        self._due = deque(sorted(facts, key=lambda each: each.since))

    def times(self) -> list[float]:
        """Return when quotas change."""
        return [each.since for each in self._due]

    def advance(self, now: float) -> None:
        """Apply all facts up to a time."""
        while self._due and self._due[0].since <= now:
            self._apply(self._due.popleft())

    def node(self, cluster_queue: str) -> QuotaNode | None:
        return self.tree.queues.get(cluster_queue)

    def _apply(self, given: QuotaFact) -> None:
        if given.kind is QuotaKind.LOCAL_QUEUE:
            self.queues[given.name] = str((given.spec or {}).get("clusterQueue") or "")
        elif given.kind is QuotaKind.CLUSTER_QUEUE:
            self._apply_cluster_queue(given)
        else:
            self._apply_cohort(given)

    def _apply_cluster_queue(self, given: QuotaFact) -> None:
        try:
            obj = _decoded(given, kueue.ClusterQueue)
        except ValueError:
            obj = None
        if obj is None:
            self.tree.drop_queue(given.name)
            return
        found = inbound.cluster_queue(obj)
        self.tree.put_queue(given.name, found.cohort, found.groups, 1.0)

    def _apply_cohort(self, given: QuotaFact) -> None:
        try:
            obj = _decoded(given, kueue.Cohort)
            found = None if obj is None else inbound.cohort(obj)
        except ValueError:
            found = None
        if found is None:
            self.tree.drop_cohort(given.name)
            return
        self.tree.put_cohort(given.name, found.parent, found.groups, 1.0)


T = TypeVar("T", kueue.ClusterQueue, kueue.Cohort)


def _decoded(given: QuotaFact, kind: type[T]) -> T | None:
    """Return the object; None if it was deleted. Raises ValueError if it is invalid."""
    if given.spec is None:
        return None
    return msgspec.convert({"metadata": {"name": given.name}, "spec": given.spec}, kind)
