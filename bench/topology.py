# SPDX-License-Identifier: Apache-2.0
"""What single placements cost, and what an event on one node costs, in clusters of several sizes.

Racks have 32 nodes and blocks have 20 racks. Pods use half of a node.
"""

from __future__ import annotations

from collections.abc import Callable
from time import process_time

from kuota.api.gates import Gates
from kuota.api.topology_codec import HOSTNAME, AssignedDomain
from kuota.api.workload import TopologyRequest
from kuota.engine.model import Node
from kuota.engine.topology.assignment import LeafAssignment
from kuota.engine.topology.cluster import ClusterCapacity
from kuota.engine.topology.place import Placer, PodsToPlace
from kuota.engine.topology.workload import place

LEVELS = ("block", "rack", HOSTNAME)
RACKS_PER_BLOCK = 20
NODES_PER_RACK = 32
_ON = Gates().on


def node(index: int, resources: int) -> Node:
    rack = index // NODES_PER_RACK
    values = (f"b{rack // RACKS_PER_BLOCK:03}", f"r{rack:05}", f"n{index:06}")
    amounts = {f"example.com/r{each}": 8 for each in range(resources - 1)}
    return Node(
        name=values[-1],
        labels=dict(zip(LEVELS, values, strict=True)),
        allocatable={"cpu": 8000, "pods": 110, **amounts},
    )


def cluster(nodes: int, resources: int) -> ClusterCapacity:
    made = ClusterCapacity()
    made.put_flavor("f", "t", LEVELS, {})
    for index in range(nodes):
        made.put_node(node(index, resources))
    return made


def request(pods: int, resources: int, cpu: int, topology: TopologyRequest) -> PodsToPlace:
    amounts = {f"example.com/r{each}": cpu // 1000 for each in range(resources - 1)}
    return PodsToPlace(name="main", count=pods, requests={"cpu": cpu, **amounts}, topology=topology)


def found(made: ClusterCapacity, asked: PodsToPlace) -> LeafAssignment:
    outcome = place(Placer(made.flavors["f"], _ON), [asked])["main"]
    assert isinstance(outcome, LeafAssignment), outcome.message
    return outcome


def cpu_ms(action: Callable[[], object], times: int = 1) -> float:
    """Return the CPU time of the fastest of several runs."""
    spent = []
    for _ in range(times):
        begun = process_time()
        action()
        spent.append(process_time() - begun)
    return min(spent) * 1000


def fragment(made: ClusterCapacity, nodes: int) -> None:
    """Use another amount of memory on each node, so that no two have the same free capacity."""
    for index in range(nodes):
        usage = LeafAssignment(levels=(HOSTNAME,), domains=(AssignedDomain([f"n{index:06}"], 1),))
        made.charge("f", usage, {"memory": index + 1})


def _placement(made: ClusterCapacity, label: str, size: tuple[int, int, int], level: str) -> None:
    nodes, pods, resources = size
    topology = TopologyRequest(preferred=level) if level else TopologyRequest(unconstrained=True)
    asked = request(pods, resources, 4000, topology)
    other = found(made, request(pods, resources, 2000, topology))
    first = cpu_ms(lambda: found(made, asked))
    charge = cpu_ms(lambda: made.charge("f", other, asked.requests))
    after = cpu_ms(lambda: found(made, asked))
    again = cpu_ms(lambda: found(made, asked), 5)
    made.charge("f", other, asked.requests, -1)
    print(
        f"{nodes:>8}{pods:>7}{resources:>11}  {label:<24}"
        f"{first:>9.1f}{after:>9.1f}{again:>9.1f}{charge:>9.1f}",
        flush=True,
    )


def _placements(size: tuple[int, int, int]) -> None:
    made = cluster(size[0], size[2])
    for label, level in (("unconstrained", ""), ("rack preferred", "rack"), ("node", HOSTNAME)):
        _placement(made, label, size, level)
    fragment(made, size[0])
    _placement(made, "unconstrained, all differ", size, "")


def _event(nodes: int) -> float:
    """Return the CPU microseconds of one change of a node."""
    made = cluster(nodes, 30)
    found(made, request(1, 30, 1000, TopologyRequest(required="rack")))
    changed, plain = node(7, 29), node(7, 30)

    def events() -> None:
        for _ in range(100):
            made.put_node(changed)
            made.put_node(plain)

    return cpu_ms(events, 5) / 200 * 1000


def bench_topology() -> None:
    print("\nCPU ms of one placement: the first one of its kind, one after another workload was")
    print("counted, and one without a change; and of counting the usage of that workload:")
    print(
        f"{'nodes':>8}{'pods':>7}{'resources':>11}  {'request':<24}"
        f"{'first':>9}{'after':>9}{'again':>9}{'charge':>9}"
    )
    for size in ((640, 16, 2), (1000, 200, 30), (10_000, 1000, 4), (50_000, 4096, 4)):
        _placements(size)
    events = "".join(f"{_event(nodes):>9.1f}" for nodes in (500, 50_000))
    print(f"CPU us of an event on one node of 500 and of 50,000: {events}")
