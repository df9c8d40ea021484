# SPDX-License-Identifier: Apache-2.0
"""Invalid topologies, requests and nodes: a clear reason on the workload, and others continue."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from build import groups
from engine.topology.cycles import decisions, make_engine, node, placed_nodes, pod_set, store
from engine.topology.cycles import workload as make_workload
from kuota.api.base import Key, LabelSelector
from kuota.api.topology_codec import HOSTNAME
from kuota.api.workload import SliceTopologyConstraint, TopologyRequest
from kuota.bridge.messages import wait_text
from kuota.engine.decisions import Admit, Wait
from kuota.engine.engine import Engine
from kuota.engine.facts import ObjectDeleted
from kuota.engine.model import ClusterQueue, LocalQueue, Node, ResourceFlavor, Topology, Workload


def _reason(engine: Engine, name: str = "w") -> str:
    decision = decisions(engine)[name]
    assert isinstance(decision, Wait)
    return wait_text(decision)


@pytest.mark.parametrize(
    ("request_", "reason"),
    [
        (TopologyRequest(required="zone"), "zone"),
        (TopologyRequest(preferred="zone"), "zone"),
        (TopologyRequest(pod_set_slice_required_topology="zone", pod_set_slice_size=1), "zone"),
        (TopologyRequest(pod_set_slice_required_topology="rack"), "size is not positive"),
        (TopologyRequest(pod_set_slice_required_topology="rack", pod_set_slice_size=0), "size"),
        (TopologyRequest(pod_set_slice_size=2), "level"),
        (TopologyRequest(unconstrained=False), "level"),
        (
            TopologyRequest(
                required=HOSTNAME, pod_set_slice_required_topology="rack", pod_set_slice_size=1
            ),
            "rack",
        ),
    ],
)
def test_an_invalid_request_is_a_reason_to_wait(request_: TopologyRequest, reason: str) -> None:
    engine = make_engine(node("r1", "n1"))
    store(engine, make_workload("w", 1, request_))
    store(engine, make_workload("good", 1, queue="b"))
    found = decisions(engine)
    assert isinstance(found["good"], Admit)
    assert isinstance(found["w"], Wait)
    assert reason in wait_text(found["w"]), wait_text(found["w"])


@pytest.mark.parametrize("label", [("zone", "two words"), ("a/b/c", "x")])
def test_an_invalid_node_selector_is_a_reason_to_wait(label: tuple[str, str]) -> None:
    engine = make_engine(node("r1", "n1"))
    pods = pod_set(1)
    spec = replace(pods.template.spec, node_selector=dict([label]))
    pods = replace(pods, template=replace(pods.template, spec=spec))
    store(engine, replace(make_workload("w", 1), pod_sets=(pods,)))
    assert f"nodeSelector: {'key' if '/' in label[0] else 'value'}" in _reason(engine)


def test_pods_that_do_not_fill_a_slice_get_no_place() -> None:
    request = TopologyRequest(pod_set_slice_required_topology="rack", pod_set_slice_size=2)
    engine = make_engine(node("r1", "n1"), node("r2", "n2"))
    store(engine, make_workload("w", 3, request))
    assert 2 == sum(placed_nodes(decisions(engine)["w"]).values())


def test_nodes_without_a_level_are_not_used() -> None:
    bare = replace(node("r1", "bare"), labels={HOSTNAME: "bare"})
    engine = make_engine(bare)
    store(engine, make_workload("w", 1))
    assert "topology" in _reason(engine)
    store(engine, node("r1", "n1"), 2.0)
    assert {"n1": 1} == placed_nodes(decisions(engine, 3.0)["w"])


def test_two_flavors_with_topologies_for_one_pod_set_are_a_reason_to_wait() -> None:
    engine = make_engine(node("r1", "n1"))
    store(engine, ResourceFlavor(name="other", topology="topology"))
    quotas = groups({"flavor/cpu": 9000}) + groups({"other/memory": 9000})
    queue = ClusterQueue(name="two", groups=quotas, namespace_selector=LabelSelector())
    store(engine, queue)
    store(engine, LocalQueue(key=Key("ns", "two"), cluster_queue="two"))
    both = replace(pod_set(1), requests={"cpu": 1000, "memory": 1})
    store(engine, replace(make_workload("w", 1, queue="two"), pod_sets=(both,)))
    assert "different topologies" in _reason(engine)


def test_a_node_that_disappears_after_the_decision_is_not_used_again() -> None:
    engine = make_engine(node("r1", "n1"), node("r2", "n2"))
    store(engine, make_workload("w", 1))
    [gone] = placed_nodes(decisions(engine)["w"])
    engine.apply(ObjectDeleted(kind=Node, key=Key("", gone)), 2.0)
    store(engine, make_workload("next", 1), 2.0)
    assert {gone}.isdisjoint(placed_nodes(decisions(engine, 3.0)["next"]))


_LABEL = st.sampled_from(("rack", HOSTNAME, "zone", "", "block"))
_SIZE = st.one_of(st.none(), st.integers(-2, 5))
_LAYERS = st.lists(
    st.builds(SliceTopologyConstraint, topology=_LABEL, size=st.integers(-1, 4)), max_size=4
)
_REQUESTS = st.builds(
    TopologyRequest,
    required=st.one_of(st.none(), _LABEL),
    preferred=st.one_of(st.none(), _LABEL),
    unconstrained=st.one_of(st.none(), st.booleans()),
    pod_set_slice_required_topology=st.one_of(st.none(), _LABEL),
    pod_set_slice_size=_SIZE,
    podset_slice_required_topology_constraints=st.one_of(st.none(), _LAYERS),
)
_NODES = st.builds(
    Node,
    name=st.sampled_from(("x1", "x2", "x3")),
    labels=st.dictionaries(_LABEL, st.sampled_from(("", "v1", "v2")), max_size=4),
    allocatable=st.dictionaries(st.sampled_from(("cpu", "pods")), st.integers(-5, 5000)),
    ready=st.booleans(),
)


@settings(max_examples=150, deadline=None)
@given(
    st.lists(_LABEL, max_size=4),
    st.lists(_NODES, max_size=4),
    st.lists(
        st.tuples(_REQUESTS, st.integers(0, 4), st.sampled_from(("", "g"))), min_size=1, max_size=3
    ),
    st.booleans(),
)
def test_garbage_keeps_nobody_else_from_being_placed(
    levels: list[str],
    nodes: list[Node],
    asked: list[tuple[TopologyRequest, int, str]],
    missing: bool,
) -> None:
    engine = make_engine(node("r1", "n1"), node("r1", "n2"))
    if not missing:
        store(engine, Topology(name="bad", levels=tuple(levels)))
    store(engine, ResourceFlavor(name="bad", topology="bad"))
    queue = ClusterQueue(
        name="bad", groups=groups({"bad/cpu": 9000}), namespace_selector=LabelSelector()
    )
    store(engine, queue)
    store(engine, LocalQueue(key=Key("ns", "bad"), cluster_queue="bad"))
    for each in nodes:
        store(engine, each)
    pod_sets = tuple(
        replace(pod_set(count, request, f"p{index}"), group=group)
        for index, (request, count, group) in enumerate(asked)
    )
    bad = Workload(key=Key("ns", "bad"), uid="bad", queue="bad", pod_sets=pod_sets)
    store(engine, bad)
    store(engine, make_workload("good", 3))
    found = decisions(engine)
    assert {"n1": 2, "n2": 1} == placed_nodes(found["good"])
    if isinstance(found.get("bad"), Wait):
        assert wait_text(found["bad"])  # type: ignore[arg-type]
    for name in [each.name for each in nodes]:
        engine.apply(ObjectDeleted(kind=Node, key=Key("", name)), 2.0)
    decisions(engine, 3.0)
    engine.explain(bad.key, 3.0)
