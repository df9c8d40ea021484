# SPDX-License-Identifier: Apache-2.0
"""Placed workloads that grow, shrink, or have pods that are done."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from engine.topology.cycles import decisions, make_engine, node, placed_nodes, store, workload
from kuota.api.gates import Gates
from kuota.api.topology_codec import HOSTNAME, AssignedDomain, compact
from kuota.api.workload import TopologyRequest
from kuota.bridge.messages import wait_text
from kuota.engine.decisions import Admit, Wait
from kuota.engine.engine import Engine
from kuota.engine.model import Node, PodSetReservation, Reservation, Workload
from kuota.engine.policy import Policy

ANYWHERE = TopologyRequest(unconstrained=True)
ELASTIC = Policy(
    gates=Gates.of(
        {"ElasticJobsViaWorkloadSlices": True, "ElasticJobsViaWorkloadSlicesWithTAS": True}
    )
)


def _running(name: str, places: dict[str, int], **fields: object) -> Workload:
    pods = sum(places.values())
    topology = compact((HOSTNAME,), [AssignedDomain([at], count) for at, count in places.items()])
    given = PodSetReservation(
        name="main",
        flavors={"cpu": "flavor"},
        requests={"cpu": 1000 * pods},
        count=pods,
        topology=topology,
    )
    held = Reservation(cluster_queue="a", pod_sets=(given,), usage={}, since=0.0)
    made = workload(name, pods, ANYWHERE, reservation=held, admitted=True)
    return replace(made, **fields)


def _resized(old: Workload, pods: int, request: TopologyRequest = ANYWHERE) -> Workload:
    return workload("new", pods, request, replaces=old.key, elastic=True)


def _elastic(*nodes: Node) -> Engine:
    return make_engine(*nodes, policy=ELASTIC)


def test_a_workload_that_grows_keeps_its_nodes_and_gets_more() -> None:
    engine = _elastic(node("r1", "n1"), node("r1", "n2"), node("r2", "n3", 3))
    old = _running("old", {"n3": 2}, elastic=True)
    store(engine, old)
    store(engine, _resized(old, 4))
    assert {"n1": 2, "n3": 2} == placed_nodes(decisions(engine)["new"])


def test_the_places_of_the_replaced_slice_are_not_counted_twice() -> None:
    engine = _elastic(node("r1", "n1", 3))
    old = _running("old", {"n1": 2}, elastic=True)
    store(engine, old)
    store(engine, _resized(old, 3))
    decision = decisions(engine)["new"]
    assert isinstance(decision, Admit)
    assert {"n1": 3} == placed_nodes(decision)


def test_a_workload_that_shrinks_gives_up_its_last_places() -> None:
    engine = _elastic(node("r1", "n1"), node("r1", "n2"))
    old = _running("old", {"n1": 2, "n2": 2}, elastic=True)
    store(engine, old)
    store(engine, _resized(old, 3))
    assert {"n1": 2, "n2": 1} == placed_nodes(decisions(engine)["new"])


def test_a_workload_whose_node_is_gone_is_placed_anew() -> None:
    engine = _elastic(node("r1", "n1"))
    old = _running("old", {"gone": 1}, elastic=True)
    store(engine, old)
    store(engine, _resized(old, 2))
    assert {"n1": 2} == placed_nodes(decisions(engine)["new"])


@pytest.mark.parametrize(
    ("mode", "request_"),
    [
        ("required", TopologyRequest(required="rack")),
        ("preferred", TopologyRequest(preferred="rack")),
    ],
)
def test_an_elastic_workload_must_not_require_or_prefer_a_level(
    mode: str, request_: TopologyRequest
) -> None:
    engine = _elastic(node("r1", "n1"))
    store(engine, workload("w", 1, request_, elastic=True))
    decision = decisions(engine)["w"]
    assert isinstance(decision, Wait)
    assert f"unconstrained topology requests, not {mode} ones" in wait_text(decision)


def test_pods_that_are_done_free_what_they_have_certainly_left() -> None:
    engine = make_engine(node("r1", "n1"), node("r1", "n2"))
    running = _running("w", {"n1": 2, "n2": 2})
    store(engine, running)
    assert running.reservation is not None
    [given] = running.reservation.pod_sets
    for left, free in ((3, 0), (1, 2), (0, 4)):
        shrunk = replace(given, count=left, requests={"cpu": 1000 * left})
        held = replace(running.reservation, pod_sets=(shrunk,))
        store(engine, replace(running, reservation=held))
        tree = engine.state.domains.cluster.flavors["flavor"].tree
        amounts = [tree.vectors.mapping(leaf.used) for leaf in tree.leaves.values()]
        used = sum(each.get("cpu", 0) for each in amounts)
        assert 4000 - 1000 * free == used
