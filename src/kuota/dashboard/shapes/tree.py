# SPDX-License-Identifier: Apache-2.0
"""The views `tree` and `queue`: cohorts, ClusterQueues and their pending workloads."""

from __future__ import annotations

from enum import StrEnum

from .base import Amount, Shape
from .workloads import WorkloadRow


class NodeKind(StrEnum):
    COHORT = "Cohort"
    CLUSTER_QUEUE = "ClusterQueue"


class QuotaCell(Shape):
    """One flavor and resource of a node of the tree.

    `nominal` is the node's own quota, `total` includes everything below it. `used` counts what
    workloads at or below the node have reserved. `borrowed` is the part of it that exceeds the
    quota of the node, `lent` what others use of the node's own quota, and `available` what could
    still be reserved here, including by borrowing. Limits are None if there is no limit.
    """

    flavor: str
    resource: str
    nominal: Amount
    total: Amount
    used: Amount
    borrowed: Amount
    lent: Amount
    available: Amount
    borrowing_limit: Amount | None = None
    lending_limit: Amount | None = None


class LocalQueueRow(Shape):
    """A LocalQueue. `inactive` is why it admits nothing; "" if it is active."""

    namespace: str
    name: str
    cluster_queue: str
    pending: int = 0
    reserving: int = 0
    admitted: int = 0
    stop_policy: str = "None"
    inactive: str = ""


class TreeNode(Shape):
    """A Cohort or ClusterQueue. Children are cohorts, then ClusterQueues, each by name.

    `pending`, `reserving` (holding quota) and `admitted` count workloads at and below the node.
    `inactive` is why a ClusterQueue admits nothing; "" if it is active. `exists` is false for a
    cohort that is only referenced by name. `share` is the weighted share of fair sharing, None if
    it is not in use. `children` is empty in the view `queue`.
    """

    kind: NodeKind
    name: str
    parent: str = ""
    exists: bool = True
    quotas: list[QuotaCell] = []
    pending: int = 0
    reserving: int = 0
    admitted: int = 0
    stop_policy: str = "None"
    inactive: str = ""
    queueing_strategy: str = ""
    weight: str = "1"
    share: int | None = None
    children: list[TreeNode] = []
    local_queues: list[LocalQueueRow] = []


class LoanRow(Shape):
    """Quota that a ClusterQueue uses of another node. No lender: usage exceeds all quota."""

    borrower: str
    flavor: str
    resource: str
    amount: Amount
    lender_kind: str = ""
    lender: str = ""


class TreeModel(Shape):
    """Model of the view `tree`. `roots` are cohorts by name, then ClusterQueues without a cohort.

    `cyclic` names cohorts that are not in the tree because their parents form a cycle.
    """

    roots: list[TreeNode] = []
    loans: list[LoanRow] = []
    cyclic: list[str] = []


class QueueMeta(Shape):
    """What the view `queue` shows apart from rows. It is sent whole with each change of it.

    `path` lists the cohorts from the root to the parent. `hidden` counts pending workloads that
    the viewer may not read. `positions` are the positions, from 1, of the viewer's rows in the
    ClusterQueue, in order; None if the viewer sees all rows, so that the position is the index.
    """

    queue: TreeNode
    path: list[str] = []
    lenders: list[LoanRow] = []
    borrowers: list[LoanRow] = []
    hidden: int = 0
    positions: list[int] | None = None


class QueueModel(Shape):
    """Model of the view `queue`. `rows` are its pending workloads in order."""

    meta: QueueMeta
    rows: list[WorkloadRow] = []
