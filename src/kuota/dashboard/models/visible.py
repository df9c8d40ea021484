# SPDX-License-Identifier: Apache-2.0
"""What a viewer may see of a model. Pure.

Models are built once from everything that the server can read, and are filtered for each viewer.
Cluster-scoped objects, amounts and counts stay: a viewer who may not read ClusterQueues or Nodes
gets no such model at all. Objects of namespaces that the viewer may not read are removed or only
counted, and so are references to them from objects that stay.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from functools import cache
from typing import TypeVar, overload

from msgspec.structs import replace

from kuota.api.base import Key
from kuota.view.plan import HelpRow, WhyRow
from kuota.visibility.explanation import HIDDEN

from ..shapes import (
    Device,
    DomainNode,
    NodeRow,
    NodesModel,
    QueueMeta,
    Ref,
    TeamsModel,
    TimelineEntry,
    TopologyModel,
    TreeModel,
    TreeNode,
    WorkloadModel,
    WorkloadRow,
    WorkloadsModel,
)

MayRead = Callable[[str], bool]
"""Whether the viewer may read the Workloads, pods and LocalQueues of a namespace."""
Whole = TypeVar("Whole", TreeModel, WorkloadsModel, TopologyModel, NodesModel, TeamsModel)


@overload
def visible(model: Whole, may_read: MayRead) -> Whole: ...
@overload
def visible(model: WorkloadRow, may_read: MayRead) -> WorkloadRow | None: ...
@overload
def visible(model: WorkloadModel, may_read: MayRead) -> WorkloadModel | None: ...
def visible(model: object, may_read: MayRead) -> object:
    """Return what the viewer may see of a model; None if it is about one workload and nothing."""
    allowed = cache(may_read)
    match model:
        case WorkloadRow():
            return _row(model, allowed)
        case WorkloadModel():
            return _workload(model, allowed)
        case WorkloadsModel():
            return WorkloadsModel(rows=_rows(model.rows, allowed))
        case TreeModel():
            return replace(model, roots=[_node(each, allowed) for each in model.roots])
        case TopologyModel():
            flavors = [
                replace(each, domains=[_domain(one, allowed) for one in each.domains])
                for each in model.flavors
            ]
            return replace(model, flavors=flavors)
        case NodesModel():
            return replace(model, nodes=[_machine(each, allowed) for each in model.nodes])
        case TeamsModel():
            return replace(model, teams=[each for each in model.teams if allowed(each.team)])
    raise TypeError(f"{type(model).__name__} is not a model")


def visible_queue(
    meta: QueueMeta, pending: Sequence[Key], workloads: MayRead, local_queues: MayRead
) -> QueueMeta:
    """Return what a viewer of these Workloads and LocalQueues may see of a ClusterQueue.

    `pending` are all its pending workloads, in order. Positions stay those among all of them.
    """
    allowed = cache(workloads)
    positions = [at for at, key in enumerate(pending, 1) if allowed(key.namespace)]
    hidden = len(pending) - len(positions)
    queue = _node(meta.queue, cache(local_queues))
    return replace(meta, queue=queue, hidden=hidden, positions=positions if hidden else None)


def _rows(rows: Iterable[WorkloadRow], may_read: MayRead) -> list[WorkloadRow]:
    found = (_row(each, may_read) for each in rows)
    return [each for each in found if each is not None]


def _row(row: WorkloadRow, may_read: MayRead) -> WorkloadRow | None:
    if not may_read(row.namespace):
        return None
    by = row.preempted_by
    return row if by is None or may_read(by.namespace) else replace(row, preempted_by=None)


def _workload(model: WorkloadModel, may_read: MayRead) -> WorkloadModel | None:
    row = _row(model.row, may_read)
    if row is None:
        return None
    return replace(
        model,
        row=row,
        timeline=[_entry(each, may_read) for each in model.timeline],
        preempts=[each for each in model.preempts if may_read(each.namespace)],
        explanation=_why(model.explanation, may_read) if model.explanation is not None else None,
        devices=[_device(each, may_read) for each in model.devices],
    )


def _entry(entry: TimelineEntry, may_read: MayRead) -> TimelineEntry:
    return replace(entry, by=_ref(entry.by, may_read))


def _ref(ref: Ref | None, may_read: MayRead) -> Ref | None:
    return ref if ref is not None and may_read(ref.namespace) else None


def _why(row: WhyRow, may_read: MayRead) -> WhyRow:
    """Replace the names of workloads, also within texts, as the API of explanations does."""
    named = {*row.rivals, *(each.workload for each in row.protected)}
    named |= {name for each in row.help for name in each.workloads}
    hidden = [each for each in named if each != HIDDEN and not may_read(Key.parse(each).namespace)]
    if not hidden:
        return row
    either = "|".join(re.escape(each) for each in sorted(hidden, key=len, reverse=True))
    pattern = re.compile(rf"(?<![\w./-])(?:{either})(?![\w/-]|\.\w)")

    def shown(words: str) -> str:
        return pattern.sub(HIDDEN, words)

    return replace(
        row,
        text=shown(row.text),
        protected=[each for each in row.protected if each.workload not in hidden],
        rivals=_once(map(shown, row.rivals)),
        help=[_help(each, shown) for each in row.help],
    )


def _help(row: HelpRow, shown: Callable[[str], str]) -> HelpRow:
    return replace(row, text=shown(row.text), workloads=_once(map(shown, row.workloads)))


def _once(names: Iterable[str]) -> list[str]:
    return list(dict.fromkeys(names))


def _node(node: TreeNode, may_read: MayRead) -> TreeNode:
    return replace(
        node,
        children=[_node(each, may_read) for each in node.children],
        local_queues=[each for each in node.local_queues if may_read(each.namespace)],
    )


def _domain(domain: DomainNode, may_read: MayRead) -> DomainNode:
    shown = [each for each in domain.contents if may_read(each.workload.namespace)]
    hidden = sum(each.pods for each in domain.contents) - sum(each.pods for each in shown)
    return replace(
        domain,
        contents=shown,
        hidden_pods=domain.hidden_pods + hidden,
        children=[_domain(each, may_read) for each in domain.children],
    )


def _machine(node: NodeRow, may_read: MayRead) -> NodeRow:
    shown = [each for each in node.contents if may_read(each.owner.namespace)]
    hidden = sum(each.pods for each in node.contents) - sum(each.pods for each in shown)
    return replace(
        node,
        contents=shown,
        hidden_pods=node.hidden_pods + hidden,
        devices=[_device(each, may_read) for each in node.devices],
    )


def _device(device: Device, may_read: MayRead) -> Device:
    """Return a device without its holder, if the viewer may not read it. Readings stay."""
    if device.holder is None or may_read(device.holder.namespace):
        return replace(device, workload=_ref(device.workload, may_read))
    return replace(device, holder=None, job="", workload=None, since="", idle_since="")
