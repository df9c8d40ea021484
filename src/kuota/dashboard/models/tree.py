# SPDX-License-Identifier: Apache-2.0
"""The cohort tree with quota, usage, and what is borrowed and lent; and one queue of it. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import groupby

from kuota.api.base import Json, Key
from kuota.api.quantity import text
from kuota.engine.amounts import FlavorResource
from kuota.engine.tree import QuotaNode, QuotaTree, charge
from kuota.view.build import quotas
from kuota.view.conditions import condition
from kuota.view.live import queue_rows
from kuota.view.loans import LentAmounts, Loan, lent_amounts, loans
from kuota.view.observed import ObservedState
from kuota.view.plan import QuotaRow

from ..shapes import (
    LoanRow,
    LocalQueueRow,
    NodeKind,
    QueueMeta,
    QuotaCell,
    TreeModel,
    TreeNode,
)
from .amounts import amount, number


def tree_model(observed: ObservedState) -> TreeModel:
    """Return the whole tree. Cohorts in a cycle are only named; their ClusterQueues are roots."""
    tree, given = observed.state.tree, loans(observed.state)
    build = _Builder(observed, lent_amounts(given))
    roots = [each for each in tree.cohorts.values() if each.parent is None]
    single = [each for each in tree.queues.values() if each.parent is None or each.cyclic]
    return TreeModel(
        roots=[build.node(each) for each in (*_by_name(roots), *_by_name(single))],
        loans=_loan_rows(given),
        cyclic=sorted(each.name for each in tree.cohorts.values() if each.cyclic),
    )


def queue_meta(observed: ObservedState, name: str) -> QueueMeta | None:
    """Return a ClusterQueue without its workloads; None if it does not exist."""
    node = observed.state.tree.queues.get(name)
    if node is None:
        return None
    given = loans(observed.state)
    rows = _loan_rows(given)
    above = [] if node.cyclic else [each.name for each in node.ancestors()]
    return QueueMeta(
        queue=_Builder(observed, lent_amounts(given)).node(node),
        path=above[::-1],
        lenders=[each for each in rows if each.borrower == name],
        borrowers=[
            each
            for each in rows
            if (each.lender_kind, each.lender) == (NodeKind.CLUSTER_QUEUE.value, name)
        ],
    )


class _Builder:
    def __init__(self, observed: ObservedState, lent: LentAmounts) -> None:
        self._observed = observed
        self._lent = lent
        self._local: dict[str, list[LocalQueueRow]] = {}
        for obj in observed.objects["LocalQueue"].values():
            row = _local_queue(obj)
            self._local.setdefault(row.cluster_queue, []).append(row)

    def node(self, node: QuotaNode) -> TreeNode:
        return self._queue(node) if node.is_queue else self._cohort(node)

    def _queue(self, node: QuotaNode) -> TreeNode:
        obj = self._observed.objects["ClusterQueue"].get(Key("", node.name)) or {}
        spec, status = obj.get("spec") or {}, obj.get("status") or {}
        return TreeNode(
            kind=NodeKind.CLUSTER_QUEUE,
            name=node.name,
            parent=str(spec.get("cohortName") or ""),
            quotas=self._cells(node),
            pending=number(status.get("pendingWorkloads")),
            reserving=number(status.get("reservingWorkloads")),
            admitted=number(status.get("admittedWorkloads")),
            stop_policy=str(spec.get("stopPolicy") or "None"),
            inactive=queue_rows([obj])[0].inactive if obj else "",
            queueing_strategy=str(spec.get("queueingStrategy") or ""),
            weight=_weight(spec),
            share=_share(status),
            local_queues=sorted(
                self._local.get(node.name, ()), key=lambda each: (each.namespace, each.name)
            ),
        )

    def _cohort(self, node: QuotaNode) -> TreeNode:
        obj = self._observed.objects["Cohort"].get(Key("", node.name)) or {}
        below = (*_by_name(node.cohorts.values()), *_by_name(node.queues.values()))
        children = [self.node(each) for each in below]
        return TreeNode(
            kind=NodeKind.COHORT,
            name=node.name,
            parent=node.parent.name if node.parent is not None else "",
            exists=node.explicit,
            quotas=self._cells(node),
            pending=sum(each.pending for each in children),
            reserving=sum(each.reserving for each in children),
            admitted=sum(each.admitted for each in children),
            weight=_weight(obj.get("spec") or {}),
            share=_share(obj.get("status") or {}),
            children=children,
        )

    def _cells(self, node: QuotaNode) -> list[QuotaCell]:
        shown = self._alone(node) if node.cyclic else node
        return [_cell(shown, each) for each in quotas(shown, self._lent)]

    def _alone(self, node: QuotaNode) -> QuotaNode:
        """Return a ClusterQueue below a cycle as if it had no cohort: it can borrow nothing."""
        spec = self._observed.state.queues[node.name].spec
        alone = QuotaTree().put_queue(node.name, "", spec.groups, spec.weight)
        for column, cell in node.cells.items():
            charge(alone.cell(column), cell.used)
        return alone


def _cell(node: QuotaNode, row: QuotaRow) -> QuotaCell:
    room = node.room(FlavorResource(row.flavor, row.resource))
    borrowing, lending = row.borrowing_limit, row.lending_limit
    return QuotaCell(
        flavor=row.flavor,
        resource=row.resource,
        nominal=amount(row.nominal),
        total=amount(row.total),
        used=amount(row.used),
        borrowed=amount(row.borrowed),
        lent=amount(row.lent),
        available=amount(text(room, row.resource)),
        borrowing_limit=amount(borrowing) if borrowing is not None else None,
        lending_limit=amount(lending) if lending is not None else None,
    )


def _local_queue(obj: Json) -> LocalQueueRow:
    metadata, spec, status = obj["metadata"], obj.get("spec") or {}, obj.get("status") or {}
    active = condition(obj, "Active") or {}
    unable = active.get("status") == "False"
    return LocalQueueRow(
        namespace=str(metadata.get("namespace") or ""),
        name=str(metadata["name"]),
        cluster_queue=str(spec.get("clusterQueue") or ""),
        pending=number(status.get("pendingWorkloads")),
        reserving=number(status.get("reservingWorkloads")),
        admitted=number(status.get("admittedWorkloads")),
        stop_policy=str(spec.get("stopPolicy") or "None"),
        inactive=str(active.get("message") or active.get("reason") or "") if unable else "",
    )


def _loan_rows(given: Iterable[Loan]) -> list[LoanRow]:
    """Add up the loans of workloads by borrower, lender and column."""

    def route(loan: Loan) -> tuple[str, str, str, str, str]:
        column = loan.column
        return loan.borrower, loan.lender_kind, loan.lender, column.flavor, column.resource

    rows = []
    for (borrower, kind, lender, flavor, resource), some in groupby(
        sorted(given, key=route), route
    ):
        total = sum(each.amount for each in some)
        rows.append(
            LoanRow(
                borrower=borrower,
                flavor=flavor,
                resource=resource,
                amount=amount(text(total, resource)),
                lender_kind=kind,
                lender=lender,
            )
        )
    return rows


def _by_name(nodes: Iterable[QuotaNode]) -> list[QuotaNode]:
    return sorted(nodes, key=lambda each: each.name)


def _weight(spec: Json) -> str:
    found = (spec.get("fairSharing") or {}).get("weight")
    return "1" if found is None else str(found)


def _share(status: Json) -> int | None:
    found = (status.get("fairSharing") or {}).get("weightedShare")
    return found if isinstance(found, int) else None
