# SPDX-License-Identifier: Apache-2.0
"""What the status of a ClusterQueue, LocalQueue or Cohort should say, as a merge patch."""

from __future__ import annotations

from kuota.api import kueue
from kuota.api.base import Condition, Json
from kuota.engine.activity import Obstacle
from kuota.engine.engine import Engine
from kuota.engine.fairness import share
from kuota.engine.tree import Node
from kuota.engine.usage import admitted, reserved

from .conditions import Conditions
from .effects import difference
from .status import active_condition, flavors_json

FINALIZER = "kueue.x-k8s.io/resource-in-use"


def cluster_queue_patch(engine: Engine, obj: kueue.ClusterQueue, stored: Json, now: float) -> Json:
    """The change of status that is due; empty when there is none."""
    name = obj.metadata.name
    queue = engine.state.queues.get(name)
    if queue is None:
        return {}
    holding, running = reserved(queue), admitted(queue)
    wanted: Json = {
        "flavorsReservation": flavors_json(holding, shared=True),
        "flavorsUsage": flavors_json(running, shared=True),
        "pendingWorkloads": engine.queues.pending(name),
        "reservingWorkloads": holding.workloads,
        "admittedWorkloads": running.workloads,
    }
    if engine.policy.fair_sharing is not None:
        wanted["fairSharing"] = _share(queue.node)
    obstacles = engine.state.obstacles.get(name, ())
    conditions = _conditions(obj.status.conditions, obj.metadata.generation, obstacles, now)
    return _changed(stored, wanted, conditions)


def local_queue_patch(engine: Engine, obj: kueue.LocalQueue, stored: Json, now: float) -> Json:
    """The change of status that is due; empty when there is none."""
    key = obj.key
    spec = engine.state.local_queues.get(key)
    if spec is None:
        return {}
    wanted: Json = {"pendingWorkloads": engine.queues.pending_local(key) or 0}
    queue = engine.state.queues.get(spec.cluster_queue)
    if queue is not None:
        holding, running = reserved(queue, key), admitted(queue, key)
        wanted |= {
            "flavorsReservation": flavors_json(holding, shared=False),
            "flavorsUsage": flavors_json(running, shared=False),
            "reservingWorkloads": holding.workloads,
            "admittedWorkloads": running.workloads,
        }
    obstacles = engine.state.local_obstacles(key)
    conditions = _conditions(obj.status.conditions, obj.metadata.generation, obstacles, now)
    return _changed(stored, wanted, conditions)


def cohort_patch(engine: Engine, name: str, stored: Json) -> Json:
    """The change of status that is due; nothing without fair sharing."""
    node = engine.state.tree.cohorts.get(name)
    if node is None or engine.policy.fair_sharing is None:
        return {}
    return difference(_known(stored, ("fairSharing",)), {"fairSharing": _share(node)})


def held_finalizers(have: list[str], *, deleting: bool, in_use: bool) -> list[str] | None:
    """The finalizers that an object of quota should have; None when it has them.

    One that is being deleted is let go once nobody uses it any more.
    """
    if not deleting:
        return None if FINALIZER in have else [*have, FINALIZER]
    if FINALIZER not in have or in_use:
        return None
    return [each for each in have if each != FINALIZER]


def _share(node: Node) -> Json:
    return {"weightedShare": share(node).published}


def _conditions(
    current: list[Condition] | None, generation: int, obstacles: tuple[Obstacle, ...], now: float
) -> Conditions:
    conditions = Conditions(current, now, generation)
    conditions.put("Active", *active_condition(obstacles))
    return conditions


def _changed(stored: Json, wanted: Json, conditions: Conditions) -> Json:
    """Counters that nobody wrote yet count as zero, but a new queue gets all of them at once."""
    patch = difference(_known(stored, tuple(wanted)), wanted)
    return patch | {"conditions": conditions.json()} if conditions.changed else patch


def _known(stored: Json, fields: tuple[str, ...]) -> Json:
    return {name: stored[name] for name in fields if name in stored}
