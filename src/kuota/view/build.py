# SPDX-License-Identifier: Apache-2.0
"""Builds the rows of a plan from the engine's state, past events, and loans."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from functools import reduce

from kuota.api.base import Key
from kuota.api.quantity import add, text
from kuota.engine.amounts import FlavorResource
from kuota.engine.engine import Engine
from kuota.engine.model import Instant, Struct, Workload
from kuota.engine.snapshot import Queue
from kuota.engine.tree import QuotaNode

from .loans import LentAmounts, Loan, lent_amounts, loans
from .plan import (
    Borrowed,
    CohortRow,
    Given,
    Plan,
    PlannedState,
    PlannedWorkload,
    QueueRow,
    QuotaRow,
    WhyRow,
)
from .priority_classes import with_priority_classes
from .timeline import TimelineEvent, TimelineEventType, timeline
from .words import why_row


class Subject(Struct):
    """A workload under its name in the manifest. `unqueued` is why a job has no Workload."""

    key: Key
    name: str
    kind: str
    workload: Workload | None = None
    queue: str = ""
    unqueued: str = ""


class PastEvents(Struct):
    """Past events, the loans at each instant, and workloads that preempt each other endlessly.

    Times are relative to the start.
    """

    events: tuple[TimelineEvent, ...] = ()
    borrowed: Mapping[Instant, list[Loan]] = {}
    restless: tuple[Key, ...] = ()


class Builder:
    """Builds one plan. Does not change the engine. `named` returns the name in the manifest.

    `priorities` are those of the WorkloadPriorityClasses.
    """

    def __init__(
        self,
        engine: Engine,
        now: Instant,
        subjects: Sequence[Subject],
        past: PastEvents | None = None,
        priorities: Mapping[str, int] | None = None,
    ) -> None:
        self.engine = engine
        self.now = now
        self.subjects = subjects
        self.past = past or PastEvents()
        self._priorities = priorities or {}
        self._names = {each.key: f"{each.key.namespace}/{each.name}" for each in subjects}
        self._loans = loans(engine.state)
        self._lent = lent_amounts(self._loans)

    def named(self, key: Key) -> str:
        return self._names.get(key, str(key))

    def plan(self, notes: Sequence[str] = ()) -> Plan:
        """Return the plan. Rows are in the order of the manifests."""
        rows = self.workloads()
        counts = Counter(each.state for each in rows)
        return Plan(
            summary={state.value: counts[state] for state in PlannedState if counts[state]},
            workloads=rows,
            cluster_queues=self.queues(),
            cohorts=self.cohorts(),
            timeline=timeline(self.past.events, self.past.borrowed, self.named),
            restless=[self.named(each) for each in self.past.restless],
            notes=list(notes),
        )

    def workloads(self) -> list[PlannedWorkload]:
        return [self._workload(each) for each in self.subjects]

    def queues(self) -> list[QueueRow]:
        return [self._queue(queue) for _, queue in sorted(self.engine.state.queues.items())]

    def cohorts(self) -> list[CohortRow]:
        state = self.engine.state
        return [
            CohortRow(
                name=name,
                parent=node.parent.name if node.parent is not None else "",
                quotas=quotas(node, self._lent),
            )
            for name, node in sorted(state.tree.cohorts.items())
            if not node.cyclic
        ]

    def _workload(self, subject: Subject) -> PlannedWorkload:
        known = self.engine.state.workloads.get(subject.key)
        shown = known or subject.workload
        why = self._why(subject)
        return PlannedWorkload(
            name=self.named(subject.key),
            kind=subject.kind,
            workload=subject.key.name if shown is not None else "",
            state=self._state(subject, known),
            queue=shown.queue if shown is not None else subject.queue,
            cluster_queue=self.engine.state.queue_of(shown) if shown is not None else "",
            priority=shown.priority if shown is not None else 0,
            pods=_pods(shown),
            pods_asked=sum(each.count for each in shown.pod_sets) if shown is not None else 0,
            gets=_gets(known),
            borrows=[borrowed_row(each) for each in self._loans if each.workload == subject.key],
            preempts=self._others(subject.key, by=True),
            preempted_by=self._others(subject.key, by=False),
            why=why,
        )

    def _why(self, subject: Subject) -> WhyRow | None:
        if subject.unqueued:
            return WhyRow(text=subject.unqueued)
        found = self.engine.explain(subject.key, self.now)
        if found is None:
            return None
        return why_row(with_priority_classes(found, self._priorities), self.named)

    def _state(self, subject: Subject, known: Workload | None) -> PlannedState:
        if subject.unqueued:
            return PlannedState.NOT_QUEUED
        if known is None or known.finished:
            return PlannedState.FINISHED
        if not known.active:
            return PlannedState.DEACTIVATED
        if known.reservation is not None:
            return PlannedState.ADMITTED if known.admitted else PlannedState.RESERVED
        if self.engine.queues.queue_of(known.key) is None:
            return PlannedState.NOT_QUEUED
        return PlannedState.PREEMPTED if self._others(known.key, by=False) else PlannedState.WAITING

    def _others(self, key: Key, *, by: bool) -> list[str]:
        """Return the workloads that this one preempted, or that preempted it."""
        found = [
            each.workload if by else each.by
            for each in self.past.events
            if each.what is TimelineEventType.PREEMPTED
            and (each.by if by else each.workload) == key
        ]
        return list(dict.fromkeys(self.named(each) for each in found if each is not None))

    def _queue(self, queue: Queue) -> QueueRow:
        reasons = [str(each) for each in self.engine.state.obstacles.get(queue.name, ())]
        if queue.node.cyclic:
            reasons.append("its cohorts form a cycle")
        return QueueRow(
            name=queue.name,
            cohort=queue.spec.cohort,
            active=queue.active,
            pending=self.engine.queues.pending(queue.name),
            holding=len(queue.running),
            quotas=quotas(queue.node, self._lent),
            inactive=reasons,
        )


def quotas(node: QuotaNode, lent: LentAmounts) -> list[QuotaRow]:
    """Return a row for each flavor-resource of a node with quota or usage, in spec order."""
    below = [column for each in _at_and_below(node) for column in each.quotas]
    used = [column for column, cell in node.cells.items() if cell.used]
    return [_quota(node, column, lent) for column in dict.fromkeys([*below, *used])]


def _at_and_below(node: QuotaNode) -> list[QuotaNode]:
    children = [*node.cohorts.values(), *node.queues.values()]
    return [node, *(each for child in children for each in _at_and_below(child))]


def _quota(node: QuotaNode, column: FlavorResource, lent: LentAmounts) -> QuotaRow:
    cell, name = node.cell(column), column.resource
    kind = "ClusterQueue" if node.is_queue else "Cohort"
    over = max(0, cell.used - (cell.nominal if node.is_queue else cell.subtree))
    return QuotaRow(
        flavor=column.flavor,
        resource=name,
        nominal=text(cell.nominal, name),
        total=text(_sum(each.cell(column).nominal for each in _at_and_below(node)), name),
        used=text(_sum(leaf.cell(column).used for leaf in node.leaves()), name),
        borrowed=text(over, name),
        lent=text(lent[kind, node.name, column], name),
        borrowing_limit=_limit(cell.borrowing_limit, name),
        lending_limit=_limit(cell.lending_limit, name),
    )


def _sum(amounts: Iterable[int]) -> int:
    return reduce(add, amounts, 0)


def _limit(amount: int | None, resource: str) -> str | None:
    return None if amount is None else text(amount, resource)


def borrowed_row(loan: Loan) -> Borrowed:
    return Borrowed(
        resource=loan.column.resource,
        flavor=loan.column.flavor,
        amount=text(loan.amount, loan.column.resource),
        lender_kind=loan.lender_kind,
        lender=loan.lender,
    )


def _pods(workload: Workload | None) -> int:
    """Return the number of pods: as admitted, or else as requested."""
    if workload is None:
        return 0
    if workload.reservation is not None:
        return sum(each.count for each in workload.reservation.pod_sets)
    return sum(each.count for each in workload.pod_sets)


def _gets(workload: Workload | None) -> list[Given]:
    reservation = workload.reservation if workload is not None else None
    return [
        Given(
            pod_set=each.name,
            count=each.count,
            resource=resource,
            flavor=flavor,
            amount=text(each.requests.get(resource, 0), resource),
        )
        for each in (reservation.pod_sets if reservation is not None else ())
        for resource, flavor in each.flavors.items()
    ]
