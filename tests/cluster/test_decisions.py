# SPDX-License-Identifier: Apache-2.0
"""A server ends in the state that the engine decides by itself."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from cluster.stage import Stage, StageRunner
from control.objects import flavor, local_queue, queue
from kuota.api import kueue
from kuota.api.base import Json
from kuota.api.core import Namespace
from kuota.api.gates import Gates
from kuota.api.workload import Workload
from kuota.bridge import inbound
from kuota.bridge.inbound_workload import workload as inbound_workload
from kuota.bridge.settings import accounting, policy
from kuota.engine.decisions import Admit, Preempt
from kuota.engine.engine import Engine
from kuota.engine.facts import EngineObject, ObjectStored
from kuota.engine.quiescence import Quiescence
from kuota.kube.resources import (
    CLUSTER_QUEUES,
    LOCAL_QUEUES,
    NAMESPACES,
    RESOURCE_FLAVORS,
    WORKLOADS,
    Resource,
)

QUEUES = ("red", "green", "blue")
READERS: tuple[tuple[Resource, type[Any], Callable[[Any], EngineObject]], ...] = (
    (NAMESPACES, Namespace, inbound.namespace),
    (RESOURCE_FLAVORS, kueue.ResourceFlavor, inbound.flavor),
    (CLUSTER_QUEUES, kueue.ClusterQueue, inbound.cluster_queue),
    (LOCAL_QUEUES, kueue.LocalQueue, inbound.local_queue),
    (WORKLOADS, Workload, lambda obj: inbound_workload(obj, accounting(None, Gates()))),
)
EVICTED = "evicted"
Fate = tuple[str, str]
"""A Workload's name, and the flavor that it got or EVICTED."""


@pytest.mark.parametrize("seed", range(4))
def test_the_server_shows_what_the_engine_decides(on_stage: StageRunner, seed: int) -> None:
    async def scene(stage: Stage) -> None:
        chance = random.Random(seed)
        await stage.stop_system()
        await _queues(stage, chance)
        await _workloads(stage, chance, "w", 14)
        admitted = await _decided(stage)
        stage.start_system()
        await stage.shows(admitted, _shown, stage)
        await stage.stop_system()
        await _allow_preemption(stage, chance)
        await _workloads(stage, chance, "x", 6, priority=5)
        # Nobody here stops what is evicted, so that it keeps its quota, as the engine believes.
        expected = admitted | await _decided(stage)
        stage.start_system()
        await stage.shows(expected, _shown, stage)

    on_stage(scene)


async def _queues(stage: Stage, chance: random.Random) -> None:
    """Three queues of one cohort, with two flavors each."""
    await stage.apply(flavor("a"), flavor("b"))
    for name in QUEUES:
        flavors = {"a": chance.randint(1, 5), "b": chance.randint(0, 5)}
        await stage.apply(queue(name, flavors=flavors, cohortName="all"), local_queue(name, name))


async def _allow_preemption(stage: Stage, chance: random.Random) -> None:
    for name in QUEUES:
        preemption = {
            "withinClusterQueue": chance.choice(["Never", "LowerPriority"]),
            "reclaimWithinCohort": chance.choice(["Never", "LowerPriority", "Any"]),
        }
        await stage.edit(CLUSTER_QUEUES, name, {"spec": {"preemption": preemption}})


async def _workloads(
    stage: Stage, chance: random.Random, kind: str, count: int, priority: int = 0
) -> None:
    for number in range(count):
        requests = {"requests": {"cpu": str(chance.randint(1, 4))}}
        container = {"name": "c", "image": "i", "resources": requests}
        template = {"spec": {"containers": [container], "restartPolicy": "Never"}}
        pod_set = {"name": "main", "count": 1, "template": template}
        spec: Json = {"queueName": chance.choice(QUEUES), "podSets": [pod_set], "active": True}
        spec["priority"] = priority + chance.randint(0, 3)
        meta = {"name": f"{kind}{number}"}
        await stage.apply(
            {
                "apiVersion": WORKLOADS.api_version,
                "kind": "Workload",
                "metadata": meta,
                "spec": spec,
            }
        )


async def _decided(stage: Stage) -> set[Fate]:
    """What an engine that is told all that is stored decides, until it has no more to say."""
    now = time.time()
    engine, quiescence = Engine(policy(None, Gates())), Quiescence()
    for resource, shape, read in READERS:
        for obj in (await stage.client.list(resource)).items:
            engine.apply(ObjectStored(value=read(msgspec.convert(obj, shape))), now)
    fates: set[Fate] = set()
    while True:
        outcome = engine.cycle(now)
        for decision in outcome.decisions:
            if isinstance(decision, Admit):
                (chosen,) = decision.assignment.pinned
                fates.add((decision.workload.key.name, chosen["cpu"]))
            elif isinstance(decision, Preempt):
                fates |= {(each.workload.key.name, EVICTED) for each in decision.victims}
        if quiescence.after(outcome):
            return fates


def _shown(stage: Stage) -> set[Fate]:
    return {fate for each in stage.workloads() for fate in _fates(each)}


def _fates(obj: Json) -> list[Fate]:
    name, status = obj["metadata"]["name"], obj.get("status") or {}
    admission = status.get("admission")
    got = [(name, admission["podSetAssignments"][0]["flavors"]["cpu"])] if admission else []
    evicted = (status.get("schedulingStats") or {}).get("evictions")
    return [*got, (name, EVICTED)] if evicted else got
