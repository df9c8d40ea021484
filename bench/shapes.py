# SPDX-License-Identifier: Apache-2.0
"""The shapes of Kueue's performance suite, as engine values: queues, and workloads over time."""

from __future__ import annotations

from collections.abc import Iterator

from kuota.api.base import Key, LabelSelector
from kuota.engine.amounts import FlavorResource
from kuota.engine.model import (
    ClusterQueue,
    Instant,
    LocalQueue,
    Namespace,
    PodSet,
    Preemption,
    Quota,
    ResourceFlavor,
    ResourceGroup,
    Struct,
    Workload,
)
from kuota.sim.simulation import Simulation

CPU = FlavorResource("default", "cpu")
NAMESPACE = "bench"


class Kind(Struct):
    """Workloads alike: how many a queue gets, how often one comes, how long and large it is."""

    name: str
    count: int
    every_ms: int
    runs_ms: int
    priority: int
    cpu: int


class Shape(Struct):
    """Cohorts of equal queues, and what is submitted to each queue."""

    name: str
    cohorts: int
    queues: int
    kinds: tuple[Kind, ...]

    @property
    def workloads(self) -> int:
        return self.cohorts * self.queues * sum(kind.count for kind in self.kinds)


BASELINE = Shape(
    name="baseline",
    cohorts=5,
    queues=6,
    kinds=(
        Kind(name="small", count=350, every_ms=100, runs_ms=200, priority=50, cpu=1),
        Kind(name="medium", count=100, every_ms=500, runs_ms=500, priority=100, cpu=5),
        Kind(name="large", count=50, every_ms=1200, runs_ms=1000, priority=200, cpu=20),
    ),
)

LARGE = Shape(
    name="large-scale",
    cohorts=10,
    queues=100,
    kinds=(
        Kind(name="small", count=35, every_ms=60, runs_ms=150, priority=50, cpu=1),
        Kind(name="medium", count=11, every_ms=300, runs_ms=350, priority=100, cpu=5),
        Kind(name="large", count=4, every_ms=700, runs_ms=700, priority=200, cpu=20),
    ),
)

SHAPES = {shape.name: shape for shape in (BASELINE, LARGE)}


def more_workloads(shape: Shape, times: int) -> Shape:
    """The same queues with `times` as many workloads each, at the same pace."""
    kinds = tuple(
        Kind(**{f: getattr(k, f) for f in k.__struct_fields__} | {"count": k.count * times})
        for k in shape.kinds
    )
    return Shape(name=shape.name, cohorts=shape.cohorts, queues=shape.queues, kinds=kinds)


def more_queues(shape: Shape, times: int) -> Shape:
    """`times` as many cohorts, with the same workloads in each queue."""
    return Shape(
        name=shape.name, cohorts=shape.cohorts * times, queues=shape.queues, kinds=shape.kinds
    )


def furnish(world: Simulation, shape: Shape) -> None:
    """Tell the world of every queue: quota 20, borrowing up to 100, reclaim Any."""
    world.store(Namespace(name=NAMESPACE))
    world.store(ResourceFlavor(name=CPU.flavor))
    for cohort, queue in _names(shape):
        world.store(_cluster_queue(queue, cohort, 20))
        world.store(LocalQueue(key=Key(NAMESPACE, queue), cluster_queue=queue))


def _names(shape: Shape) -> Iterator[tuple[str, str]]:
    for i in range(shape.cohorts):
        for j in range(shape.queues):
            yield f"cohort-{i}", f"queue-{i}-{j}"


def _cluster_queue(name: str, cohort: str, cpu: int) -> ClusterQueue:
    quotas = {CPU: Quota(cpu * 1000, 100_000)}
    group = ResourceGroup(resources=(CPU.resource,), flavors=(CPU.flavor,), quotas=quotas)
    return ClusterQueue(
        name=name,
        cohort=cohort,
        groups=(group,),
        namespace_selector=LabelSelector(),
        preemption=Preemption(within_cluster_queue="LowerPriority", reclaim_within_cohort="Any"),
    )


def submissions(shape: Shape) -> Iterator[tuple[Instant, Workload, float]]:
    """When each workload comes, the workload, and how long it runs. In no order."""
    number = 0
    for _, queue in _names(shape):
        for kind in shape.kinds:
            for i in range(kind.count):
                number += 1
                at = i * kind.every_ms / 1000
                name = f"{kind.name}-{queue}-{i}"
                cpu = kind.cpu * 1000
                work = workload(name, queue, cpu, kind.priority, at, f"{number:09}", kind.name)
                yield at, work, kind.runs_ms / 1000


def workload(
    name: str,
    queue: str,
    cpu_milli: int,
    priority: int,
    at: Instant,
    uid: str,
    scheduling_hash: str,
) -> Workload:
    main = PodSet(name="main", count=1, pods=1, requests={CPU.resource: cpu_milli})
    return Workload(
        key=Key(NAMESPACE, name),
        uid=uid,
        queue=queue,
        priority=priority,
        created=at,
        scheduling_hash=scheduling_hash,
        pod_sets=(main,),
    )
