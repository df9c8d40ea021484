# SPDX-License-Identifier: Apache-2.0
"""Whether the pods of a workload could run on the nodes of a flavor, apart from quota."""

from __future__ import annotations

from kuota.api.core import PodSpec
from kuota.api.gates import Gate
from kuota.api.match import affinity_accepts, node_selector_accepts, untolerated
from kuota.api.resources import pod_requests

from .model import PodSet, ResourceFlavor, ResourceGroup
from .placement import explicit, levels, topology_only
from .reasons import Reason, RejectionCause
from .snapshot import Queue, Snapshot
from .topology.slices import has_levels


def obstacle(
    name: str, pod_set: PodSet, group: ResourceGroup, queue: Queue, snapshot: Snapshot
) -> Reason | None:
    """Return why the pods cannot use the flavor, or None if they can.

    Raises `kuota.api.match.SelectorError` if the affinity of the pods is malformed.
    """
    flavor = snapshot.flavors.get(name)
    if flavor is None:
        return Reason(cause=RejectionCause.FLAVOR_NOT_FOUND, flavor=name)
    if flavor.topology or pod_set.topology is not None:
        reason = _topology_obstacle(flavor, pod_set, group, queue, snapshot)
        if reason is not None:
            return reason
    spec = pod_set.template.spec
    if flavor.taints:
        taint = untolerated(flavor.taints, spec.tolerations, flavor.tolerations)
        if taint is not None:
            detail = f"{taint.key}={taint.value}:{taint.effect}"
            return Reason(cause=RejectionCause.TAINT, flavor=name, detail=detail)
    if flavor.labels and not _labels_accept(flavor.labels, spec):
        return Reason(cause=RejectionCause.AFFINITY, flavor=name)
    return None


def _labels_accept(labels: dict[str, str], spec: PodSpec) -> bool:
    if not node_selector_accepts(spec.node_selector, labels):
        return False
    node = spec.affinity.node_affinity if spec.affinity is not None else None
    if node is None:
        return True
    return affinity_accepts(node.required_during_scheduling_ignored_during_execution, labels)


def _topology_obstacle(
    flavor: ResourceFlavor,
    pod_set: PodSet,
    group: ResourceGroup,
    queue: Queue,
    snapshot: Snapshot,
) -> Reason | None:
    if not snapshot.policy.on(Gate.TopologyAwareScheduling):
        return None
    if not explicit(pod_set):
        if not flavor.topology or topology_only(queue, snapshot):
            return None
        return Reason(cause=RejectionCause.ONLY_TOPOLOGY, flavor=flavor.name)
    if not flavor.topology:
        if _quota_only(group, pod_set):
            return None
        return Reason(cause=RejectionCause.NO_TOPOLOGY, flavor=flavor.name)
    topology = snapshot.topologies.get(flavor.topology)
    if topology is None:
        return Reason(cause=RejectionCause.TOPOLOGY_NOT_LOADED, flavor=flavor.name)
    if has_levels(pod_set.topology, topology.levels):
        return None
    missing = next((each for each in levels(pod_set) if each not in topology.levels), "")
    return Reason(cause=RejectionCause.TOPOLOGY_LEVEL, flavor=flavor.name, detail=missing)


def _quota_only(group: ResourceGroup, pod_set: PodSet) -> bool:
    """Whether no pod requests the group's resources: only transformations produce them."""
    return pod_requests(pod_set.template.spec).keys().isdisjoint(group.resources)
