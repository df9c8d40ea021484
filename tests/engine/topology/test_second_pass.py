# SPDX-License-Identifier: Apache-2.0
"""Second passes: delayed placement, and the replacement of failed nodes."""

from __future__ import annotations

from msgspec.structs import replace

from engine.topology.cycles import decisions, make_engine, node, placed_nodes, store, workload
from kuota.api.base import Key
from kuota.api.gates import Gates
from kuota.api.kueue import MULTIKUEUE, PROVISIONING
from kuota.api.topology_codec import HOSTNAME, AssignedDomain, compact
from kuota.api.workload import PodSetUpdate, TopologyRequest
from kuota.engine.decisions import Admit, Decision, Evict, Wait
from kuota.engine.domains import NodeKnowledge
from kuota.engine.engine import Engine
from kuota.engine.facts import AdmissionFailed, EvictionFailed, NodesListed, ObjectDeleted
from kuota.engine.model import (
    AdmissionCheck,
    CheckRule,
    Eviction,
    Node,
    PodSetReservation,
    Reservation,
    Workload,
)
from kuota.engine.policy import Policy
from kuota.engine.reasons import EvictionReason

ANYWHERE = TopologyRequest(unconstrained=True)
CHECKS = (CheckRule(name="check"),)
KEY = Key("ns", "w")


def _checked(*nodes: Node, controller: str = PROVISIONING) -> Engine:
    """Return an engine whose queues have an admission check."""
    engine = make_engine(*nodes, checks=CHECKS)
    store(engine, AdmissionCheck(name="check", controller=controller, active=True))
    return engine


def _stored(decision: Decision, **fields: object) -> Workload:
    """Return the workload as the API server stores it after an admission."""
    assert isinstance(decision, Admit)
    held = decision.reservation(since=1.0)
    return replace(
        decision.workload,
        reservation=held,
        admitted=decision.admitted,
        unhealthy_nodes=(),
        **fields,
    )


def _running(engine: Engine, *nodes: str, pods: int = 2) -> Workload:
    """Admit a workload, which uses exactly these nodes."""
    store(engine, workload("w", pods, ANYWHERE))
    decision = decisions(engine)["w"]
    assert set(nodes) == set(placed_nodes(decision))
    running = _stored(decision)
    store(engine, running, 2.0)
    return running


def test_placement_waits_for_the_nodes_that_a_check_provides() -> None:
    engine = _checked()
    store(engine, workload("w", 2))
    decision = decisions(engine)["w"]
    assert isinstance(decision, Admit)
    assert not decision.admitted
    [given] = decision.reservation().pod_sets
    assert (None, "Pending") == (given.topology, given.delayed_topology)

    reserved = _stored(decision, checks={"check": "Pending"})
    store(engine, reserved, 2.0)
    assert engine.next_wakeup() is None
    store(engine, node("r1", "n1"), 3.0)
    store(engine, replace(reserved, checks={"check": "Ready"}), 3.0)
    assert {} == decisions(engine, 3.5)
    assert 4.0 == engine.next_wakeup()

    placed = decisions(engine, 4.0)["w"]
    assert isinstance(placed, Admit)
    assert placed.second_pass
    assert placed.admitted
    assert {"n1": 2} == placed_nodes(placed)
    assert "Ready" == placed.reservation().pod_sets[0].delayed_topology
    assert engine.next_wakeup() is None


def test_a_worker_cluster_places_the_pods_of_multikueue() -> None:
    engine = _checked(node("r1", "n1"), controller=MULTIKUEUE)
    store(engine, workload("w", 2))
    [given] = _stored(decisions(engine)["w"]).reservation.pod_sets  # type: ignore[union-attr]
    assert (None, "Pending") == (given.topology, given.delayed_topology)


def test_a_check_of_another_flavor_does_not_delay_placement() -> None:
    rule = CheckRule(name="check", flavors=frozenset({"other"}))
    engine = make_engine(node("r1", "n1"), checks=(rule,))
    store(engine, AdmissionCheck(name="check", controller=PROVISIONING, active=True))
    store(engine, workload("w", 2))
    assert {"n1": 2} == placed_nodes(decisions(engine)["w"])


def test_a_second_pass_uses_only_nodes_that_the_check_selects() -> None:
    engine = _checked()
    store(engine, workload("w", 1))
    decision = decisions(engine)["w"]
    for name in ("n1", "n2"):
        store(engine, node("r1", name), 2.0)
    update = PodSetUpdate(name="main", node_selector={HOSTNAME: "n2"})
    ready = _stored(decision, checks={"check": "Ready"}, pod_set_updates={"main": (update,)})
    store(engine, ready, 2.0)
    assert {"n2": 1} == placed_nodes(decisions(engine, 3.0)["w"])


def test_failed_second_passes_are_retried_after_longer_delays() -> None:
    engine = _checked()
    store(engine, workload("w", 1))
    store(engine, _stored(decisions(engine)["w"], checks={"check": "Ready"}), 2.0)
    delays, now = [], 2.0
    for _ in range(7):
        due = engine.next_wakeup()
        assert due is not None
        delays.append(due - now)
        now = due
        assert isinstance(decisions(engine, now)["w"], Wait)
    assert [1, 2, 4, 8, 16, 30, 30] == delays


def test_a_failed_node_is_replaced_and_the_other_pods_stay() -> None:
    engine = make_engine(node("r1", "n1", 1), node("r1", "n2", 1), node("r2", "n3", 1))
    running = _running(engine, "n1", "n2")
    engine.apply(ObjectDeleted(kind=Node, key=Key("", "n1")), 3.0)
    store(engine, replace(running, unhealthy_nodes=("n1",)), 3.0)
    decision = decisions(engine, 4.0)["w"]
    assert isinstance(decision, Admit)
    assert decision.second_pass
    assert {"n2": 1, "n3": 1} == placed_nodes(decision)
    store(engine, workload("next", 1, ANYWHERE), 4.0)
    assert isinstance(decisions(engine, 5.0)["next"], Wait)


def test_a_workload_without_a_replacement_is_evicted() -> None:
    engine = make_engine(node("r1", "n1", 1), node("r1", "n2", 1))
    running = _running(engine, "n1", "n2")
    store(engine, replace(running, unhealthy_nodes=("n1",)), 3.0)
    store(engine, node("r1", "n1", 1, ready=False), 3.0)
    decision = decisions(engine, 4.0)["w"]
    assert isinstance(decision, Evict)
    assert EvictionReason.NODE_FAILURES is decision.reason
    assert engine.next_wakeup() is None
    engine.apply(EvictionFailed(key=KEY), 5.0)
    assert engine.next_wakeup() is not None
    gone = replace(running, evicted=Eviction(reason="NodeFailures", at=6.0))
    store(engine, gone, 6.0)
    assert engine.next_wakeup() is None


def test_a_failed_node_is_not_replaced_before_all_nodes_are_listed() -> None:
    engine = make_engine(node("r1", "n1"), nodes_known=NodeKnowledge.AWAITED)
    place = compact((HOSTNAME,), [AssignedDomain(["n1"], 2)])
    held = PodSetReservation(
        name="main", flavors={"cpu": "flavor"}, requests={}, count=2, topology=place
    )
    reservation = Reservation(cluster_queue="a", pod_sets=(held,), usage={})
    running = workload("w", 2, ANYWHERE, reservation=reservation, admitted=True)
    store(engine, replace(running, unhealthy_nodes=("n1",)))
    assert isinstance(decisions(engine, 1.0)["w"], Wait)
    engine.apply(NodesListed(), 2.0)
    store(engine, node("r1", "n2"), 2.0)
    store(engine, node("r1", "n1", ready=False), 2.0)
    assert {"n2": 2} == placed_nodes(decisions(engine, 3.0)["w"])


def test_without_fail_fast_a_replacement_is_retried_and_never_preempts() -> None:
    gates = Gates.of({"TASFailedNodeReplacementFailFast": False})
    engine = make_engine(
        node("r1", "n1", 1), node("r1", "n2", 1), node("r1", "n3", 1), policy=Policy(gates=gates)
    )
    running = _running(engine, "n1", "n2")
    store(engine, workload("low", 1, ANYWHERE, priority=-1), 2.0)
    assert {"n3": 1} == placed_nodes(decisions(engine, 2.0)["low"])
    engine.apply(ObjectDeleted(kind=Node, key=Key("", "n1")), 3.0)
    store(engine, replace(running, unhealthy_nodes=("n1",)), 3.0)
    assert isinstance(decisions(engine, 4.0)["w"], Wait)
    engine.apply(ObjectDeleted(kind=Workload, key=Key("ns", "low")), 5.0)
    assert {"n2": 1, "n3": 1} == placed_nodes(decisions(engine, 6.0)["w"])


def test_a_workload_of_one_pod_keeps_its_place() -> None:
    engine = make_engine(node("r1", "n1"), node("r1", "n2"))
    store(engine, workload("w", 1, owned_by_pod=True))
    running = _stored(decisions(engine)["w"])
    store(engine, replace(running, unhealthy_nodes=("n1",)), 3.0)
    assert {"n1": 1} == placed_nodes(decisions(engine, 4.0)["w"])


def test_a_replacement_that_cannot_be_written_is_searched_again() -> None:
    engine = make_engine(node("r1", "n1", 1), node("r1", "n2", 1), node("r2", "n3", 1))
    running = _running(engine, "n1", "n2")
    engine.apply(ObjectDeleted(kind=Node, key=Key("", "n1")), 3.0)
    store(engine, replace(running, unhealthy_nodes=("n1",)), 3.0)
    decisions(engine, 4.0)
    engine.apply(AdmissionFailed(key=KEY), 5.0)
    store(engine, workload("next", 1, ANYWHERE), 5.0)
    assert {"n3": 1} == placed_nodes(decisions(engine, 5.0)["next"])
    assert isinstance(decisions(engine, 6.0)["w"], Evict)


def test_an_update_from_before_a_replacement_was_written_does_not_repeat_it() -> None:
    engine = make_engine(node("r1", "n1", 1), node("r1", "n2", 1), node("r2", "n3", 1))
    failed = replace(_running(engine, "n1", "n2"), unhealthy_nodes=("n1",))
    engine.apply(ObjectDeleted(kind=Node, key=Key("", "n1")), 3.0)
    store(engine, failed, 3.0)
    placed = decisions(engine, 4.0)["w"]
    store(engine, replace(failed, generation=7), 4.5)
    assert engine.next_wakeup() is None
    store(engine, workload("next", 1, ANYWHERE), 4.5)
    assert isinstance(decisions(engine, 5.0)["next"], Wait)
    store(engine, _stored(placed), 6.0)
    assert engine.next_wakeup() is None


def test_usage_returns_to_zero_after_a_replacement() -> None:
    engine = make_engine(node("r1", "n1", 1), node("r1", "n2", 1), node("r2", "n3", 1))
    running = _running(engine, "n1", "n2")
    store(engine, replace(running, unhealthy_nodes=("n1",)), 3.0)
    store(engine, node("r1", "n1", 1, ready=False), 3.0)
    store(engine, _stored(decisions(engine, 4.0)["w"]), 5.0)
    store(engine, node("r1", "n1", 1), 6.0)
    engine.apply(ObjectDeleted(kind=Workload, key=KEY), 7.0)
    leaves = engine.state.domains.cluster.flavors["flavor"].tree.leaves
    assert all(leaf.free == leaf.empty for leaf in leaves.values())
