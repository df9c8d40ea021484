# SPDX-License-Identifier: Apache-2.0
"""Attributes borrowed quota to lenders.

Kueue does not record lenders, so they are determined by a rule. In each ClusterQueue, the workloads
that reserved quota first use its nominal quota, and later ones borrow. Loans are assigned in the
order of reservation, from the nearest lender: the borrower's own cohort before the cohorts above
it, a cohort's own quota before that of its members, and the member with the most lendable quota
first. Ties are broken by name. No node lends more than its lending limit.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator

from kuota.api.base import Key
from kuota.engine.amounts import FlavorResource
from kuota.engine.model import Struct
from kuota.engine.snapshot import ChargedWorkload, Queue
from kuota.engine.state import State
from kuota.engine.tree import QuotaNode


class Loan(Struct):
    """Quota of another node that a workload uses. No lender means that usage exceeds all quota."""

    workload: Key
    borrower: str
    column: FlavorResource
    amount: int
    lender_kind: str = ""
    lender: str = ""


def loans(state: State) -> list[Loan]:
    """Return all loans in the order in which they were made. Cohorts in a cycle have none."""
    queues = state.queues
    sound = [queue for queue in queues.values() if not queue.node.cyclic]
    borrowed = [each for queue in sound for each in _borrowed(queue)]
    borrowed.sort(key=lambda each: _reserved(each[0]))
    purse = _LendableQuota()
    found: list[Loan] = []
    for running, column, amount in borrowed:
        found += purse.lend(running, queues[running.queue].node, column, amount)
    return found


def _reserved(running: ChargedWorkload) -> tuple[float, str, Key]:
    since = running.reserved_at
    return (float("inf") if since is None else since, running.queue, running.key)


def _borrowed(queue: Queue) -> Iterator[tuple[ChargedWorkload, FlavorResource, int]]:
    """Yield what each workload of a queue uses beyond the nominal quota."""
    left: dict[FlavorResource, int] = {}
    for running in sorted(queue.running.values(), key=_reserved):
        for column, amount in running.usage.quota.items():
            room = left.get(column, queue.node.cell(column).nominal)
            left[column] = room - amount
            over = min(amount, amount - room)
            if over > 0:
                yield running, column, over


class _LendableQuota:
    """The lendable quota that remains at each node and flavor-resource while loans are assigned."""

    def __init__(self) -> None:
        self._own: dict[tuple[int, FlavorResource], int] = {}
        self._through: dict[tuple[int, FlavorResource], int] = {}

    def lend(
        self, running: ChargedWorkload, node: QuotaNode, column: FlavorResource, amount: int
    ) -> Iterator[Loan]:
        while amount > 0:
            offers = self._offers(node, column)
            lender, most = next((each for each in offers if each[1] > 0), (None, amount))
            part = min(amount, most)
            amount -= part
            if lender is not None:
                self._take(lender, node, column, part)
            yield _loan(running, column, part, lender)

    def _offers(self, node: QuotaNode, column: FlavorResource) -> Iterator[tuple[QuotaNode, int]]:
        below = node
        for cohort in node.ancestors():
            yield cohort, self._left(cohort, column)
            members = [
                (lender, most)
                for child in (*cohort.cohorts.values(), *cohort.queues.values())
                if child is not below
                for lender, most in self._below(child, column)
            ]
            yield from sorted(members, key=lambda each: (-each[1], each[0].name))
            below = cohort

    def _below(self, node: QuotaNode, column: FlavorResource) -> Iterator[tuple[QuotaNode, int]]:
        """Yield the lenders in a subtree, each with the maximum that it can lend outside it."""
        cell = node.cells.get(column)
        if cell is None:
            return
        out = self._through.get((id(node), column), max(0, cell.lent - cell.spilled))
        own = self._left(node, column)
        yield node, min(out, own)
        for child in (*node.cohorts.values(), *node.queues.values()):
            for lender, most in self._below(child, column):
                yield lender, min(out, most)

    def _left(self, node: QuotaNode, column: FlavorResource) -> int:
        cell = node.cells.get(column)
        if cell is None:
            return 0
        used = cell.used if node.is_queue else 0
        return self._own.get((id(node), column), max(0, cell.nominal - used))

    def _take(
        self, lender: QuotaNode, borrower: QuotaNode, column: FlavorResource, part: int
    ) -> None:
        self._own[id(lender), column] = self._left(lender, column) - part
        around = set(map(id, borrower.ancestors()))
        at: QuotaNode | None = lender
        while at is not None and id(at) not in around:
            cell = at.cell(column)
            out = self._through.get((id(at), column), max(0, cell.lent - cell.spilled))
            self._through[id(at), column] = out - part
            at = at.parent


def _loan(
    running: ChargedWorkload, column: FlavorResource, amount: int, lender: QuotaNode | None
) -> Loan:
    kind = "" if lender is None else "ClusterQueue" if lender.is_queue else "Cohort"
    return Loan(
        workload=running.key,
        borrower=running.queue,
        column=column,
        amount=amount,
        lender_kind=kind,
        lender=lender.name if lender is not None else "",
    )


LentAmounts = Counter[tuple[str, str, FlavorResource]]
"""How much of a node's own quota others use, by the node's kind and name, and by column."""


def lent_amounts(given: Iterable[Loan]) -> LentAmounts:
    """Add up loans by lender."""
    found: LentAmounts = Counter()
    for each in given:
        found[each.lender_kind, each.lender, each.column] += each.amount
    return found
