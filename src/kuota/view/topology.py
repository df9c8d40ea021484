# SPDX-License-Identifier: Apache-2.0
"""The domains of flavors with a topology: capacity, usage, and the placement of one workload. Pure.

This is the structure of `kuota topology -o json`, which uses camelCase names. Amounts are
quantities as text. Fields may be added, but are never renamed or removed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from kuota.api.device_resources import resource_order
from kuota.api.quantity import NANO
from kuota.api.topology_codec import expand
from kuota.engine.model import Node, Workload
from kuota.engine.state import State
from kuota.engine.topology.capacity import PODS
from kuota.engine.topology.flavor import TopologyFlavor
from kuota.engine.topology.tree import Domain, Leaf, TopologyTree

from .plan import ViewStruct
from .room import rounded

Amounts = Counter[str]


class DomainResource(ViewStruct):
    """One resource of a domain: what its nodes offer, and who uses it.

    `others` is used by pods that no topology places, and `placed` by workloads. `free` may be
    negative, if a node lost capacity.
    """

    resource: str
    total: str
    others: str
    placed: str
    free: str
    used_percent: int


class PodsHere(ViewStruct):
    """Pods of one pod set of the selected workload, and the ranks that they have, from 0."""

    pod_set: str
    count: int
    ranks: str


class DomainPods(ViewStruct):
    """Pods of a workload, which is "namespace/name"."""

    workload: str
    count: int


class DomainRow(ViewStruct):
    """A domain. `pods` is the number of placed pods of all workloads.

    `contents` are the known workloads with pods here; only the lowest level has them.
    """

    name: str
    level: str
    nodes: int
    pods: int
    resources: list[DomainResource]
    workload: list[PodsHere]
    children: list[DomainRow]
    contents: list[DomainPods] = []


class UnusedNode(ViewStruct):
    """A node with the labels of a flavor that is not used for placement, and the reason."""

    name: str
    reason: str


class FlavorRow(ViewStruct):
    flavor: str
    topology: str
    levels: list[str]
    nodes: int
    domains: list[DomainRow]
    unused: list[UnusedNode]


class SelectedWorkload(ViewStruct):
    """The selected workload, and the name of its job, or its own name.

    `waiting` is why it has no placement; "" if it has one.
    """

    name: str
    workload: str
    flavors: list[str]
    pods: int
    waiting: str = ""


class TopologyReport(ViewStruct):
    flavors: list[FlavorRow]
    workload: SelectedWorkload | None = None
    notes: list[str] = []


def topology_report(
    state: State,
    workload: Workload | None = None,
    *,
    name: str = "",
    flavor: str = "",
    waiting: str = "",
    notes: Sequence[str] = (),
) -> TopologyReport:
    """Return the domains of all flavors with a known topology, or of one flavor.

    With a workload, its pods are shown in their domains. `name` is that of its job, if it has one,
    and `waiting` says why it has no placement.
    """
    placed = dict(_placements(workload)) if workload is not None else {}
    contents = _contents(state)
    rows = [
        _flavor(
            name,
            each,
            state.domains.cluster.nodes,
            _Pods(placed.get(name, {}), contents.get(name, {})),
        )
        for name, each in sorted(state.domains.cluster.flavors.items())
        if flavor in ("", name)
    ]
    return TopologyReport(
        flavors=rows,
        workload=_workload(workload, name, placed, waiting) if workload is not None else None,
        notes=[*notes, *_missing(state, flavor)],
    )


def _missing(state: State, flavor: str) -> Iterator[str]:
    for name, each in sorted(state.flavors.items()):
        if each.topology and each.topology not in state.topologies and flavor in ("", name):
            yield f"Flavor {name} names the Topology {each.topology}, which does not exist."


def _workload(
    workload: Workload, name: str, placed: Mapping[str, _Placed], waiting: str
) -> SelectedWorkload:
    pods = sum(here.count for found in placed.values() for each in found.values() for here in each)
    return SelectedWorkload(
        name=name or str(workload.key),
        workload=workload.key.name,
        flavors=sorted(placed),
        pods=pods,
        waiting="" if placed else waiting,
    )


_Placed = Mapping[tuple[str, ...], Sequence[PodsHere]]
"""The pods of the selected workload by the stored values of their domain."""


_Contents = Mapping[tuple[str, ...], Mapping[str, int]]
"""The number of pods of each workload by the stored values of their domain."""


class _Pods(NamedTuple):
    """The pods in the domains of a flavor: of the selected workload, and of all."""

    selected: _Placed
    contents: _Contents


def _contents(state: State) -> dict[str, _Contents]:
    """Return the contents of the domains of each flavor, in the order of the workloads' names."""
    found: dict[str, dict[tuple[str, ...], Counter[str]]] = {}
    for key, workload in sorted(state.workloads.items()):
        if state.running(key) is None:
            continue
        for flavor, placed in _placements(workload):
            domains = found.setdefault(flavor, {})
            for values, here in placed.items():
                domains.setdefault(values, Counter())[str(key)] += sum(one.count for one in here)
    return dict(found)


def _placements(workload: Workload) -> Iterator[tuple[str, _Placed]]:
    """Yield each flavor with a placement of the workload."""
    found: dict[str, dict[tuple[str, ...], list[PodsHere]]] = {}
    assigned = workload.reservation.pod_sets if workload.reservation is not None else ()
    for each in assigned:
        if each.topology is None:
            continue
        first = 0
        for domain in expand(each.topology):
            here = PodsHere(
                pod_set=each.name, count=domain.count, ranks=_range(first, domain.count)
            )
            first += domain.count
            for flavor in sorted(set(each.flavors.values())):
                found.setdefault(flavor, {}).setdefault(tuple(domain.values), []).append(here)
    yield from found.items()


def _range(first: int, count: int) -> str:
    return str(first) if count == 1 else f"{first}-{first + count - 1}"


def _flavor(name: str, flavor: TopologyFlavor, nodes: Mapping[str, Node], pods: _Pods) -> FlavorRow:
    tree = flavor.tree
    domains = [_domain(each, tree, pods)[0] for each in tree.root.children]
    return FlavorRow(
        flavor=name,
        topology=flavor.topology,
        levels=list(tree.levels),
        nodes=sum(each.nodes for each in domains),
        domains=domains,
        unused=list(_unused(nodes.values(), tree)),
    )


class _Sum:
    """The amounts of a domain in the units of requests."""

    def __init__(self) -> None:
        self.total: Amounts = Counter()
        self.capacity: Amounts = Counter()
        self.placed: Amounts = Counter()

    def add(self, other: _Sum) -> None:
        self.total.update(other.total)
        self.capacity.update(other.capacity)
        self.placed.update(other.placed)


def _domain(domain: Domain, tree: TopologyTree, pods: _Pods) -> tuple[DomainRow, _Sum]:
    total = _Sum()
    children: list[DomainRow] = []
    contents: Mapping[str, int] = {}
    if isinstance(domain, Leaf):
        nodes = len(domain.nodes)
        for node, _ in domain.nodes.values():
            total.total.update(node.allocatable)
        total.capacity.update(tree.vectors.mapping(domain.capacity))
        total.placed.update(tree.vectors.mapping(domain.used))
        here = list(pods.selected.get(domain.id, ()))
        contents = pods.contents.get(domain.id, {})
    else:
        for each in domain.children:
            row, inner = _domain(each, tree, pods)
            children.append(row)
            total.add(inner)
        nodes = sum(each.nodes for each in children)
        here = _joined(children)
    row = DomainRow(
        name=domain.name,
        level=tree.levels[domain.level],
        nodes=nodes,
        pods=total.placed[PODS],
        resources=[_resource(name, total) for name in sorted(total.total, key=resource_order)],
        workload=here,
        children=children,
        contents=[DomainPods(workload=name, count=count) for name, count in contents.items()],
    )
    return row, total


def _joined(children: Iterable[DomainRow]) -> list[PodsHere]:
    """Add up the pods of the children by pod set. Ranks are listed if they are few."""
    found: dict[str, list[PodsHere]] = {}
    for child in children:
        for each in child.workload:
            found.setdefault(each.pod_set, []).append(each)
    return [
        PodsHere(
            pod_set=name,
            count=sum(each.count for each in some),
            ranks=_ranges(each.ranks for each in some),
        )
        for name, some in found.items()
    ]


def _ranges(ranks: Iterable[str]) -> str:
    """Merge adjacent ranges: "0-1" and "2" are "0-2"."""
    merged: list[tuple[int, int]] = []
    for each in sorted(_bounds(part) for text in ranks for part in text.split(",")):
        if merged and merged[-1][1] + 1 == each[0]:
            merged[-1] = merged[-1][0], each[1]
        else:
            merged.append(each)
    return ",".join(_range(low, high - low + 1) for low, high in merged)


def _bounds(text: str) -> tuple[int, int]:
    low, _, high = text.partition("-")
    return int(low), int(high or low)


def _resource(name: str, total: _Sum) -> DomainResource:
    all_, capacity, placed = total.total[name], total.capacity[name], total.placed[name]
    used = all_ - capacity + placed
    return DomainResource(
        resource=name,
        total=amount_text(all_, name),
        others=amount_text(all_ - capacity, name),
        placed=amount_text(placed, name),
        free=amount_text(capacity - placed, name),
        used_percent=min(100, max(0, round(100 * used / all_))) if all_ else 0,
    )


def amount_text(amount: int, resource: str) -> str:
    """Format an amount of a node or domain: CPUs as a decimal, sizes rounded."""
    return f"{amount / 1000:.15g}" if resource == "cpu" else rounded(amount * NANO, resource)


def _unused(nodes: Iterable[Node], tree: TopologyTree) -> Iterator[UnusedNode]:
    for node in sorted(nodes, key=lambda each: each.name):
        if tree.leaf_of(node.name) is None and tree.labels.items() <= node.labels.items():
            yield UnusedNode(name=node.name, reason=_reason(node, tree))


def _reason(node: Node, tree: TopologyTree) -> str:
    if not node.ready:
        return "is not ready"
    if node.unschedulable:
        return "is cordoned"
    missing = [level for level in tree.levels if level not in node.labels]
    return f"has no label {', '.join(missing)}"
