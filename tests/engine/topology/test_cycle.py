# SPDX-License-Identifier: Apache-2.0
"""Cycles that need nodes as well as quota: placement, preemption, and heads that compete."""

from __future__ import annotations

from build import groups
from kuota.api.base import Key, LabelSelector
from kuota.api.core import Container, PodSpec, PodTemplateSpec, ResourceRequirements
from kuota.api.topology_codec import HOSTNAME, expand
from kuota.api.workload import TopologyAssignment, TopologyRequest
from kuota.bridge.messages import wait_text
from kuota.bridge.outbound import admission_json
from kuota.engine.decisions import Admit, Decision, Preempt, Wait
from kuota.engine.domains import Nodes
from kuota.engine.engine import Engine
from kuota.engine.facts import EngineObject, NodesListed, ObjectDeleted, ObjectStored
from kuota.engine.model import (
    ClusterQueue,
    LocalQueue,
    Namespace,
    Node,
    PodSet,
    Preemption,
    ResourceFlavor,
    Topology,
    Workload,
)
from kuota.engine.reasons import WaitReason

RACK = TopologyRequest(required="rack")
LEVELS = ("rack", HOSTNAME)


def _node(rack: str, name: str, cpu: int = 2) -> Node:
    return Node(
        name=name,
        labels={"rack": rack, HOSTNAME: name},
        allocatable={"cpu": cpu * 1000, "pods": 10},
    )


def _engine(*nodes: Node, quota: int = 100, made: Engine | None = None) -> Engine:
    engine = made or Engine()
    queues = [
        ClusterQueue(
            name=name,
            groups=groups({"flavor/cpu": quota * 1000}),
            namespace_selector=LabelSelector(),
            preemption=Preemption(within_cluster_queue="LowerPriority"),
        )
        for name in ("a", "b")
    ]
    values: tuple[EngineObject, ...] = (
        Namespace(name="ns"),
        Topology(name="topology", levels=LEVELS),
        ResourceFlavor(name="flavor", topology="topology"),
        *queues,
        *(LocalQueue(key=Key("ns", each.name), cluster_queue=each.name) for each in queues),
        *nodes,
    )
    for value in values:
        _store(engine, value)
    return engine


def _store(engine: Engine, value: EngineObject) -> None:
    engine.apply(ObjectStored(value=value), 0.0)


def _workload(
    name: str,
    pods: int,
    topology: TopologyRequest | None = RACK,
    *,
    queue: str = "a",
    priority: int = 0,
) -> Workload:
    requests = ResourceRequirements(requests={"cpu": "1"})
    spec = PodSpec(containers=[Container(name="c", resources=requests)])
    pod_set = PodSet(
        name="main",
        count=pods,
        pods=pods,
        requests={"cpu": 1000 * pods},
        topology=topology,
        template=PodTemplateSpec(spec=spec),
    )
    return Workload(
        key=Key("ns", name), uid=name, queue=queue, pod_sets=(pod_set,), priority=priority
    )


def _decisions(engine: Engine, now: float = 1.0) -> dict[str, Decision]:
    outcome = engine.cycle(now)
    assert not outcome.failures
    return {each.workload.key.name: each for each in outcome.decisions}


def _nodes(decision: Decision) -> dict[str, int]:
    """Return the pods by node of an admission, as its reservation records them."""
    assert isinstance(decision, Admit)
    topology = decision.reservation().pod_sets[0].topology
    assert isinstance(topology, TopologyAssignment)
    return {each.values[-1]: each.count for each in expand(topology)}


def test_a_workload_that_requires_a_rack_is_admitted_with_its_nodes() -> None:
    engine = _engine(_node("r1", "n1"), _node("r2", "n2"), _node("r2", "n3"))
    _store(engine, _workload("w", 4))
    assert {"n2": 2, "n3": 2} == _nodes(_decisions(engine)["w"])


def test_a_workload_without_a_request_is_placed_if_all_flavors_have_a_topology() -> None:
    engine = _engine(_node("r1", "n1"), _node("r2", "n2"))
    _store(engine, _workload("w", 3, None))
    assert {"n1": 2, "n2": 1} == _nodes(_decisions(engine)["w"])


def test_a_workload_that_no_rack_can_hold_waits_until_a_node_is_added() -> None:
    engine = _engine(_node("r1", "n1"), _node("r2", "n2"))
    _store(engine, _workload("w", 3))
    decision = _decisions(engine)["w"]
    assert isinstance(decision, Wait)
    assert WaitReason.TOPOLOGY_PLACEMENT_FAILED is decision.reason
    assert decision.assignment is not None
    [reason] = decision.assignment.pod_sets[0].reasons
    assert reason.detail.startswith('topology "topology" fits only 2 of 3 pods')
    assert {} == _decisions(engine, 2.0)
    _store(engine, _node("r2", "n3"))
    assert {"n2": 2, "n3": 1} == _nodes(_decisions(engine, 3.0)["w"])


def test_heads_of_one_cycle_do_not_share_a_node() -> None:
    engine = _engine(_node("r1", "n1"), _node("r2", "n2"))
    _store(engine, _workload("one", 2, queue="a"))
    _store(engine, _workload("two", 2, queue="b"))
    decisions = _decisions(engine)
    assert {"n1": 2} == _nodes(decisions["one"])
    assert {"n2": 2} == _nodes(decisions["two"])


def test_preemption_frees_a_rack_although_quota_is_available() -> None:
    engine = _engine(_node("r1", "n1"), _node("r1", "n2"), _node("r2", "n3"))
    _store(engine, _workload("low", 1, priority=0))
    assert {"n3": 1} == _nodes(_decisions(engine)["low"])
    _store(engine, _workload("mid", 1, priority=1))
    assert {"n3": 1} == _nodes(_decisions(engine, 2.0)["mid"])
    _store(engine, _workload("filler", 4, priority=2))
    assert {"n1": 2, "n2": 2} == _nodes(_decisions(engine, 3.0)["filler"])
    _store(engine, _workload("high", 1, priority=9))
    decision = _decisions(engine, 4.0)["high"]
    assert isinstance(decision, Preempt)
    assert ["low"] == [each.workload.key.name for each in decision.victims]
    engine.apply(ObjectDeleted(kind=Workload, key=Key("ns", "low")), 5.0)
    assert {"n3": 1} == _nodes(_decisions(engine, 6.0)["high"])


def test_nodes_are_free_again_when_all_work_is_gone() -> None:
    engine = _engine(_node("r1", "n1"), _node("r2", "n2"))
    for name in ("one", "two"):
        _store(engine, _workload(name, 2))
        _decisions(engine)
    for name in ("one", "two"):
        engine.apply(ObjectDeleted(kind=Workload, key=Key("ns", name)), 2.0)
    tree = engine.state.domains.cluster.flavors["flavor"].tree
    assert all(leaf.free == leaf.empty for leaf in tree.leaves.values())


def test_work_that_needs_nodes_waits_if_there_are_none() -> None:
    engine = _engine()
    _store(engine, _workload("w", 3))
    assert isinstance(_decisions(engine)["w"], Wait)


def test_work_waits_until_all_nodes_are_listed() -> None:
    engine = _engine(_node("r1", "n1"), made=Engine(nodes=Nodes.AWAITED))
    _store(engine, _workload("w", 2))
    waits = _decisions(engine)["w"]
    assert isinstance(waits, Wait)
    assert "the nodes of the cluster are not known yet" in wait_text(waits)
    engine.apply(NodesListed(), 1.0)
    assert isinstance(_decisions(engine)["w"], Admit)


def test_without_nodes_in_the_model_only_quota_counts() -> None:
    engine = _engine(made=Engine(nodes=Nodes.IGNORED))
    _store(engine, _workload("w", 3))
    decision = _decisions(engine)["w"]
    assert isinstance(decision, Admit)
    assert decision.reservation().pod_sets[0].topology is None


def test_the_admission_that_is_written_contains_the_nodes() -> None:
    engine = _engine(_node("r1", "n1"))
    _store(engine, _workload("w", 2))
    decision = _decisions(engine)["w"]
    assert isinstance(decision, Admit)
    [written] = admission_json("a", decision.assignment)["podSetAssignments"]
    levels = {"valuesPerLevel": [{"universal": "n1"}], "podCounts": {"universal": 2}}
    expected = {"levels": [HOSTNAME], "slices": [{"domainCount": 1, **levels}]}
    assert expected == written["topologyAssignment"]
