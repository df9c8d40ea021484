# SPDX-License-Identifier: Apache-2.0
"""Small clusters, requests and a brute-force search, for tests of placements."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import product

from hypothesis import strategies as st

from kuota.api.gates import Gate, Gates
from kuota.api.topology_codec import HOSTNAME
from kuota.api.workload import SliceTopologyConstraint, TopologyRequest
from kuota.engine.model import Node
from kuota.engine.topology.assignment import LeafAssignment
from kuota.engine.topology.cluster import ClusterCapacity
from kuota.engine.topology.place import Outcome, Placer, PodsToPlace
from kuota.engine.topology.workload import place

FLAVOR = "flavor"
LEVELS = ("block", "rack", HOSTNAME)
ON = Gates().on


def node(block: str, rack: str, name: str, cpu: int = 1, **fields: object) -> Node:
    """Return a usable node with this many units of cpu and more pods than any test needs."""
    labels = {"block": block, "rack": rack, HOSTNAME: name}
    return Node(name=name, labels=labels, allocatable={"cpu": cpu, "pods": 50}, **fields)  # type: ignore[arg-type]


def cluster(nodes: Sequence[Node], levels: Sequence[str] = LEVELS) -> ClusterCapacity:
    made = ClusterCapacity()
    made.put_flavor(FLAVOR, "topology", levels, {})
    for each in nodes:
        made.put_node(each)
    return made


def placed(
    made: ClusterCapacity, *requests: PodsToPlace, on: frozenset[Gate] = frozenset()
) -> Outcome:
    placer = Placer(made.flavors[FLAVOR], lambda gate: gate in on or ON(gate))
    return place(placer, requests)


def counts(assignment: object) -> dict[str, int]:
    """Return the pods by leaf."""
    assert isinstance(assignment, LeafAssignment), assignment
    return {",".join(each.values): each.count for each in assignment.domains}


@st.composite
def clusters(draw: st.DrawFn, most: int = 6) -> list[Node]:
    """Up to `most` nodes with up to three units of cpu, in two blocks of two racks."""
    number = draw(st.integers(1, most))
    return [
        node(
            f"b{draw(st.integers(1, 2))}",
            f"r{draw(st.integers(1, 2))}",
            f"n{index}",
            draw(st.integers(0, 3)),
        )
        for index in range(number)
    ]


_LEVEL = st.sampled_from(LEVELS)


@st.composite
def topologies(draw: st.DrawFn) -> TopologyRequest:
    """A valid request: a mode, and no, one or two slice layers at or below its level."""
    mode = draw(st.sampled_from(("required", "preferred", "unconstrained", "slices")))
    level = draw(st.integers(0, 2)) if mode in ("required", "preferred") else 0
    layers: list[SliceTopologyConstraint] = []
    if mode != "unconstrained" and (mode == "slices" or draw(st.booleans())):
        at, size = draw(st.integers(level, 2)), draw(st.sampled_from((1, 2, 4)))
        layers.append(SliceTopologyConstraint(topology=LEVELS[at], size=size))
        if at < 2 and draw(st.booleans()):
            inner, part = draw(st.integers(at + 1, 2)), draw(st.sampled_from((1, 2, 4)))
            if size % part == 0:
                layers.append(SliceTopologyConstraint(topology=LEVELS[inner], size=part))
    return TopologyRequest(
        required=LEVELS[level] if mode == "required" else None,
        preferred=LEVELS[level] if mode == "preferred" else None,
        unconstrained=True if mode == "unconstrained" else None,
        podset_slice_required_topology_constraints=layers or None,
    )


def workers(count: int, topology: TopologyRequest, cpu: int = 1, group: str = "") -> PodsToPlace:
    return PodsToPlace(
        name="workers", count=count, requests={"cpu": cpu}, topology=topology, group=group
    )


def leader(cpu: int) -> PodsToPlace:
    return PodsToPlace(name="leader", count=1, requests={"cpu": cpu}, group="group")


def values(each: Node, level: int) -> tuple[str, ...]:
    """Return the domain of a level in which the node is."""
    return tuple(each.labels[key] for key in LEVELS[: level + 1])


def valid(nodes: Sequence[Node], asked: PodsToPlace, given: dict[str, int], host: str = "") -> bool:
    """Whether pods by node, and perhaps the leader's node, satisfy the level and all layers."""
    topology = asked.topology
    assert topology is not None
    used = [each for each in nodes if given.get(each.name) or each.name == host]
    if topology.required is not None:
        level = LEVELS.index(topology.required)
        if len({values(each, level) for each in used}) > 1:
            return False
    for layer in topology.podset_slice_required_topology_constraints or ():
        totals: dict[tuple[str, ...], int] = {}
        for each in used:
            domain = values(each, LEVELS.index(layer.topology))
            totals[domain] = totals.get(domain, 0) + given.get(each.name, 0)
        if any(total % layer.size for total in totals.values()):
            return False
    return True


def wanted(asked: PodsToPlace) -> int:
    """Return how many pods get a place: whole slices only."""
    assert asked.topology is not None
    layers = asked.topology.podset_slice_required_topology_constraints
    size = layers[0].size if layers else 1
    return asked.count - asked.count % size


def possible(nodes: Sequence[Node], asked: PodsToPlace, led: PodsToPlace | None) -> bool:
    """Whether any distribution of the pods is valid: brute force over all of them."""
    cpu = asked.requests["cpu"]
    hosts = (
        [each.name for each in nodes if each.allocatable["cpu"] >= led.requests["cpu"]]
        if led
        else [""]
    )
    for host in hosts:
        free = [
            each.allocatable["cpu"] - (led.requests["cpu"] if led and each.name == host else 0)
            for each in nodes
        ]
        for given in _distributions([amount // cpu for amount in free], wanted(asked)):
            by_node = {each.name: count for each, count in zip(nodes, given, strict=True)}
            if valid(nodes, asked, by_node, host):
                return True
    return False


def _distributions(rooms: list[int], count: int) -> Iterator[tuple[int, ...]]:
    for given in product(*(range(room + 1) for room in rooms)):
        if sum(given) == count:
            yield given
