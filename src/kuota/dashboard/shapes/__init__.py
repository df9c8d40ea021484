# SPDX-License-Identifier: Apache-2.0
"""The JSON that the dashboard's API responds with. Names are camelCase on the wire.

All fields are present, except in `WorkloadRow`, which omits fields with their default value.
Times are RFC 3339 in UTC, and "" if unknown. Nothing here depends on the current time, so that a
row is rendered once per change: the browser computes ages. Texts are plain, never markup.

Texts never contain names of objects of other namespaces than the one of the row. References to
such objects are separate fields (`Ref`), which are None for viewers who may not read them.
"""

from __future__ import annotations

from .actions import (
    ActionName,
    ActionRequest,
    ActionResult,
)
from .base import (
    Amount,
    Ref,
    Shape,
)
from .events import (
    ModelChange,
    RowChange,
    SessionModel,
    SnapshotEvent,
    View,
)
from .places import (
    Device,
    DomainAmounts,
    DomainContent,
    DomainNode,
    FlavorDomains,
    NodeAmounts,
    NodePods,
    NodeRow,
    NodesModel,
    TopologyModel,
    UnusedNodeRow,
)
from .teams import (
    ResourceSeries,
    TeamSeries,
    TeamsModel,
)
from .tree import (
    LoanRow,
    LocalQueueRow,
    NodeKind,
    QueueMeta,
    QueueModel,
    QuotaCell,
    TreeModel,
    TreeNode,
)
from .workload import (
    CheckRow,
    ConditionRow,
    EventRow,
    PlacementRow,
    PodRow,
    PodSetRow,
    PriorityChoice,
    TimelineEntry,
    TimelineStep,
    WorkloadModel,
)
from .workloads import (
    WorkloadRow,
    WorkloadsModel,
)

__all__ = [
    "ActionName",
    "ActionRequest",
    "ActionResult",
    "Amount",
    "CheckRow",
    "ConditionRow",
    "Device",
    "DomainAmounts",
    "DomainContent",
    "DomainNode",
    "EventRow",
    "FlavorDomains",
    "LoanRow",
    "LocalQueueRow",
    "ModelChange",
    "NodeAmounts",
    "NodeKind",
    "NodePods",
    "NodeRow",
    "NodesModel",
    "PlacementRow",
    "PodRow",
    "PodSetRow",
    "PriorityChoice",
    "QueueMeta",
    "QueueModel",
    "QuotaCell",
    "Ref",
    "ResourceSeries",
    "RowChange",
    "SessionModel",
    "Shape",
    "SnapshotEvent",
    "TeamSeries",
    "TeamsModel",
    "TimelineEntry",
    "TimelineStep",
    "TopologyModel",
    "TreeModel",
    "TreeNode",
    "UnusedNodeRow",
    "View",
    "WorkloadModel",
    "WorkloadRow",
    "WorkloadsModel",
]
