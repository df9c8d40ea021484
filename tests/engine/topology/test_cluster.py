# SPDX-License-Identifier: Apache-2.0
"""The state of a cluster follows events, and equals that of a cluster built anew."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from engine.topology.places import FLAVOR, LEVELS, cluster, counts, node, placed, workers
from kuota.api.base import Key
from kuota.api.core import PodSpec, PodTemplateSpec, Taint
from kuota.api.topology_codec import HOSTNAME, AssignedDomain
from kuota.api.workload import TopologyRequest
from kuota.engine.model import Node, PodUsage
from kuota.engine.topology import tree as topology_tree
from kuota.engine.topology.assignment import LeafAssignment
from kuota.engine.topology.cluster import ClusterCapacity
from kuota.engine.topology.place import Outcome, PodsToPlace
from kuota.engine.topology.tree import TopologyTree

NAMES = st.sampled_from([f"n{index}" for index in range(5)])
NODES = st.builds(
    Node,
    name=NAMES,
    labels=st.fixed_dictionaries(
        {"block": st.sampled_from("ab"), "rack": st.sampled_from("rs")},
        # Hostnames may be missing or shared by two nodes.
        optional={HOSTNAME: NAMES, "pool": st.sampled_from("xy")},
    ),
    taints=st.sampled_from(((), (Taint(key="k", effect="NoSchedule"),))),
    allocatable=st.fixed_dictionaries(
        {"cpu": st.integers(0, 4), "pods": st.integers(0, 3)}, optional={"gpu": st.integers(0, 2)}
    ),
    ready=st.booleans(),
    unschedulable=st.sampled_from((False, False, True)),
)
FLAVORS = {"hosts": (LEVELS, {}), "pool": (LEVELS, {"pool": "x"}), "racks": (LEVELS[:2], {})}
SELECTIVE = PodTemplateSpec(spec=PodSpec(node_selector={"pool": "x"}))
REQUESTS = [
    PodsToPlace(name="workers", count=2, requests={"cpu": 1}, topology=topology, template=template)
    for topology in (
        TopologyRequest(required="rack"),
        TopologyRequest(preferred="rack"),
        TopologyRequest(unconstrained=True),
    )
    for template in (PodTemplateSpec(), SELECTIVE)
]


class Events(RuleBasedStateMachine):
    """Applies events to one cluster, and to records from which a cluster is built anew."""

    def __init__(self) -> None:
        super().__init__()
        self.cluster = self._empty()
        self.nodes: dict[str, Node] = {}
        self.pods: dict[Key, PodUsage] = {}
        self.charges: list[tuple[str, LeafAssignment]] = []

    @staticmethod
    def _empty() -> ClusterCapacity:
        made = ClusterCapacity()
        for name, (levels, labels) in FLAVORS.items():
            made.put_flavor(name, "topology", levels, labels)
        return made

    @rule(value=NODES)
    def put_node(self, value: Node) -> None:
        self.nodes[value.name] = value
        self.cluster.put_node(value)

    @rule(name=NAMES)
    def drop_node(self, name: str) -> None:
        self.nodes.pop(name, None)
        self.cluster.drop_node(name)

    @rule(name=st.sampled_from("pq"), at=NAMES, cpu=st.integers(0, 2))
    def put_pod(self, name: str, at: str, cpu: int) -> None:
        pod = PodUsage(key=Key("ns", name), node=at, requests={"cpu": cpu})
        self.pods[pod.key] = pod
        self.cluster.put_pod(pod)

    @rule(name=st.sampled_from("pq"))
    def drop_pod(self, name: str) -> None:
        self.pods.pop(Key("ns", name), None)
        self.cluster.drop_pod(Key("ns", name))

    @rule(flavor=st.sampled_from(("hosts", "pool")), at=NAMES, count=st.integers(1, 2))
    def charge(self, flavor: str, at: str, count: int) -> None:
        usage = LeafAssignment(levels=(HOSTNAME,), domains=(AssignedDomain([at], count),))
        self.charges.append((flavor, usage))
        self.cluster.charge(flavor, usage, {"cpu": 1})

    @rule(block=st.sampled_from("ab"), rack=st.sampled_from("rs"))
    def charge_rack(self, block: str, rack: str) -> None:
        usage = LeafAssignment(levels=LEVELS[:2], domains=(AssignedDomain([block, rack], 1),))
        self.charges.append(("racks", usage))
        self.cluster.charge("racks", usage, {"cpu": 1})

    @rule()
    def discharge(self) -> None:
        if self.charges:
            self.cluster.charge(*self.charges.pop(), {"cpu": 1}, -1)

    @rule(name=st.sampled_from(sorted(FLAVORS)))
    def replace_flavor(self, name: str) -> None:
        levels, labels = FLAVORS[name]
        self.cluster.drop_flavor(name)
        self.cluster.put_flavor(name, "topology", levels, labels)

    @invariant()
    def the_state_equals_that_of_a_new_cluster(self) -> None:
        fresh = self._empty()
        for each in self.nodes.values():
            fresh.put_node(each)
        for pod in self.pods.values():
            fresh.put_pod(pod)
        for flavor, usage in self.charges:
            fresh.charge(flavor, usage, {"cpu": 1})
        for name in FLAVORS:
            expected, actual = fresh.flavors[name].tree, self.cluster.flavors[name].tree
            assert _dump(expected) == _dump(actual)
            assert _placements(fresh, name) == _placements(self.cluster, name)


def _dump(tree: TopologyTree) -> dict[tuple[str, ...], object]:
    vectors = tree.vectors
    return {
        leaf.values: (
            leaf.id,
            sorted(leaf.nodes),
            vectors.mapping(vectors.amounts[leaf.empty]),
            vectors.mapping(vectors.amounts[leaf.free]),
        )
        for leaf in tree.leaves.values()
    } | _sizes(tree.root)


def _sizes(domain: topology_tree.Domain) -> dict[tuple[str, ...], object]:
    """The number of children of each domain below this one."""
    found: dict[tuple[str, ...], object] = {}
    for child in domain.children:
        if child.children:
            found |= {child.values: len(child.children)} | _sizes(child)
    return found


def _placements(made: ClusterCapacity, flavor: str) -> list[Outcome]:
    other = ClusterCapacity()
    other.flavors = {FLAVOR: made.flavors[flavor]}
    return [placed(other, request) for request in REQUESTS]


TestEvents = Events.TestCase
TestEvents.settings = settings(max_examples=60, stateful_step_count=25, deadline=None)


@settings(max_examples=50, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 3), st.integers(1, 3)), max_size=8))
def test_usage_returns_to_zero_when_all_work_is_gone(usages: list[tuple[int, int]]) -> None:
    made = cluster([node("b", "r", f"n{index}", 9) for index in range(3)])
    tree = made.flavors[FLAVOR].tree
    before = _dump(tree)
    charges = [
        LeafAssignment(levels=(HOSTNAME,), domains=(AssignedDomain([f"n{index}"], count),))
        for index, count in usages
    ]
    for each in charges:
        made.charge(FLAVOR, each, {"cpu": 1, "gpu": 2})
    for each in reversed(charges):
        made.charge(FLAVOR, each, {"cpu": 1, "gpu": 2}, -1)
    assert before == _dump(tree)
    assert all(leaf.free == leaf.empty for leaf in tree.leaves.values())


def test_a_charge_for_a_node_that_is_gone_counts_when_the_node_returns() -> None:
    made = cluster([node("b", "r", "n1", 1)])
    made.drop_node("n1")
    usage = LeafAssignment(levels=(HOSTNAME,), domains=(AssignedDomain(["n1"], 1),))
    made.charge(FLAVOR, usage, {"cpu": 1})
    made.put_node(node("b", "r", "n1", 1))
    asked = workers(1, TopologyRequest(required="rack"))
    assert not isinstance(placed(made, asked)["workers"], LeafAssignment)
    made.charge(FLAVOR, usage, {"cpu": 1}, -1)
    assert {"n1": 1} == counts(placed(made, asked)["workers"])


def test_flavors_see_each_others_usage_of_a_node_unless_the_gate_is_off() -> None:
    asked = workers(1, TopologyRequest(unconstrained=True))
    for overlapping in (True, False):
        made = ClusterCapacity(overlapping=overlapping)
        made.put_flavor("other", "topology", LEVELS, {})
        made.put_flavor(FLAVOR, "topology", LEVELS, {})
        made.put_node(node("b", "r", "n1", 1))
        usage = LeafAssignment(levels=(HOSTNAME,), domains=(AssignedDomain(["n1"], 1),))
        made.charge("other", usage, {"cpu": 1})
        found = placed(made, asked)["workers"]
        assert overlapping != isinstance(found, LeafAssignment)


def test_a_heartbeat_changes_nothing() -> None:
    made = cluster([node("b", "r", "n1", 1)])
    time = made.flavors[FLAVOR].tree.time
    assert not made.put_node(node("b", "r", "n1", 1))
    assert time == made.flavors[FLAVOR].tree.time
