# SPDX-License-Identifier: Apache-2.0
"""The status of ClusterQueues, LocalQueues and Cohorts: usage, conditions and merge patches."""

from __future__ import annotations

from kuota.api import kueue
from kuota.api.base import Json, Key
from kuota.api.defaults import FINALIZER
from kuota.api.merge_patch import difference
from kuota.api.quantity import UNLIMITED, canonical, parse, written
from kuota.engine.activity import Obstacle
from kuota.engine.amounts import FlavorResource
from kuota.engine.engine import Engine
from kuota.engine.fairness import share
from kuota.engine.ledger import Ledger
from kuota.engine.model import ClusterQueue, Struct
from kuota.engine.running import UsageTotal
from kuota.engine.snapshot import Queue
from kuota.engine.tree import Node

from .conditions import Conditions, timestamp


class Use(Struct):
    """The usage of one column of a queue, and how much of it exceeds nominal quota."""

    column: FlavorResource
    total: int
    borrowed: int = 0


class QueueUse(Struct):
    """The usage of a queue by workloads with quota, or only by admitted ones."""

    workloads: int = 0
    columns: tuple[Use, ...] = ()


def reserved(queue: Queue, local_queue: Key | None = None) -> QueueUse:
    """Return the usage of a ClusterQueue, or the part of one LocalQueue.

    A reservation counts once the API server has stored it. Until then its workload is pending.
    """
    return _use(queue, queue.running.total(local_queue), shared=local_queue is None)


def admitted(queue: Queue, local_queue: Key | None = None) -> QueueUse:
    """Return the same for admitted workloads only."""
    total = queue.running.total(local_queue, admitted=True)
    return _use(queue, total, shared=local_queue is None)


def _use(queue: Queue, totals: UsageTotal, *, shared: bool) -> QueueUse:
    """Return every declared column in spec order. Only a ClusterQueue in a cohort borrows."""
    borrows = shared and queue.node.parent is not None
    columns = []
    for group in queue.spec.groups:
        for column, quota in group.quotas.items():
            total = min(totals.amounts.get(column, 0), UNLIMITED)
            borrowed = max(0, total - quota.nominal) if borrows else 0
            columns.append(Use(column=column, total=total, borrowed=borrowed))
    return QueueUse(workloads=totals.count, columns=tuple(columns))


def flavors_json(use: QueueUse, *, shared: bool) -> list[Json]:
    """Return usage grouped by flavor. `shared` queues (ClusterQueues) include `borrowed`."""
    flavors: dict[str, list[Json]] = {}
    for each in use.columns:
        name = each.column.resource
        entry: Json = {"name": name, "total": written(each.total, name)}
        if shared:
            entry["borrowed"] = written(each.borrowed, name)
        flavors.setdefault(each.column.flavor, []).append(entry)
    return [{"name": flavor, "resources": resources} for flavor, resources in flavors.items()]


READY = "Can admit new workloads"
_NO_NAMESPACE = (
    ", but no namespace matches: spec.namespaceSelector of the ClusterQueue is not set; "
    "set it to {} to match every namespace"
)


def active_condition(
    obstacles: tuple[Obstacle, ...], spec: ClusterQueue | None = None
) -> tuple[bool, str, str]:
    """Status, reason and message of condition Active. The first obstacle gives the reason.

    A ClusterQueue without a namespaceSelector is active in Kueue although it admits nothing, so
    only the message reports it. `spec` is the ClusterQueue.
    """
    if not obstacles:
        unreachable = spec is not None and spec.namespace_selector is None
        return True, "Ready", READY + (_NO_NAMESPACE if unreachable else "")
    words = "; ".join(str(each) for each in obstacles)
    return False, obstacles[0].reason.value, f"Cannot admit new workloads: {words}"


_FLAVORS = ("flavorsReservation", "flavorsUsage")

Active = tuple[bool, str, str]
"""Status, reason and message of condition Active."""


def cluster_queue_patch(
    engine: Engine,
    obj: kueue.ClusterQueue,
    stored: Json,
    now: float,
    active: Active | None = None,
) -> Json:
    """Return the required status patch; empty if there is none.

    `active` overrides the condition that the engine determines.
    """
    name = obj.metadata.name
    queue = engine.state.queues.get(name)
    if queue is None:
        return {}
    holding, running = reserved(queue), admitted(queue)
    wanted: Json = {
        "flavorsReservation": flavors_json(holding, shared=True),
        "flavorsUsage": flavors_json(running, shared=True),
        "pendingWorkloads": engine.queues.pending(name) + queue.running.assumed(),
        "reservingWorkloads": holding.workloads,
        "admittedWorkloads": running.workloads,
    }
    if engine.policy.fair_sharing is not None:
        wanted["fairSharing"] = _share(queue.node)
    return _changed(stored, wanted, cluster_queue_conditions(engine, obj, now, active))


def cluster_queue_conditions(
    engine: Engine, obj: kueue.ClusterQueue, now: float, active: Active | None = None
) -> Conditions:
    """Return the conditions of a ClusterQueue, with Active from the engine or from `active`."""
    conditions = Conditions(obj.status.conditions, now, obj.metadata.generation)
    name = obj.metadata.name
    queue = engine.state.queues.get(name)
    if queue is not None:
        obstacles = engine.state.obstacles.get(name, ())
        found = active or active_condition(obstacles, queue.spec)
        conditions.put("Active", *found)
    return conditions


def local_queue_patch(engine: Engine, obj: kueue.LocalQueue, stored: Json, now: float) -> Json:
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
        holding, running = reserved(queue, key), admitted(queue, key)
        wanted |= {
            "flavorsReservation": flavors_json(holding, shared=False),
            "flavorsUsage": flavors_json(running, shared=False),
            "pendingWorkloads": wanted["pendingWorkloads"] + queue.running.assumed(key),
            "reservingWorkloads": holding.workloads,
            "admittedWorkloads": running.workloads,
        }
    if engine.history.ledger is not None:
        wanted |= _history(engine.history.ledger, obj, stored)
    # Without a ClusterQueue there are no flavors to use, so the stored usage is removed.
    return _changed(stored, wanted, local_queue_conditions(engine, obj, now), _FLAVORS)


def local_queue_conditions(engine: Engine, obj: kueue.LocalQueue, now: float) -> Conditions:
    """Return the conditions of a LocalQueue, with Active from the engine."""
    conditions = Conditions(obj.status.conditions, now, obj.metadata.generation)
    spec = engine.state.local_queues.get(obj.key)
    if spec is not None:
        queue = engine.state.queues.get(spec.cluster_queue)
        obstacles = engine.state.local_obstacles(obj.key)
        conditions.put("Active", *active_condition(obstacles, queue.spec if queue else None))
    return conditions


def _history(ledger: Ledger, obj: kueue.LocalQueue, stored: Json) -> Json:
    """What the queue had consumed when its usage was last sampled, to be restored after a restart.

    A sample that equals the stored one is not written, so that idle queues cause no writes.
    """
    sample = ledger.sampled(obj.key)
    if sample is None:
        return {}
    told = obj.status.fair_sharing
    if told is not None and told.admission_fair_sharing_status is not None:
        known = told.admission_fair_sharing_status.consumed_resources or {}
        if sample.consumed == {name: parse(amount) for name, amount in known.items()}:
            return {"fairSharing": dict(stored.get("fairSharing") or {})}
    consumed = {name: canonical(nano) for name, nano in sample.consumed.items()}
    history = {"consumedResources": consumed, "lastUpdate": timestamp(sample.at)}
    return {"fairSharing": {"weightedShare": 0, "admissionFairSharingStatus": history}}


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


def _share(node: Node) -> Json:
    return {"weightedShare": share(node).published}


def _changed(
    stored: Json, wanted: Json, conditions: Conditions, others: tuple[str, ...] = ()
) -> Json:
    """Counters that nobody wrote yet count as zero, but a new queue gets all of them at once.
    Of `others`, what is stored and not wanted goes.
    """
    patch = difference(_known(stored, (*wanted, *others)), wanted)
    return patch | {"conditions": conditions.json()} if conditions.changed else patch


def _known(stored: Json, fields: tuple[str, ...]) -> Json:
    return {name: stored[name] for name in fields if name in stored}
