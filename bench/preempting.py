# SPDX-License-Identifier: Apache-2.0
"""What a cycle costs that preempts workloads to free nodes, in full clusters of several sizes.

The load is that of Kueue's own benchmark: all nodes are full of workloads of different sizes and
priorities, and a workload of the highest priority asks for pods of half a node each, on one of
eight groups of nodes.
"""

from __future__ import annotations

from math import isqrt
from time import process_time

from kuota.api.base import Key, LabelSelector
from kuota.api.core import Container, PodSpec, PodTemplateSpec, ResourceRequirements
from kuota.api.topology_codec import HOSTNAME, AssignedDomain, compact
from kuota.api.workload import TopologyRequest
from kuota.engine.amounts import FlavorResource
from kuota.engine.decisions import Preempt
from kuota.engine.engine import Engine
from kuota.engine.facts import EngineObject, ObjectStored
from kuota.engine.model import (
    ClusterQueue,
    LocalQueue,
    Namespace,
    Node,
    PodSet,
    PodSetReservation,
    Preemption,
    Quota,
    Reservation,
    ResourceFlavor,
    ResourceGroup,
    Topology,
    Workload,
)

BLOCK = "block"
GROUP = "node-group"
_GIB = 1 << 30


def _amounts(resources: int, cpu: int, memory: int) -> dict[str, int]:
    others = {f"example.com/res-{each}": cpu for each in range(2, resources)}
    return {"cpu": cpu * 1000, "memory": memory * _GIB, **others}


def _nodes(count: int, resources: int) -> list[Node]:
    found, block, host = [], 0, 0
    for _ in range(count):
        host += 1
        if host == max(isqrt(count), 1):
            host, block = 0, block + 1
        name = f"node-{block}-{host}"
        labels = {BLOCK: f"b-{block}", HOSTNAME: name, GROUP: f"group-{block % 8 + 1}"}
        amounts = _amounts(resources, 10, 100) | {"pods": 110}
        found.append(Node(name=name, labels=labels, allocatable=amounts))
    return found


def _workload(
    name: str, pods: int, priority: int, resources: int, cpu: int, memory: int, group: str = ""
) -> Workload:
    amounts = _amounts(resources, cpu, memory)
    quantities: dict[str, str | int | float] = {
        each: f"{amount}m" if each == "cpu" else str(amount) for each, amount in amounts.items()
    }
    container = Container(name="c", resources=ResourceRequirements(requests=quantities))
    spec = PodSpec(containers=[container], node_selector={GROUP: group} if group else None)
    pod_set = PodSet(
        name="main",
        count=pods,
        pods=pods,
        requests={each: amount * pods for each, amount in amounts.items()},
        topology=TopologyRequest(unconstrained=True) if group else None,
        template=PodTemplateSpec(spec=spec),
    )
    return Workload(
        key=Key("ns", name), uid=name, queue="main", priority=priority, pod_sets=(pod_set,)
    )


def _running(nodes: list[Node], resources: int) -> list[Workload]:
    """Fill the nodes until the next workload does not fit."""
    free = [[10, 100] for _ in nodes]
    found: list[Workload] = []
    first = 0
    while True:
        number = len(found) + 1
        cpu, memory = number % 10 + 1, number % 100 + 1
        left = (number * 10) % isqrt(len(nodes)) + 1
        waits = _workload(f"wl-{number}", left, number, resources, cpu, memory)
        places: dict[str, int] = {}
        while first < len(free) and free[first][0] == 0:
            first += 1
        for index in range(first, len(nodes)):
            room = free[index]
            fits = min(left, room[0] // cpu, room[1] // memory)
            if fits:
                room[0], room[1], left = room[0] - fits * cpu, room[1] - fits * memory, left - fits
                places[nodes[index].name] = fits
            if not left:
                break
        if left:
            return found
        found.append(_admitted(waits, places))


def _admitted(waits: Workload, places: dict[str, int]) -> Workload:
    [pod_set] = waits.pod_sets
    domains = [AssignedDomain([name], count) for name, count in sorted(places.items())]
    given = PodSetReservation(
        name="main",
        flavors=dict.fromkeys(pod_set.requests, "flavor"),
        requests=pod_set.requests,
        count=pod_set.count,
        topology=compact((HOSTNAME,), domains),
    )
    usage = {FlavorResource("flavor", name): each for name, each in pod_set.requests.items()}
    held = Reservation(cluster_queue="main", pod_sets=(given,), usage=usage, since=0.0)
    fields = {name: getattr(waits, name) for name in waits.__struct_fields__}
    return Workload(**fields | {"reservation": held, "admitted": True})


def _queue(resources: int) -> ClusterQueue:
    names = tuple(_amounts(resources, 1, 1))
    quotas = {FlavorResource("flavor", name): Quota(1 << 60) for name in names}
    group = ResourceGroup(resources=names, flavors=("flavor",), quotas=quotas)
    return ClusterQueue(
        name="main",
        groups=(group,),
        namespace_selector=LabelSelector(),
        preemption=Preemption(within_cluster_queue="LowerPriority"),
    )


def full_cluster(nodes: int, pods: int, resources: int) -> Engine:
    """Return an engine with full nodes and a head that has to preempt."""
    made = _nodes(nodes, resources)
    running = _running(made, resources)
    values: list[EngineObject] = [
        Namespace(name="ns"),
        Topology(name="topology", levels=(BLOCK, HOSTNAME)),
        ResourceFlavor(name="flavor", topology="topology"),
        _queue(resources),
        LocalQueue(key=Key("ns", "main"), cluster_queue="main"),
        *made,
        *running,
        _workload("head", pods, len(running) + 1, resources, 5, 50, "group-1"),
    ]
    engine = Engine()
    for value in values:
        engine.apply(ObjectStored(value=value), 0.0)
    return engine


def bench_preempting() -> None:
    print("\nCPU ms of a cycle that preempts for pods of half a node, all nodes being full:")
    print(f"{'nodes':>8}{'pods':>7}{'resources':>11}{'running':>9}{'victims':>9}{'ms':>9}")
    for nodes, pods, resources in ((1000, 200, 30), (10_000, 1000, 4), (50_000, 4096, 4)):
        engine = full_cluster(nodes, pods, resources)
        running = len(engine.state.queues["main"].running)
        begun = process_time()
        [decision] = engine.cycle(1.0).decisions
        spent = (process_time() - begun) * 1000
        assert isinstance(decision, Preempt), decision
        victims = len(decision.victims)
        print(
            f"{nodes:>8}{pods:>7}{resources:>11}{running:>9}{victims:>9}{spent:>9.1f}", flush=True
        )
