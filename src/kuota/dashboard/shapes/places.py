# SPDX-License-Identifier: Apache-2.0
"""The views `topology` and `nodes`: domains, nodes and devices with their contents."""

from __future__ import annotations

from .base import Amount, Ref, Shape


class DomainAmounts(Shape):
    """One resource of a domain. `placed` is used by workloads, `others` by other pods."""

    resource: str
    total: Amount
    placed: Amount
    others: Amount
    free: Amount
    used_percent: int


class DomainContent(Shape):
    """Pods of one workload in a domain."""

    workload: Ref
    job: str
    kind: str
    pods: int


class DomainNode(Shape):
    """A domain, such as a rack. `pods` counts placed pods of all workloads.

    Only domains of the lowest level have `contents`; `hidden_pods` are those of workloads that the
    viewer may not read.
    """

    name: str
    level: str
    nodes: int
    pods: int
    resources: list[DomainAmounts] = []
    contents: list[DomainContent] = []
    hidden_pods: int = 0
    children: list[DomainNode] = []


class UnusedNodeRow(Shape):
    """A node with the labels of the flavor that cannot be used, and the reason."""

    name: str
    reason: str


class FlavorDomains(Shape):
    flavor: str
    topology: str
    levels: list[str]
    nodes: int
    domains: list[DomainNode] = []
    unused: list[UnusedNodeRow] = []


class TopologyModel(Shape):
    """Model of the view `topology`: flavors that have a topology, by name."""

    flavors: list[FlavorDomains] = []
    notes: list[str] = []


class Device(Shape):
    """A device. `holder` is its pod, None if it is free or the viewer may not read the pod.

    `workload` is the workload of that pod. Readings are None where the device has none.
    `idle_since` is set if the device is held, but has not been used since then.
    """

    node: str
    resource: str
    id: str
    held: bool = False
    holder: Ref | None = None
    job: str = ""
    workload: Ref | None = None
    since: str = ""
    idle_since: str = ""
    utilization_percent: int | None = None
    memory_used_bytes: int | None = None
    memory_total_bytes: int | None = None


class NodeAmounts(Shape):
    """One resource of a node. `used` is what pods on the node request."""

    resource: str
    allocatable: Amount
    used: Amount
    free: Amount
    used_percent: int


class NodePods(Shape):
    """Pods of one workload, or one pod without a workload, on a node."""

    owner: Ref
    job: str
    pods: int


class NodeRow(Shape):
    """A node. `unusable` is why it takes no pods ("is cordoned"); "" if it does."""

    name: str
    unusable: str = ""
    flavors: list[str] = []
    domain: list[str] = []
    resources: list[NodeAmounts] = []
    contents: list[NodePods] = []
    hidden_pods: int = 0
    devices: list[Device] = []


class NodesModel(Shape):
    """Model of the view `nodes`. `note` says why no devices are listed, "" if they are."""

    nodes: list[NodeRow] = []
    note: str = ""
