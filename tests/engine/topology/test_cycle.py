# SPDX-License-Identifier: Apache-2.0
"""Cycles that need nodes as well as quota: placement, preemption, and heads that compete."""

from __future__ import annotations

from msgspec.structs import replace

from engine.topology.cycles import decisions, make_engine, node, placed_nodes, store, workload
from kuota.api.base import Key
from kuota.api.topology_codec import HOSTNAME
from kuota.bridge.messages import wait_text
from kuota.bridge.outbound import admission_json
from kuota.engine.decisions import Admit, Preempt, Wait, WaitCause
from kuota.engine.domains import NodeKnowledge
from kuota.engine.facts import AdmissionFailed, NodesListed, ObjectDeleted, ObjectStored
from kuota.engine.model import Workload
from kuota.engine.reasons import WaitReason
from kuota.view.words import why_text


def test_a_workload_that_requires_a_rack_is_admitted_with_its_nodes() -> None:
    engine = make_engine(node("r1", "n1"), node("r2", "n2"), node("r2", "n3"))
    store(engine, workload("w", 4))
    assert {"n2": 2, "n3": 2} == placed_nodes(decisions(engine)["w"])


def test_a_workload_without_a_request_is_placed_if_all_flavors_have_a_topology() -> None:
    engine = make_engine(node("r1", "n1"), node("r2", "n2"))
    store(engine, workload("w", 3, None))
    assert {"n1": 2, "n2": 1} == placed_nodes(decisions(engine)["w"])


def test_a_workload_that_no_rack_can_hold_waits_until_a_node_is_added() -> None:
    engine = make_engine(node("r1", "n1"), node("r2", "n2"))
    store(engine, workload("w", 3))
    decision = decisions(engine)["w"]
    assert isinstance(decision, Wait)
    assert WaitReason.TOPOLOGY_PLACEMENT_FAILED is decision.reason
    assert decision.assignment is not None
    [reason] = decision.assignment.pod_sets[0].reasons
    assert reason.detail.startswith('topology "topology" fits only 2 of 3 pods')
    assert {} == decisions(engine, 2.0)
    store(engine, node("r2", "n3"))
    assert {"n2": 2, "n3": 1} == placed_nodes(decisions(engine, 3.0)["w"])


def test_a_workload_that_needs_a_full_rack_is_explained_although_quota_is_available() -> None:
    engine = make_engine(node("r1", "n1"))
    store(engine, workload("other", 1))
    assert {"n1": 1} == placed_nodes(decisions(engine)["other"])
    store(engine, workload("w", 2))
    assert isinstance(decisions(engine, 2.0)["w"], Wait)
    found = engine.explain(Key("ns", "w"), 3.0)
    assert found is not None
    assert WaitCause.NO_CANDIDATES is found.why
    assert 'fits only 1 of 2 pods in one domain of level "rack"' in why_text(found)


def test_heads_of_one_cycle_do_not_share_a_node() -> None:
    engine = make_engine(node("r1", "n1"), node("r2", "n2"))
    store(engine, workload("one", 2, queue="a"))
    store(engine, workload("two", 2, queue="b"))
    found = decisions(engine)
    assert {"n1": 2} == placed_nodes(found["one"])
    assert {"n2": 2} == placed_nodes(found["two"])


def test_a_later_head_of_another_tree_may_use_the_nodes_of_victims() -> None:
    """As for quota, victims of the cycle count as gone when later heads are checked."""
    engine = make_engine(node("r1", "n1", cpu=4), quota=2)
    store(engine, workload("victim", 2, queue="a"))
    assert {"n1": 2} == placed_nodes(decisions(engine)["victim"])
    store(engine, workload("high", 2, queue="a", priority=9))
    store(engine, workload("other", 2, queue="b"))
    found = decisions(engine, 2.0)
    assert isinstance(found["high"], Preempt)
    assert {"n1": 2} == placed_nodes(found["other"])


def test_nodes_stay_reserved_for_a_preemptor_when_a_head_arrives_in_another_tree() -> None:
    engine = make_engine(node("r1", "n1", cpu=4))
    store(engine, workload("victim", 2, queue="a"))
    decisions(engine)
    store(engine, workload("high", 4, queue="a", priority=9))
    for now in (2.0, 3.0, 4.0):
        decisions(engine, now)
    store(engine, workload("other", 2, queue="b"))
    assert isinstance(decisions(engine, 5.0)["other"], Wait)


def test_a_blocked_head_is_retried_when_a_reservation_of_nodes_in_another_tree_ends() -> None:
    engine = make_engine(node("r1", "n1", cpu=4), strategy="StrictFIFO")
    store(engine, workload("victim", 2, queue="a"))
    decisions(engine)
    store(engine, workload("high", 4, queue="a", priority=9))
    store(engine, workload("other", 2, queue="b"))
    for now in (2.0, 3.0, 4.0):
        assert not isinstance(decisions(engine, now).get("other"), Admit)
    engine.apply(ObjectDeleted(kind=Workload, key=Key("ns", "high")), 5.0)
    assert {"n1": 2} == placed_nodes(decisions(engine, 6.0)["other"])


def test_a_workload_of_another_tree_is_retried_when_its_nodes_are_free() -> None:
    engine = make_engine(node("r1", "n1"))
    held = workload("first", 2, queue="a")
    for change in (
        ObjectDeleted(kind=Workload, key=held.key),
        ObjectStored(value=replace(held, finished=True)),
        AdmissionFailed(key=held.key, retry_at=100.0),
    ):
        store(engine, held)
        assert isinstance(decisions(engine, 1.0)["first"], Admit)
        store(engine, workload("second", 2, queue="b"))
        assert isinstance(decisions(engine, 2.0)["second"], Wait)
        engine.apply(change, 3.0)
        assert {"n1": 2} == placed_nodes(decisions(engine, 3.0)["second"])
        for name in ("first", "second"):
            engine.apply(ObjectDeleted(kind=Workload, key=Key("ns", name)), 4.0)
        decisions(engine, 5.0)


def test_preemption_frees_a_rack_although_quota_is_available() -> None:
    engine = make_engine(node("r1", "n1"), node("r1", "n2"), node("r2", "n3"))
    store(engine, workload("low", 1, priority=0))
    assert {"n3": 1} == placed_nodes(decisions(engine)["low"])
    store(engine, workload("mid", 1, priority=1))
    assert {"n3": 1} == placed_nodes(decisions(engine, 2.0)["mid"])
    store(engine, workload("filler", 4, priority=2))
    assert {"n1": 2, "n2": 2} == placed_nodes(decisions(engine, 3.0)["filler"])
    store(engine, workload("high", 1, priority=9))
    decision = decisions(engine, 4.0)["high"]
    assert isinstance(decision, Preempt)
    assert ["low"] == [each.workload.key.name for each in decision.victims]
    engine.apply(ObjectDeleted(kind=Workload, key=Key("ns", "low")), 5.0)
    assert {"n3": 1} == placed_nodes(decisions(engine, 6.0)["high"])


def test_nodes_are_free_again_when_all_work_is_gone() -> None:
    engine = make_engine(node("r1", "n1"), node("r2", "n2"))
    for name in ("one", "two"):
        store(engine, workload(name, 2))
        decisions(engine)
    for name in ("one", "two"):
        engine.apply(ObjectDeleted(kind=Workload, key=Key("ns", name)), 2.0)
    tree = engine.state.domains.cluster.flavors["flavor"].tree
    assert all(leaf.free == leaf.empty for leaf in tree.leaves.values())


def test_work_that_needs_nodes_waits_if_there_are_none() -> None:
    engine = make_engine()
    store(engine, workload("w", 3))
    decision = decisions(engine)["w"]
    assert isinstance(decision, Wait)
    assert WaitReason.TOPOLOGY_PLACEMENT_FAILED is decision.reason


def test_work_waits_until_all_nodes_are_listed() -> None:
    engine = make_engine(node("r1", "n1"), nodes_known=NodeKnowledge.AWAITED)
    store(engine, workload("w", 2))
    waits = decisions(engine)["w"]
    assert isinstance(waits, Wait)
    assert "the nodes of the cluster are not known yet" in wait_text(waits)
    engine.apply(NodesListed(), 1.0)
    assert isinstance(decisions(engine)["w"], Admit)


def test_without_nodes_in_the_model_only_quota_counts() -> None:
    engine = make_engine(nodes_known=NodeKnowledge.IGNORED)
    store(engine, workload("w", 3))
    decision = decisions(engine)["w"]
    assert isinstance(decision, Admit)
    assert decision.reservation().pod_sets[0].topology is None


def test_the_admission_that_is_written_contains_the_nodes() -> None:
    engine = make_engine(node("r1", "n1"))
    store(engine, workload("w", 2))
    decision = decisions(engine)["w"]
    assert isinstance(decision, Admit)
    [written] = admission_json("a", decision.assignment)["podSetAssignments"]
    levels = {"valuesPerLevel": [{"universal": "n1"}], "podCounts": {"universal": 2}}
    expected = {"levels": [HOSTNAME], "slices": [{"domainCount": 1, **levels}]}
    assert expected == written["topologyAssignment"]
