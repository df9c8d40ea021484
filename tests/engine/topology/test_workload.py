# SPDX-License-Identifier: Apache-2.0
"""Constraints on nodes, replacement of failed nodes, growing workloads, and rejections."""

from __future__ import annotations

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from engine.topology.places import (
    FLAVOR,
    LEVELS,
    ON,
    cluster,
    clusters,
    counts,
    node,
    placed,
    topologies,
    valid,
    values,
    wanted,
    workers,
)
from kuota.api.core import (
    Affinity,
    NodeAffinity,
    NodeSelector,
    NodeSelectorRequirement,
    NodeSelectorTerm,
    PodSpec,
    PodTemplateSpec,
    Taint,
    Toleration,
)
from kuota.api.gates import Gate
from kuota.api.topology_codec import HOSTNAME
from kuota.api.workload import PodSetUpdate, SliceTopologyConstraint, TopologyRequest
from kuota.engine.model import Node
from kuota.engine.topology.assignment import LeafAssignment
from kuota.engine.topology.place import Placer
from kuota.engine.topology.placement_failure import PlacementFailure, PlacementFailureCause
from kuota.engine.topology.workload import replace_node

ELASTIC = frozenset({Gate.ElasticJobsViaWorkloadSlicesWithTAS})
UNCONSTRAINED = TopologyRequest(unconstrained=True)
TAINTED = (Taint(key="gpu", value="yes", effect="NoSchedule"),)


def _affinity(operator: str, *values: str) -> Affinity:
    requirement = NodeSelectorRequirement(key="block", operator=operator, values=list(values))
    term = NodeSelectorTerm(match_expressions=[requirement])
    required = NodeSelector(node_selector_terms=[term])
    return Affinity(
        node_affinity=NodeAffinity(required_during_scheduling_ignored_during_execution=required)
    )


@settings(max_examples=150, deadline=None)
@given(clusters(), topologies(), st.integers(1, 8), st.data())
def test_a_replacement_keeps_all_other_places_and_satisfies_the_request(
    nodes: list[Node], topology: TopologyRequest, count: int, data: st.DataObject
) -> None:
    asked = workers(count, topology)
    before = placed(cluster(nodes), asked)["workers"]
    assume(isinstance(before, LeafAssignment) and bool(before.domains))
    assert isinstance(before, LeafAssignment)
    failed = data.draw(st.sampled_from(sorted(counts(before))))
    spare = replace(node("b1", "r1", "spare", 3), labels=_labels_near(nodes, failed))
    left = [*(each for each in nodes if each.name != failed), spare]
    made = cluster(left)
    stays = {name: pods for name, pods in counts(before).items() if name != failed}
    kept = LeafAssignment(
        levels=before.levels,
        domains=tuple(each for each in before.domains if each.values != [failed]),
    )
    made.charge(FLAVOR, kept, asked.requests)
    placer = Placer(made.flavors[FLAVOR], ON)
    after = replace_node(placer, [asked], {"workers": before}, failed)["workers"]
    assume(isinstance(after, LeafAssignment))
    given = counts(after)
    assert wanted(asked) == sum(given.values())
    assert all(given.get(name, 0) >= pods for name, pods in stays.items())
    assert valid(left, asked, given)
    rooms = {each.name: each.allocatable["cpu"] for each in left}
    assert all(pods <= rooms[name] for name, pods in given.items())


def _labels_near(nodes: list[Node], name: str) -> dict[str, str]:
    """Return the labels of a spare node in the rack of a node."""
    block, rack, _ = values(next(each for each in nodes if each.name == name), 2)
    return {"block": block, "rack": rack, HOSTNAME: "spare"}


def test_a_failed_node_is_not_replaced_if_another_node_of_the_assignment_is_gone() -> None:
    made = cluster([node("b", "r", "n1", 2), node("b", "r", "n2", 2), node("b", "r", "n3", 2)])
    asked = workers(6, TopologyRequest(required="rack"))
    before = placed(made, asked)["workers"]
    assert isinstance(before, LeafAssignment)
    made.drop_node("n1")
    made.drop_node("n2")
    placer = Placer(made.flavors[FLAVOR], ON)
    found = replace_node(placer, [asked], {"workers": before}, "n1")["workers"]
    assert isinstance(found, PlacementFailure)
    assert PlacementFailureCause.STALE_DOMAIN is found.cause
    assert 'domain "n2"' in found.message
    fixed = replace_node(placer, [asked], {"workers": before}, "n1", movable=False)
    assert {"workers": before} == fixed


def test_a_failed_node_is_replaced_although_the_size_of_an_inner_layer_is_invalid() -> None:
    made = cluster([node("b", "r", "n1"), node("b", "r", "n2")])
    valid_layers, invalid_layers = _layers(("rack", 2)), _layers(("rack", 2), (HOSTNAME, 0))
    asked = TopologyRequest(
        preferred="block", podset_slice_required_topology_constraints=valid_layers
    )
    before = placed(made, workers(2, asked))["workers"]
    assert isinstance(before, LeafAssignment)
    made.drop_node("n1")
    edited = replace(asked, podset_slice_required_topology_constraints=invalid_layers)
    placer = Placer(made.flavors[FLAVOR], ON)
    after = replace_node(placer, [workers(2, edited)], {"workers": before}, "n1")["workers"]
    assert {"n2": 2} == counts(after)


def test_a_workload_that_grows_keeps_its_places_and_one_that_shrinks_loses_the_last() -> None:
    made = cluster([node("b", "r", f"n{index}", 2) for index in range(4)])
    small = placed(made, workers(2, UNCONSTRAINED))["workers"]
    assert isinstance(small, LeafAssignment)
    assert {"n0": 2} == counts(small)
    larger = replace(workers(5, UNCONSTRAINED), previous=small)
    grown = placed(made, larger, on=ELASTIC)["workers"]
    assert isinstance(grown, LeafAssignment)
    assert {"n0": 2, "n1": 2, "n2": 1} == counts(grown)
    smaller = replace(workers(3, UNCONSTRAINED), previous=grown)
    assert {"n0": 2, "n1": 1} == counts(placed(made, smaller, on=ELASTIC)["workers"])
    made.drop_node("n0")
    assert {"n1": 2, "n2": 1} == counts(placed(made, smaller, on=ELASTIC)["workers"])


def test_constraints_of_the_pod_its_flavor_and_admission_checks_exclude_nodes() -> None:
    made = cluster(
        [
            node("b1", "r", "n1", taints=TAINTED),
            node("b1", "r", "n2"),
            node("b2", "r", "n3"),
            node("b3", "r", "n4"),
        ]
    )
    asked = workers(4, UNCONSTRAINED)
    spec = PodSpec(affinity=_affinity("NotIn", "b3"))
    update = PodSetUpdate(name="workers", node_selector={"block": "b1"})
    asked = replace(asked, template=PodTemplateSpec(spec=spec), updates=(update,))
    found = placed(made, asked)["workers"]
    assert isinstance(found, PlacementFailure)
    assert (
        'topology "topology" fits only 1 of 4 pods; of 4 nodes, 2 do not match the node selector,'
        ' 1 has the taint "gpu=yes:NoSchedule"' == found.message
    )
    tolerations = (Toleration(key="gpu", operator="Exists"),)
    made.put_flavor(FLAVOR, "topology", LEVELS, {}, tolerations)
    assert {"n1": 1, "n2": 1} == counts(placed(made, replace(asked, count=2))["workers"])


def test_aggregated_leaves_ignore_constraints_on_nodes() -> None:
    made = cluster([node("b", "r", "n1", taints=TAINTED), node("b", "r", "n2")], LEVELS[:2])
    asked = workers(2, TopologyRequest(required="rack"))
    template = PodTemplateSpec(spec=PodSpec(node_selector={"missing": "x"}))
    assert {"b,r": 2} == counts(placed(made, replace(asked, template=template))["workers"])


def _layers(*layers: tuple[str, int]) -> list[SliceTopologyConstraint]:
    return [SliceTopologyConstraint(topology=level, size=size) for level, size in layers]


@pytest.mark.parametrize(
    ("topology", "cause", "message"),
    [
        (TopologyRequest(), PlacementFailureCause.NO_LEVEL_REQUESTED, "names no level"),
        (TopologyRequest(required="zone"), PlacementFailureCause.UNKNOWN_LEVEL, 'no level "zone"'),
        (
            TopologyRequest(pod_set_slice_required_topology="zone", pod_set_slice_size=2),
            PlacementFailureCause.UNKNOWN_SLICE_LEVEL,
            'no level "zone"',
        ),
        (
            TopologyRequest(pod_set_slice_required_topology="rack"),
            PlacementFailureCause.NO_SLICE_SIZE,
            "not positive",
        ),
        (
            TopologyRequest(
                required="rack", pod_set_slice_required_topology="block", pod_set_slice_size=2
            ),
            PlacementFailureCause.SLICE_ABOVE_LEVEL,
            'above the requested level "rack"',
        ),
        (
            TopologyRequest(
                podset_slice_required_topology_constraints=_layers(("rack", 4), ("block", 2))
            ),
            PlacementFailureCause.LAYER_NOT_BELOW,
            'must be below level "rack"',
        ),
        (
            TopologyRequest(
                podset_slice_required_topology_constraints=_layers(("block", 4), ("rack", 3))
            ),
            PlacementFailureCause.LAYER_SIZE,
            "must divide the size 4",
        ),
        (
            TopologyRequest(
                podset_slice_required_topology_constraints=_layers(("block", 4), ("rack", 0))
            ),
            PlacementFailureCause.NO_SLICE_SIZE,
            "not positive",
        ),
        (
            TopologyRequest(required="block"),
            PlacementFailureCause.NOT_ENOUGH,
            'fits only 2 of 4 pods in one domain of level "block"',
        ),
        (
            TopologyRequest(
                required="block", pod_set_slice_required_topology="rack", pod_set_slice_size=4
            ),
            PlacementFailureCause.NOT_ENOUGH,
            "fits none of 1 slice",
        ),
        (
            TopologyRequest(
                podset_slice_required_topology_constraints=_layers(("block", 4), ("rack", 2))
            ),
            PlacementFailureCause.NOT_ENOUGH,
            'fits only 0 of 1 slices at level "block", 1 of 2 slices at level "rack"',
        ),
    ],
)
def test_a_rejection_says_what_is_wrong(
    topology: TopologyRequest, cause: PlacementFailureCause, message: str
) -> None:
    made = cluster([node("b1", "r1", "n1", 2), node("b2", "r1", "n2", 1)])
    found = placed(made, workers(4, topology))["workers"]
    assert isinstance(found, PlacementFailure)
    assert cause is found.cause
    assert message in found.message


def test_invalid_constraints_and_a_topology_without_nodes_are_rejected() -> None:
    invalid = PodTemplateSpec(spec=PodSpec(affinity=_affinity("Is", "b")))
    found = placed(cluster([]), replace(workers(1, UNCONSTRAINED), template=invalid))["workers"]
    assert isinstance(found, PlacementFailure)
    assert PlacementFailureCause.INVALID_CONSTRAINTS is found.cause
    assert "unknown operator 'Is'" in found.message
    selective = PodTemplateSpec(spec=PodSpec(node_selector={"zone": "a"}))
    update = PodSetUpdate(node_selector={"zone": "b"})
    asked = replace(workers(1, UNCONSTRAINED), template=selective, updates=(update,))
    conflict = placed(cluster([]), asked)["workers"]
    assert isinstance(conflict, PlacementFailure)
    assert PlacementFailureCause.INVALID_CONSTRAINTS is conflict.cause
    empty = placed(cluster([]), workers(1, TopologyRequest(required="rack")))["workers"]
    assert isinstance(empty, PlacementFailure)
    assert 'topology "topology" has no usable node with level "rack"' == empty.message


def test_a_leader_that_does_not_fit_beside_its_workers_is_named() -> None:
    made = cluster([node("b", "r", "n1", 2)])
    group = workers(2, TopologyRequest(required="rack"), group="g")
    head = replace(workers(1, TopologyRequest(required="rack"), group="g"), name="leader")
    outcome = placed(made, head, group)
    assert {"leader", "workers"} == set(outcome)
    found = outcome["leader"]
    assert isinstance(found, PlacementFailure)
    where = 'topology "topology" fits 2 pods in one domain of level "rack"'
    assert f"{where}, but not together with their leader" == found.message
