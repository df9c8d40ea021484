# SPDX-License-Identifier: Apache-2.0
"""The shapes of Kueue's performance suite, as engine values: queues, and workloads over time."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from itertools import product

from msgspec.structs import replace

from kuota.api.base import Key, LabelSelector
from kuota.api.core import Container, PodSpec, PodTemplateSpec, ResourceRequirements
from kuota.api.topology_codec import HOSTNAME
from kuota.api.workload import TopologyRequest
from kuota.engine.amounts import FlavorResource
from kuota.engine.model import (
    ClusterQueue,
    Instant,
    LocalQueue,
    Namespace,
    Node,
    PodSet,
    Preemption,
    Quota,
    ResourceFlavor,
    ResourceGroup,
    Struct,
    Topology,
    Workload,
)
from kuota.sim.simulation import Simulation

CPU = FlavorResource("default", "cpu")
NAMESPACE = "bench"


class Kind(Struct):
    """Workloads alike: how many a queue gets, how often one comes, how long and large it is.

    `cpu` is the total of all pods.
    """

    name: str
    count: int
    every_ms: int
    runs_ms: int
    priority: int
    cpu: int
    pods: int = 1
    topology: TopologyRequest | None = None


class Shape(Struct):
    """Cohorts of equal queues, and what is submitted to each queue.

    With `racks`, pods are placed on as many racks of 64 nodes.
    """

    name: str
    cohorts: int
    queues: int
    kinds: tuple[Kind, ...]
    racks: int = 0

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

RACK = "cloud.provider.com/topology-rack"
LEVELS = ("cloud.provider.com/topology-block", RACK, HOSTNAME)
_REQUIRED = TopologyRequest(required=RACK)
_PREFERRED = TopologyRequest(preferred=RACK)


def _in_slices(size: int) -> TopologyRequest:
    return TopologyRequest(pod_set_slice_required_topology=RACK, pod_set_slice_size=size)


def _topology_kinds(kind: Kind, counts: tuple[int, int, int]) -> Iterator[Kind]:
    """The kind with each of the three constraints of Kueue's suite."""
    requests = (_REQUIRED, _PREFERRED, _in_slices(kind.pods // 2))
    names = ("required", "preferred", "balanced")
    for name, count, asked in zip(names, counts, requests, strict=True):
        yield replace(kind, name=f"{kind.name}-{name}", count=count, topology=asked)


TAS = Shape(
    name="tas",
    cohorts=5,
    queues=6,
    racks=10,
    kinds=(
        *_topology_kinds(replace(BASELINE.kinds[0], pods=2), (120, 120, 110)),
        *_topology_kinds(replace(BASELINE.kinds[1], pods=4), (34, 33, 33)),
        *_topology_kinds(replace(BASELINE.kinds[2], pods=8), (17, 17, 16)),
    ),
)

SHAPES = {shape.name: shape for shape in (BASELINE, LARGE, TAS)}


def more_workloads(shape: Shape, times: int) -> Shape:
    """The same queues with `times` as many workloads each, at the same pace."""
    return replace(
        shape, kinds=tuple(replace(each, count=each.count * times) for each in shape.kinds)
    )


def more_queues(shape: Shape, times: int) -> Shape:
    """`times` as many cohorts, with the same workloads in each queue."""
    return replace(shape, cohorts=shape.cohorts * times)


def furnish(world: Simulation, shape: Shape) -> None:
    """Tell the world of every queue: quota 20, borrowing up to 100, reclaim Any."""
    world.store(Namespace(name=NAMESPACE))
    world.store(ResourceFlavor(name=CPU.flavor, topology="topology" if shape.racks else ""))
    if shape.racks:
        world.store(Topology(name="topology", levels=LEVELS))
    for rack, host in product(range(shape.racks), range(64)):
        world.store(_node(rack, host))
    for cohort, queue in _names(shape):
        world.store(_cluster_queue(queue, cohort, 20))
        world.store(LocalQueue(key=Key(NAMESPACE, queue), cluster_queue=queue))


def _node(rack: int, host: int) -> Node:
    values = ("b0", f"r{rack}", f"node-b0-r{rack}-n{host}")
    return Node(
        name=values[-1],
        labels=dict(zip(LEVELS, values, strict=True)),
        allocatable={"cpu": 96_000, "memory": 256 << 30, "pods": 110},
    )


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
                # Kueue's runner waits before each creation: small work runs when large work comes.
                at = (i + 1) * kind.every_ms / 1000
                name = f"{kind.name}-{queue}-{i}"
                cpu, uid = kind.cpu * 1000, f"{number:09}"
                work = workload(name, queue, cpu, kind.priority, at, uid, kind.name)
                if kind.topology is not None:
                    work = replace(work, pod_sets=_placed_pods(kind))
                yield at, work, kind.runs_ms / 1000


@cache
def _placed_pods(kind: Kind) -> tuple[PodSet]:
    cpu = kind.cpu * 1000
    requests = ResourceRequirements(requests={"cpu": f"{cpu // kind.pods}m"})
    spec = PodSpec(containers=[Container(name="c", resources=requests)])
    pods = PodSet(
        name="main",
        count=kind.pods,
        pods=kind.pods,
        requests={CPU.resource: cpu},
        topology=kind.topology,
        template=PodTemplateSpec(spec=spec),
    )
    return (pods,)


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
