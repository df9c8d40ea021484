# SPDX-License-Identifier: Apache-2.0
"""Nodes with what runs on them, and devices with their holders. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from kuota.api.base import Json, Key
from kuota.api.device_resources import resource_order
from kuota.engine.model import Node
from kuota.view.devices import DeviceRow
from kuota.view.observed import ObservedState

from ..shapes import Device, NodeAmounts, NodePods, NodeRow, NodesModel, Ref
from .amounts import node_amount, percent
from .rows import job_name, workload_ref


def nodes_model(
    observed: ObservedState, devices: Sequence[DeviceRow] = (), note: str = ""
) -> NodesModel:
    """Return all nodes by name. `note` says why the devices are not known, "" if they are."""
    by_node: dict[str, list[Device]] = {}
    for each in devices:
        by_node.setdefault(each.node, []).append(device(each, observed))
    known = observed.state.domains.cluster.nodes
    rows = [_node(known[name], observed, by_node.pop(name, [])) for name in sorted(known)]
    rows += [NodeRow(name=name, devices=found) for name, found in sorted(by_node.items())]
    return NodesModel(nodes=rows, note=note)


def device(row: DeviceRow, observed: ObservedState) -> Device:
    """Return a device with its holder and the workload of it."""
    pod = observed.objects["Pod"].get(Key(row.namespace, row.pod)) if row.pod else None
    found = observed.workload_of_pod(pod) if pod is not None else None
    workload = workload_ref(found) if found is not None else None
    if workload is None and row.workload:
        workload = Ref(kind="Workload", name=row.workload, namespace=row.namespace)
    holder = Ref(kind="Pod", name=row.pod, namespace=row.namespace) if row.pod else None
    return Device(
        node=row.node,
        resource=row.resource,
        id=row.id,
        held=row.held,
        holder=holder,
        job=row.job,
        workload=workload,
        since=row.since,
        idle_since=row.idle_since,
        utilization_percent=row.utilization_percent,
        memory_used_bytes=row.memory_used_bytes,
        memory_total_bytes=row.memory_total_bytes,
    )


def _node(node: Node, observed: ObservedState, devices: list[Device]) -> NodeRow:
    bound = observed.bound.get(node.name, {})
    flavors = [
        each
        for each in observed.state.flavors.values()
        if each.labels.items() <= node.labels.items()
    ]
    used: Counter[str] = Counter(pods=len(bound))
    for requests in bound.values():
        used.update({name: amount for name, amount in requests.items() if name != "pods"})
    return NodeRow(
        name=node.name,
        unusable=_unusable(node),
        flavors=sorted(each.name for each in flavors),
        domain=_domain(node, observed, [each.topology for each in flavors if each.topology]),
        resources=_amounts(node, used),
        contents=_contents(bound, observed),
        devices=devices,
    )


def _unusable(node: Node) -> str:
    if not node.ready:
        return "is not ready"
    return "is cordoned" if node.unschedulable else ""


def _domain(node: Node, observed: ObservedState, topologies: Iterable[str]) -> list[str]:
    """Return the node's values of the levels of a topology, topmost first; empty if it has none."""
    for name in topologies:
        topology = observed.state.topologies.get(name)
        if topology is not None and all(level in node.labels for level in topology.levels):
            return [node.labels[level] for level in topology.levels]
    return []


def _amounts(node: Node, used: Mapping[str, int]) -> list[NodeAmounts]:
    return [
        NodeAmounts(
            resource=name,
            allocatable=node_amount(total, name),
            used=node_amount(used.get(name, 0), name),
            free=node_amount(total - used.get(name, 0), name),
            used_percent=percent(used.get(name, 0), total),
        )
        for name, total in sorted(
            node.allocatable.items(), key=lambda each: resource_order(each[0])
        )
    ]


def _contents(bound: Iterable[Key], observed: ObservedState) -> list[NodePods]:
    """Return the pods of a node by workload; pods without a workload one by one."""
    owners: dict[Ref, Json | None] = {}
    counts: Counter[Ref] = Counter()
    for key in sorted(bound):
        workload = observed.workload_of_pod(observed.objects["Pod"][key])
        pod = Ref(kind="Pod", name=key.name, namespace=key.namespace)
        ref = workload_ref(workload) if workload is not None else pod
        owners[ref] = workload
        counts[ref] += 1
    return [
        NodePods(owner=ref, job=job_name(found) if found is not None else "", pods=counts[ref])
        for ref, found in owners.items()
    ]
