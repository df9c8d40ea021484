# SPDX-License-Identifier: Apache-2.0
"""When a node has failed for a Workload that runs on it, and what is written then.

A failed node is recorded in the Workload, whose second scheduling pass replaces it. A Workload that
loses a second node before that is evicted. This applies only to topologies down to the hostname.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from enum import Enum, auto

from kuota.api.base import Json, condition, is_true
from kuota.api.core import Node, Pod, Toleration
from kuota.api.gates import Gate, Gates
from kuota.api.kueue import ResourceFlavor
from kuota.api.match import untolerated
from kuota.api.topology_codec import by_hostname, expand, node_of, on_node
from kuota.api.workload import PodSetAssignment, Workload
from kuota.engine.model import Struct
from kuota.engine.reasons import EvictionReason

from .conditions import failed_status
from .draft import Draft, PassResult, StoredWorkload
from .eviction import evicted_status, eviction_event
from .workload_pods import WorkloadPod

DELAY_S = 30.0
"""How long a node may be NotReady before it counts as failed, whatever its pods say."""
TERMINATED = "TerminatedByKueue"
TERMINATED_REASON = "UnschedulableOnAssignedNode"
TERMINATED_EVENT = "PodTerminatedByKueue"


class NodeHealth(Enum):
    """The health of a node for one Workload. A DRAINING node fails once its pods have ended."""

    HEALTHY = auto()
    DRAINING = auto()
    FAILED = auto()


class NodeView(Struct):
    """One node, as far as it is known, and what its health depends on. `node` is None if gone."""

    name: str
    node: Node | None
    flavors: Mapping[str, ResourceFlavor]
    gates: Gates
    now: float

    @property
    def ready(self) -> bool | None:
        """Whether the node is ready; None if nothing has reported that, or the node is gone."""
        found = condition(self.node.status.conditions, "Ready") if self.node is not None else None
        return found.status == "True" if found is not None else None

    @property
    def overdue_in_s(self) -> float | None:
        """The time until the node has been not ready for too long; None while it is ready."""
        if self.node is None or self.ready is not False:
            return None
        found = condition(self.node.status.conditions, "Ready")
        since = found.last_transition_time if found is not None else None
        return (since.timestamp() if since is not None else 0.0) + DELAY_S - self.now


class NodeVerdict(Struct):
    """The health of a node for one Workload, and the pods that can never be bound to it."""

    health: NodeHealth
    terminate: tuple[WorkloadPod, ...] = ()


def recheck_in_s(view: NodeView) -> float | None:
    """Return when to look at a node again without a change; None if never."""
    left_s = view.overdue_in_s
    by_time = view.gates.on(Gate.TASReplaceNodeDueToNotReadyOverFixedTime)
    by_pods = view.gates.on(Gate.TASReplaceNodeOnPodTermination)
    return left_s if left_s is not None and left_s > 0 and (by_time or not by_pods) else None


def undecided(view: NodeView) -> bool:
    """Whether a node that is not ready still has time to recover, whatever its pods do."""
    waits = not view.gates.on(Gate.TASReplaceNodeOnPodTermination)
    return waits and view.overdue_in_s is not None and view.overdue_in_s > 0


def verdict(view: NodeView, obj: Workload, pods: Sequence[WorkloadPod]) -> NodeVerdict:
    """Return the health of a node for a Workload. `pods` are all pods of the Workload.

    Pods that wait for a node that failed, or that is no longer assigned, are to be terminated, so
    that their job replaces them.
    """
    stuck = tuple(each for each in pods if _stuck(each, view.name, obj))
    if not any(on_node(each, view.name) for each in obj.assignments):
        return NodeVerdict(health=NodeHealth.HEALTHY, terminate=stuck)
    health = _health(view, obj, pods)
    return NodeVerdict(health=health, terminate=() if health is NodeHealth.HEALTHY else stuck)


def _stuck(pod: WorkloadPod, name: str, obj: Workload) -> bool:
    """Whether a pod of the Workload waits to be bound to this node, which it was assigned."""
    own = pod.placed and pod.workload == obj.metadata.name
    if not own or pod.deleting or not pod.waits_for_node or pod.hostname != name:
        return False
    given = next((each for each in obj.assignments if each.name == pod.pod_set), None)
    # If the topology has no hostnames, the user has chosen the node.
    return given is None or given.topology_assignment is None or _by_hostname(given)


def _health(view: NodeView, obj: Workload, pods: Iterable[WorkloadPod]) -> NodeHealth:
    """Return the health of an assigned node."""
    gates = view.gates
    if view.ready is None:
        return NodeHealth.FAILED
    overdue = view.overdue_in_s is not None and view.overdue_in_s <= 0
    if overdue and gates.on(Gate.TASReplaceNodeDueToNotReadyOverFixedTime):
        return NodeHealth.FAILED
    if view.ready and not _repelled(view, obj, for_good=True):
        return NodeHealth.HEALTHY
    if not gates.on(Gate.TASReplaceNodeOnPodTermination) and (
        not view.ready or _repelled(view, obj, for_good=False)
    ):
        return NodeHealth.FAILED
    live = any(e.node == view.name and not e.deleting and not e.ended for e in pods)
    return NodeHealth.DRAINING if live else NodeHealth.FAILED


def _repelled(view: NodeView, obj: Workload, *, for_good: bool) -> bool:
    """Whether a taint of the node repels the pods that are assigned to it.

    With `for_good`, a toleration that ends after some time does not count.
    """
    if view.node is None or not view.gates.on(Gate.TASReplaceNodeOnNodeTaints):
        return False
    for each in obj.assignments:
        if on_node(each, view.name):
            known = _tolerations(view, obj, each)
            counted = [e for e in known if e.toleration_seconds is None or not for_good]
            if untolerated(view.node.spec.taints, counted) is not None:
                return True
    return False


def _tolerations(view: NodeView, obj: Workload, assignment: PodSetAssignment) -> list[Toleration]:
    """Return what the pods of a pod set tolerate, with their flavors and admission checks."""
    sets = (each for each in obj.spec.pod_sets or () if each.name == assignment.name)
    found = [e for pod_set in sets for e in pod_set.template.spec.tolerations or ()]
    for name in (assignment.flavors or {}).values():
        flavor = view.flavors.get(name)
        found += (flavor.spec.tolerations if flavor is not None else None) or ()
    for check in obj.status.admission_checks or ():
        for update in check.pod_set_updates or ():
            found += (update.tolerations if update.name == assignment.name else None) or ()
    return found


def recorded(stored: StoredWorkload, name: str, health: NodeHealth, now: float) -> PassResult:
    """Return what to write to a Workload about the health of one of its nodes."""
    obj = stored.obj
    listed = [each.name for each in obj.status.unhealthy_nodes or ()]
    draft = Draft(stored, now)
    if health is not NodeHealth.FAILED:
        if name in listed:
            draft.write({"unhealthyNodes": _nodes(each for each in listed if each != name) or None})
    elif listed and name not in listed:
        _evict(draft, [*listed, name])
    elif not listed:
        draft.write({"unhealthyNodes": _nodes([name])})
    return draft.done()


def _nodes(names: Iterable[str]) -> list[Json]:
    return [{"name": each} for each in names]


def _evict(draft: Draft, names: Sequence[str]) -> None:
    message = (
        "Workload eviction triggered due to multiple TAS assigned node failures, including: "
        + ", ".join(names)
    )
    reason, obj = EvictionReason.NODE_FAILURES, draft.obj
    draft.write(evicted_status(obj, draft.conditions(), reason, message, draft.now))
    draft.add(*eviction_event(obj, reason, message))


def may_have_failed(node: Node | None) -> bool:
    """Whether a node may have failed for some Workload."""
    return node is None or not is_true(node.status.conditions, "Ready") or bool(node.spec.taints)


def affected_by_node_failures(stored: StoredWorkload) -> bool:
    """Whether failures of nodes matter to a Workload: it runs, and was not evicted."""
    return not stored.true("Finished") and not stored.true("Evicted")


def assigned_nodes(stored: StoredWorkload) -> list[str]:
    """Return the nodes that an admitted Workload runs on, if its topology has hostnames."""
    if not stored.true("Admitted") or not affected_by_node_failures(stored):
        return []
    found: dict[str, None] = {}
    for each in stored.obj.assignments:
        topology = each.topology_assignment
        if topology is not None:
            placed = (domain for domain in expand(topology) if domain.count > 0)
            nodes = (node_of(topology.levels, domain.values) for domain in placed)
            found |= {node: None for node in nodes if node}
    return list(found)


def _by_hostname(assignment: PodSetAssignment) -> bool:
    topology = assignment.topology_assignment
    return topology is not None and by_hostname(topology.levels)


def terminated_status(pod: Pod, name: str, now: float) -> Json:
    """Return the status of a pod that is terminated because it cannot be bound to its node."""
    return failed_status(pod, TERMINATED, TERMINATED_REASON, terminated_note(name), now)


def terminated_note(name: str) -> str:
    return f"Pod terminated by Kuota because it cannot be scheduled on its assigned node {name}"
