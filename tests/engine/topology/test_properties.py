# SPDX-License-Identifier: Apache-2.0
"""Properties of placements on small clusters, compared with a search through all of them."""

from __future__ import annotations

from random import Random

from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from engine.topology.cycles import (
    decisions,
    make_engine,
    placed_nodes,
    pod_set,
    store,
    workload,
)
from engine.topology.places import (
    FLAVOR,
    LEVELS,
    ON,
    cluster,
    clusters,
    counts,
    leader,
    placed,
    possible,
    topologies,
    valid,
    wanted,
    workers,
)
from kuota.api.core import Container, PodSpec, PodTemplateSpec, ResourceRequirements
from kuota.api.gates import Gate
from kuota.api.workload import TopologyRequest
from kuota.engine.decisions import Admit
from kuota.engine.model import Node, Topology
from kuota.engine.topology.assignment import LeafAssignment
from kuota.engine.topology.place import Placer

GATES = st.frozensets(st.sampled_from((Gate.TASBalancedPlacement,)))


@settings(max_examples=400, deadline=None)
@given(clusters(), topologies(), st.integers(1, 8), st.integers(1, 2), GATES)
def test_pods_are_placed_if_and_only_if_a_valid_distribution_exists(
    nodes: list[Node], topology: TopologyRequest, count: int, cpu: int, on: frozenset[Gate]
) -> None:
    asked = workers(count, topology, cpu)
    made = cluster(nodes)
    found = placed(made, asked, on=on)["workers"]
    placer = Placer(made.flavors[FLAVOR], lambda gate: gate in on or ON(gate))
    assert placer.has_room(asked) == isinstance(found, LeafAssignment)
    if wanted(asked):
        assert possible(nodes, asked, None) == isinstance(found, LeafAssignment)
    if isinstance(found, LeafAssignment):
        given = counts(found)
        assert wanted(asked) == sum(given.values())
        assert valid(nodes, asked, given)
        _assert_room(nodes, {name: pods * cpu for name, pods in given.items()})


@settings(max_examples=400, deadline=None)
@given(clusters(5), topologies(), st.integers(1, 6), st.integers(1, 2), st.integers(0, 3), GATES)
def test_a_leader_and_its_workers_are_placed_if_and_only_if_both_fit_together(
    nodes: list[Node],
    topology: TopologyRequest,
    count: int,
    cpu: int,
    led: int,
    on: frozenset[Gate],
) -> None:
    asked, head = workers(count, topology, cpu, "group"), leader(led)
    outcome = placed(cluster(nodes), asked, head, on=on)
    found, host = outcome["workers"], outcome["leader"]
    assert isinstance(found, LeafAssignment) == isinstance(host, LeafAssignment)
    if wanted(asked):
        assert possible(nodes, asked, head) == isinstance(found, LeafAssignment)
    if isinstance(found, LeafAssignment):
        given, hosts = counts(found), counts(host)
        assert [1] == list(hosts.values())
        assert wanted(asked) == sum(given.values())
        assert valid(nodes, asked, given, next(iter(hosts)))
        names = {*given, *hosts}
        _assert_room(
            nodes, {name: given.get(name, 0) * cpu + hosts.get(name, 0) * led for name in names}
        )


def _assert_room(nodes: list[Node], used: dict[str, int]) -> None:
    rooms = {each.name: each.allocatable["cpu"] for each in nodes}
    assert all(amount <= rooms[name] for name, amount in used.items())


@settings(max_examples=100, deadline=None)
@given(clusters(), topologies(), st.integers(1, 8), st.randoms(use_true_random=False), GATES)
def test_the_order_of_nodes_does_not_change_the_placement(
    nodes: list[Node],
    topology: TopologyRequest,
    count: int,
    random: Random,
    on: frozenset[Gate],
) -> None:
    asked = workers(count, topology)
    before = placed(cluster(nodes), asked, on=on)
    shuffled = list(nodes)
    random.shuffle(shuffled)
    assert before == placed(cluster(shuffled), asked, on=on)


@settings(max_examples=100, deadline=None)
@given(clusters(), topologies(), topologies(), st.integers(1, 4), st.integers(1, 4))
def test_later_pod_sets_do_not_use_the_capacity_of_earlier_ones(
    nodes: list[Node], first: TopologyRequest, second: TopologyRequest, one: int, two: int
) -> None:
    a = workers(one, first)
    b = type(a)(name="more", count=two, requests={"cpu": 1}, topology=second)
    outcome = placed(cluster(nodes), a, b)
    used: dict[str, int] = {}
    for found in outcome.values():
        for name, pods in (counts(found) if isinstance(found, LeafAssignment) else {}).items():
            used[name] = used.get(name, 0) + pods
    _assert_room(nodes, used)


@settings(max_examples=150, deadline=None)
@given(clusters(), topologies(), st.integers(1, 8))
def test_the_cycle_admits_a_workload_if_and_only_if_its_pods_can_be_distributed(
    nodes: list[Node], topology: TopologyRequest, count: int
) -> None:
    asked = workers(count, topology)
    engine = make_engine()
    store(engine, Topology(name="topology", levels=LEVELS))
    for each in nodes:
        store(engine, each)
    requests = ResourceRequirements(requests={"cpu": "1m"})
    spec = PodSpec(containers=[Container(name="c", resources=requests)])
    pods = replace(pod_set(count, topology), template=PodTemplateSpec(spec=spec))
    store(engine, replace(workload("w", count), pod_sets=(pods,)))
    decision = decisions(engine)["w"]
    if wanted(asked):
        assert possible(nodes, asked, None) == isinstance(decision, Admit)
    if isinstance(decision, Admit):
        assert valid(nodes, asked, placed_nodes(decision))
