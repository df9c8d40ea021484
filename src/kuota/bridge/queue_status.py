# SPDX-License-Identifier: Apache-2.0
"""The status of ClusterQueues, LocalQueues and Cohorts: usage, conditions and merge patches."""

from __future__ import annotations

from collections.abc import Collection, Container

from kuota.api import kueue
from kuota.api.advice.topology import unlabelled
from kuota.api.base import Json, Key
from kuota.api.defaults import FINALIZER
from kuota.api.merge_patch import difference
from kuota.api.quantity import UNLIMITED, canonical, parse, written
from kuota.engine.activity import QueueObstacle, flavor_names
from kuota.engine.amounts import FlavorResource
from kuota.engine.charged import UsageTotal
from kuota.engine.consumed_usage import ConsumedUsage
from kuota.engine.engine import Engine
from kuota.engine.fairness import share
from kuota.engine.model import ClusterQueue, Struct, Topology
from kuota.engine.snapshot import Queue
from kuota.engine.state import State
from kuota.engine.tree import QuotaNode

from .conditions import Conditions, timestamp


class ColumnUsage(Struct):
    """The usage of one column of a queue, and how much of it exceeds nominal quota."""

    column: FlavorResource
    total: int
    borrowed: int = 0


class QueueUsage(Struct):
    """The usage of a queue by workloads with quota, or only by admitted ones."""

    workloads: int = 0
    columns: tuple[ColumnUsage, ...] = ()


def reserved(queue: Queue, local_queue: Key | None = None) -> QueueUsage:
    """Return the usage of a ClusterQueue, or the part of one LocalQueue.

    A reservation counts once the API server has stored it. Until then its workload is pending.
    """
    return _use(queue, queue.running.total(local_queue), shared=local_queue is None)


def admitted(queue: Queue, local_queue: Key | None = None) -> QueueUsage:
    """Return the same for admitted workloads only."""
    total = queue.running.total(local_queue, admitted=True)
    return _use(queue, total, shared=local_queue is None)


def _use(queue: Queue, totals: UsageTotal, *, shared: bool) -> QueueUsage:
    """Return every declared column in spec order. Only a ClusterQueue in a cohort borrows."""
    borrows = shared and queue.node.parent is not None
    columns = []
    for group in queue.spec.groups:
        for column, quota in group.quotas.items():
            total = min(totals.amounts.get(column, 0), UNLIMITED)
            borrowed = max(0, total - quota.nominal) if borrows else 0
            columns.append(ColumnUsage(column=column, total=total, borrowed=borrowed))
    return QueueUsage(workloads=totals.count, columns=tuple(columns))


def flavors_json(use: QueueUsage, *, shared: bool, sizes: Container[str] = ()) -> list[Json]:
    """Return usage grouped by flavor. `shared` queues (ClusterQueues) include `borrowed`.

    `sizes` are written with binary suffixes.
    """
    flavors: dict[str, list[Json]] = {}
    for each in use.columns:
        name = each.column.resource
        entry: Json = {"name": name, "total": written(each.total, name, sizes)}
        if shared:
            entry["borrowed"] = written(each.borrowed, name, sizes)
        flavors.setdefault(each.column.flavor, []).append(entry)
    return [{"name": flavor, "resources": resources} for flavor, resources in flavors.items()]


Active = tuple[bool, str, str]
"""Status, reason and message of condition Active."""

READY = "Can admit new workloads"
_NO_NAMESPACE = (
    ", but no namespace matches: spec.namespaceSelector of the ClusterQueue is not set; "
    "set it to {} to match every namespace"
)


def active_condition(obstacles: tuple[QueueObstacle, ...], caveat: str = "") -> Active:
    """Return the condition Active. The first obstacle gives the reason.

    The caveat is added to the message of an active queue.
    """
    if not obstacles:
        return True, "Ready", READY + caveat
    words = "; ".join(str(each) for each in obstacles)
    return False, obstacles[0].reason.value, f"Cannot admit new workloads: {words}"


def caveat(state: State, queue: Queue | None, node_labels: Collection[str] | None = None) -> str:
    """Return why a ClusterQueue admits nothing, or not all, although it is active in Kueue.

    `node_labels` are the label keys of all nodes; None if they are unknown.
    """
    if queue is None:
        return ""
    if queue.spec.namespace_selector is None:
        return _NO_NAMESPACE
    lacking = [
        f"{level} of Topology {topology.name}"
        for topology in _topologies(state, queue.spec)
        for level in unlabelled(topology.levels, node_labels)
    ]
    return (
        f", but no node has topology level {', '.join(lacking)}; label the nodes" if lacking else ""
    )


def _topologies(state: State, spec: ClusterQueue) -> list[Topology]:
    """Return the Topologies of the queue's flavors, without duplicates."""
    flavors = (state.flavors.get(name) for name in sorted(flavor_names(spec)))
    names = dict.fromkeys(each.topology for each in flavors if each is not None)
    return [state.topologies[name] for name in names if name in state.topologies]


_FLAVORS = ("flavorsReservation", "flavorsUsage")


def cluster_queue_patch(
    engine: Engine,
    obj: kueue.ClusterQueue,
    stored: Json,
    now: float,
    active: Active | None = None,
    node_labels: Collection[str] | None = None,
) -> Json:
    """Return the required status patch; empty if there is none.

    `active` overrides the condition that the engine determines. `node_labels` are the label keys
    of all nodes; None if they are unknown.
    """
    name = obj.metadata.name
    queue = engine.state.queues.get(name)
    if queue is None:
        return {}
    holding, running, sizes = reserved(queue), admitted(queue), engine.policy.sizes
    wanted: Json = {
        "flavorsReservation": flavors_json(holding, shared=True, sizes=sizes),
        "flavorsUsage": flavors_json(running, shared=True, sizes=sizes),
        "pendingWorkloads": engine.queues.pending(name) + queue.running.assumed(),
        "reservingWorkloads": holding.workloads,
        "admittedWorkloads": running.workloads,
    }
    if engine.policy.fair_sharing is not None:
        wanted["fairSharing"] = _share(queue.node)
    conditions = cluster_queue_conditions(engine, obj, now, active, node_labels)
    return _changed(stored, wanted, conditions)


def cluster_queue_conditions(
    engine: Engine,
    obj: kueue.ClusterQueue,
    now: float,
    active: Active | None = None,
    node_labels: Collection[str] | None = None,
) -> Conditions:
    """Return the conditions of a ClusterQueue, with Active from the engine or from `active`."""
    conditions = Conditions(obj.status.conditions, now, obj.metadata.generation)
    name = obj.metadata.name
    queue = engine.state.queues.get(name)
    if queue is not None:
        obstacles = engine.state.obstacles.get(name, ())
        found = active_condition(obstacles, caveat(engine.state, queue, node_labels))
        conditions.put("Active", *(active or found))
    return conditions


def local_queue_patch(
    engine: Engine,
    obj: kueue.LocalQueue,
    stored: Json,
    now: float,
    node_labels: Collection[str] | None = None,
) -> Json:
    """Return the required status patch; empty if there is none."""
    key = obj.key
    spec = engine.state.local_queues.get(key)
    if spec is None:
        return {}
    wanted: Json = {
        "pendingWorkloads": engine.queues.pending_local(key) or 0,
        "reservingWorkloads": 0,
        "admittedWorkloads": 0,
    }
    queue = engine.state.queues.get(spec.cluster_queue)
    if queue is not None:
        holding, running, sizes = reserved(queue, key), admitted(queue, key), engine.policy.sizes
        wanted |= {
            "flavorsReservation": flavors_json(holding, shared=False, sizes=sizes),
            "flavorsUsage": flavors_json(running, shared=False, sizes=sizes),
            "pendingWorkloads": wanted["pendingWorkloads"] + queue.running.assumed(key),
            "reservingWorkloads": holding.workloads,
            "admittedWorkloads": running.workloads,
        }
    if engine.usage_tracker.consumed_usage is not None:
        wanted |= _consumed(engine.usage_tracker.consumed_usage, obj, stored)
    # Without a ClusterQueue there are no flavors to use, so the stored usage is removed.
    conditions = local_queue_conditions(engine, obj, now, node_labels)
    return _changed(stored, wanted, conditions, _FLAVORS)


def local_queue_conditions(
    engine: Engine,
    obj: kueue.LocalQueue,
    now: float,
    node_labels: Collection[str] | None = None,
) -> Conditions:
    """Return the conditions of a LocalQueue, with Active from the engine."""
    conditions = Conditions(obj.status.conditions, now, obj.metadata.generation)
    spec = engine.state.local_queues.get(obj.key)
    if spec is not None:
        queue = engine.state.queues.get(spec.cluster_queue)
        obstacles = engine.state.local_obstacles(obj.key)
        added = caveat(engine.state, queue, node_labels)
        conditions.put("Active", *active_condition(obstacles, added))
    return conditions


def _consumed(usage: ConsumedUsage, obj: kueue.LocalQueue, stored: Json) -> Json:
    """What the queue had consumed when its usage was last sampled, to be restored after a restart.

    A sample that equals the stored one is not written, so that idle queues cause no writes.
    """
    sample = usage.sampled(obj.key)
    if sample is None:
        return {}
    published = obj.status.fair_sharing
    if published is not None and published.admission_fair_sharing_status is not None:
        known = published.admission_fair_sharing_status.consumed_resources or {}
        if sample.consumed == {name: parse(amount) for name, amount in known.items()}:
            return {"fairSharing": dict(stored.get("fairSharing") or {})}
    consumed = {name: canonical(nano) for name, nano in sample.consumed.items()}
    status = {"consumedResources": consumed, "lastUpdate": timestamp(sample.at)}
    return {"fairSharing": {"weightedShare": 0, "admissionFairSharingStatus": status}}


def cohort_patch(engine: Engine, name: str, stored: Json) -> Json:
    """Return the required status patch; empty without fair sharing."""
    node = engine.state.tree.cohorts.get(name)
    if node is None or engine.policy.fair_sharing is None:
        return {}
    return difference(_known(stored, ("fairSharing",)), {"fairSharing": _share(node)})


def wanted_finalizers(have: list[str], *, deleting: bool, in_use: bool) -> list[str] | None:
    """Return the finalizers that an object should have; None if it has them.

    The finalizer of an object that is being deleted is removed once nothing uses it.
    """
    if not deleting:
        return None if FINALIZER in have else [*have, FINALIZER]
    if FINALIZER not in have or in_use:
        return None
    return [each for each in have if each != FINALIZER]


def _share(node: QuotaNode) -> Json:
    return {"weightedShare": share(node).published}


def _changed(
    stored: Json, wanted: Json, conditions: Conditions, others: tuple[str, ...] = ()
) -> Json:
    """Return the status patch. Stored fields in `others` that are not wanted are removed.

    Missing counters count as zero, but a new queue gets all counters in one write.
    """
    patch = difference(_known(stored, (*wanted, *others)), wanted)
    return patch | {"conditions": conditions.json()} if conditions.changed else patch


def _known(stored: Json, fields: tuple[str, ...]) -> Json:
    return {name: stored[name] for name in fields if name in stored}
