# SPDX-License-Identifier: Apache-2.0
"""Eligible flavors: taints, labels, topology, and the placement interface."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from msgspec.structs import replace

from engine.offers import OfferedQueue, chosen, pods, workload
from kuota.api.core import (
    Affinity,
    Container,
    NodeAffinity,
    NodeSelector,
    NodeSelectorRequirement,
    NodeSelectorTerm,
    PodSpec,
    ResourceRequirements,
    Taint,
    Toleration,
)
from kuota.api.topology_codec import HOSTNAME, AssignedDomain, compact
from kuota.api.workload import TopologyAssignment, TopologyRequest
from kuota.engine.assignment import AssignmentMode, WorkloadAssignment
from kuota.engine.model import (
    PodSet,
    PodSetReservation,
    Reservation,
    ResourceFlavor,
    Topology,
    Workload,
)
from kuota.engine.placement import Placement, PlacementRequest, PlacementResult
from kuota.engine.reasons import RejectionCause, WaitReason

SPOT = Taint(key="spot", value="yes", effect="NoSchedule")
TOLERATES = Toleration(key="spot", operator="Equal", value="yes", effect="NoSchedule")
ZONE_A = ResourceFlavor(name="a", labels={"zone": "a"})
RACKS = Topology(name="racks", levels=("rack", "host"))
TAS = ResourceFlavor(name="tas", topology="racks")
TAS_TOO = ResourceFlavor(name="tas2", topology="racks")


def affinity(*terms: tuple[str, str, list[str]]) -> PodSpec:
    """Pods that require one of the terms."""
    return PodSpec(
        affinity=Affinity(
            node_affinity=NodeAffinity(
                required_during_scheduling_ignored_during_execution=NodeSelector(
                    node_selector_terms=[
                        NodeSelectorTerm(
                            match_expressions=[
                                NodeSelectorRequirement(key=key, operator=operator, values=values)
                            ]
                        )
                        for key, operator, values in terms
                    ]
                )
            )
        )
    )


def on_flavor_a(flavor: ResourceFlavor, spec: PodSpec | None = None) -> WorkloadAssignment:
    return OfferedQueue({"a": {"cpu": 9}}, flavors=[flavor]).assign(
        workload(pods(spec=spec, cpu=1))
    )


def cause(assignment: WorkloadAssignment) -> RejectionCause:
    return assignment.pod_sets[0].reasons[0].cause


def test_a_taint_keeps_pods_away_that_do_not_tolerate_it() -> None:
    tainted = ResourceFlavor(name="a", taints=(SPOT,))

    assert RejectionCause.TAINT is cause(on_flavor_a(tainted))
    assert AssignmentMode.FIT is on_flavor_a(tainted, PodSpec(tolerations=[TOLERATES])).mode


def test_the_toleration_of_the_flavor_itself_is_enough() -> None:
    flavor = ResourceFlavor(name="a", taints=(SPOT,), tolerations=(TOLERATES,))

    assert AssignmentMode.FIT is on_flavor_a(flavor).mode


def test_a_taint_that_only_prefers_is_ignored() -> None:
    mild = Taint(key="spot", value="yes", effect="PreferNoSchedule")

    assert AssignmentMode.FIT is on_flavor_a(ResourceFlavor(name="a", taints=(mild,))).mode


def test_a_selector_counts_only_for_labels_the_flavor_has() -> None:
    assert AssignmentMode.FIT is on_flavor_a(ZONE_A, PodSpec(node_selector={"disk": "ssd"})).mode
    assert AssignmentMode.FIT is on_flavor_a(ZONE_A, PodSpec(node_selector={"zone": "a"})).mode
    assert RejectionCause.AFFINITY is cause(
        on_flavor_a(ZONE_A, PodSpec(node_selector={"zone": "b"}))
    )
    assert (
        AssignmentMode.FIT
        is on_flavor_a(ResourceFlavor(name="a"), PodSpec(node_selector={"z": "b"})).mode
    )


def test_affinity_with_a_term_about_other_labels_is_ignored() -> None:
    other_zone = ("zone", "In", ["b"])

    assert RejectionCause.AFFINITY is cause(on_flavor_a(ZONE_A, affinity(other_zone)))
    assert (
        AssignmentMode.FIT
        is on_flavor_a(ZONE_A, affinity(other_zone, ("disk", "In", ["ssd"]))).mode
    )


def test_malformed_affinity_is_an_error_and_nothing_else_is_reported() -> None:
    found = on_flavor_a(ZONE_A, affinity(("zone", "Near", ["b"])))

    assert AssignmentMode.NO_FIT is found.mode
    assert WaitReason.NO_MATCHING_FLAVOR is found.no_fit
    assert found.pod_sets[0].error
    assert () == found.pod_sets[0].reasons


def test_the_flavors_tried_before_a_malformed_affinity_was_found_are_recorded() -> None:
    market = OfferedQueue({"plain": {"cpu": 1}, "a": {"cpu": 9}}, flavors=[ZONE_A])
    found = market.assign(workload(pods(cpu=2, spec=affinity(("zone", "Near", ["b"])))))

    assert found.pod_sets[0].error
    assert WaitReason.EXCEEDS_MAX_QUOTA is found.no_fit
    assert [
        ("plain", WaitReason.EXCEEDS_MAX_QUOTA, 1),
        ("a", WaitReason.NO_MATCHING_FLAVOR, 0),
    ] == [(each.flavor, each.no_fit, len(each.reasons)) for each in found.pod_sets[0].attempts]


def test_malformed_affinity_does_not_matter_where_another_term_matches() -> None:
    spec = affinity(("zone", "Near", ["b"]), ("zone", "In", ["a"]))

    assert AssignmentMode.FIT is on_flavor_a(ZONE_A, spec).mode


def test_what_one_member_of_a_group_cannot_tolerate_keeps_all_away() -> None:
    market = OfferedQueue(
        {"a": {"cpu": 9}, "b": {"cpu": 9}}, flavors=[ResourceFlavor(name="a", taints=(SPOT,))]
    )
    tolerant = PodSpec(tolerations=[TOLERATES])

    together = workload(pods("x", spec=tolerant, group="g", cpu=1), pods("y", group="g", cpu=1))
    apart = workload(pods("x", spec=tolerant, cpu=1), pods("y", cpu=1))

    assert [{"cpu": "b"}, {"cpu": "b"}] == chosen(market.assign(together))
    assert [{"cpu": "a"}, {"cpu": "b"}] == chosen(market.assign(apart))


def test_a_missing_flavor_is_passed_over() -> None:
    market = OfferedQueue({"a": {"cpu": 9}, "b": {"cpu": 9}})
    market.snapshot.flavors = {"b": ResourceFlavor(name="b")}

    found = market.assign(workload(pods(cpu=1)))

    assert [{"cpu": "b"}] == chosen(found)
    assert RejectionCause.FLAVOR_NOT_FOUND is found.pod_sets[0].attempts[0].reasons[0].cause


def topology_market(
    *names: str, loaded: bool = True, placement: Placement | None = None, gate: bool = True
) -> OfferedQueue:
    return OfferedQueue(
        {name: {"cpu": 9} for name in names},
        flavors=[TAS, TAS_TOO],
        topologies=[RACKS] if loaded else [],
        placement=placement,
        gates={"TopologyAwareScheduling": gate},
    )


def placed_pods(level: str = "rack", *, cpu: int, credits: int = 0) -> PodSet:
    container = Container(resources=ResourceRequirements(requests={"cpu": "1"}))
    return pods(
        spec=PodSpec(containers=[container]),
        topology=TopologyRequest(required=level),
        cpu=cpu,
        credits=credits,
    )


@pytest.mark.parametrize(
    ("flavors", "wanted", "loaded", "want"),
    [
        (("plain",), placed_pods(cpu=1), True, RejectionCause.NO_TOPOLOGY),
        (("tas",), placed_pods(cpu=1), False, RejectionCause.TOPOLOGY_NOT_LOADED),
        (("tas",), placed_pods("block", cpu=1), True, RejectionCause.TOPOLOGY_LEVEL),
        (("tas", "plain"), pods(cpu=10), True, RejectionCause.ONLY_TOPOLOGY),
    ],
)
def test_topology_rules_keep_pods_off_a_flavor(
    flavors: tuple[str, ...], wanted: PodSet, loaded: bool, want: RejectionCause
) -> None:
    found = topology_market(*flavors, loaded=loaded).assign(workload(wanted))

    assert AssignmentMode.NO_FIT is found.mode
    assert want is cause(found)


def test_pods_that_ask_for_topology_get_a_flavor_that_has_it() -> None:
    found = topology_market("plain", "tas").assign(workload(placed_pods(cpu=1)))

    assert [{"cpu": "tas"}] == chosen(found)


def test_a_queue_of_topology_flavors_alone_takes_plain_pods() -> None:
    found = topology_market("tas").assign(workload(pods(cpu=1)))

    assert AssignmentMode.FIT is found.mode
    assert found.pod_sets[0].topology is None


def test_topology_says_nothing_when_its_gate_is_off() -> None:
    market = topology_market("plain", "tas", gate=False)

    assert [{"cpu": "plain"}] == chosen(market.assign(workload(placed_pods("block", cpu=1))))


def test_resources_that_no_pod_asks_for_need_no_topology() -> None:
    market = OfferedQueue(
        {"tas": {"cpu": 9}}, {"plain": {"credits": 9}}, flavors=[TAS], topologies=[RACKS]
    )

    found = market.assign(workload(placed_pods(cpu=1, credits=3)))

    assert AssignmentMode.FIT is found.mode
    assert {"cpu": "tas", "credits": "plain"} == chosen(found)[0]


def test_a_leader_that_asks_for_nothing_goes_where_its_group_is_placed() -> None:
    market = topology_market("tas")

    found = market.assign(workload(pods("leader", group="g"), pods("worker", group="g", cpu=2)))

    assert AssignmentMode.FIT is found.mode
    assert [{"cpu": "tas"}, {"cpu": "tas"}] == chosen(found)


def test_pods_on_two_topology_flavors_or_on_none_are_an_error() -> None:
    two = OfferedQueue(
        {"tas": {"cpu": 9}}, {"tas2": {"memory": 9}}, flavors=[TAS, TAS_TOO], topologies=[RACKS]
    )
    none = OfferedQueue({"plain": {"cpu": 9}}, topologies=[RACKS])
    idle = pods(topology=TopologyRequest(required="rack"))

    for found in (
        two.assign(workload(pods(cpu=1, memory=1))),
        none.assign(workload(idle)),
        OfferedQueue().assign(workload(pods())),
    ):
        assert AssignmentMode.NO_FIT is found.mode
        assert found.pod_sets[0].error


class FakePlacement:
    """A placement that has room for some pods as things are, and for some when all is empty."""

    def __init__(self, *, now: int, empty: int) -> None:
        self.room = {False: now, True: empty}

    def place(
        self, workload: Workload, requests: Sequence[PlacementRequest], *, empty: bool = False
    ) -> PlacementResult:
        if sum(each.count for each in requests) <= self.room[empty]:
            return PlacementResult(
                assigned={each.pod_set.name: TopologyAssignment() for each in requests}
            )
        return PlacementResult(rejected={each.pod_set.name: "no room" for each in requests})

    def fits(self, workload: Workload, requests: Sequence[PlacementRequest]) -> bool:
        return not self.place(workload, requests).rejected


def test_pods_that_can_be_placed_are() -> None:
    market = topology_market("tas", placement=FakePlacement(now=1, empty=1))

    found = market.assign(workload(placed_pods(cpu=1)))

    assert AssignmentMode.FIT is found.mode
    assert TopologyAssignment() == found.pod_sets[0].topology


def test_pods_that_could_be_placed_if_others_left_need_preemption() -> None:
    market = topology_market("tas", placement=FakePlacement(now=0, empty=1))

    found = market.assign(workload(placed_pods(cpu=1)))

    assert AssignmentMode.PREEMPT is found.mode
    assert AssignmentMode.PREEMPT is found.pod_sets[0].mode
    assert {"tas/cpu"} == {str(column) for column in found.needed}
    assert RejectionCause.PLACEMENT is cause(found)


def test_pods_that_not_even_an_empty_cluster_can_place_do_not_fit() -> None:
    market = topology_market("tas", placement=FakePlacement(now=0, empty=0))

    found = market.assign(workload(placed_pods(cpu=1)))

    assert AssignmentMode.NO_FIT is found.mode
    assert AssignmentMode.NO_FIT is found.pod_sets[0].mode
    assert WaitReason.TOPOLOGY_PLACEMENT_FAILED is found.no_fit
    assert WaitReason.TOPOLOGY_PLACEMENT_FAILED is found.pod_sets[0].attempts[0].no_fit


def test_a_failed_placement_rejects_only_the_flavor_that_was_chosen() -> None:
    market = topology_market(TAS.name, TAS_TOO.name, placement=FakePlacement(now=0, empty=0))
    market.use(f"{TAS.name}/cpu", 9)

    found = market.assign(workload(placed_pods(cpu=1)))

    modes = {each.flavor: each.mode for each in found.pod_sets[0].attempts}
    assert {TAS.name: AssignmentMode.PREEMPT, TAS_TOO.name: AssignmentMode.NO_FIT} == modes
    assert WaitReason.TOPOLOGY_PLACEMENT_FAILED is found.no_fit


def test_a_worse_rejection_in_another_resource_group_is_the_reason_of_a_failed_placement() -> None:
    market = OfferedQueue(
        {TAS.name: {"cpu": 9}},
        {"small": {"credits": 1}, "large": {"credits": 9}},
        flavors=[TAS],
        topologies=[RACKS],
        placement=FakePlacement(now=0, empty=0),
    )

    found = market.assign(workload(placed_pods(cpu=1, credits=2)))

    assert AssignmentMode.NO_FIT is found.mode
    assert WaitReason.EXCEEDS_MAX_QUOTA is found.no_fit
    assert {
        "small": WaitReason.EXCEEDS_MAX_QUOTA,
        "large": None,
        TAS.name: WaitReason.TOPOLOGY_PLACEMENT_FAILED,
    } == {each.flavor: each.no_fit for each in found.pod_sets[0].attempts}


def test_a_workload_that_lost_a_node_is_not_asked_whether_an_empty_cluster_would_do() -> None:
    market = topology_market("tas", placement=FakePlacement(now=0, empty=0))
    place = compact((HOSTNAME,), [AssignedDomain(["n1"], 1)])
    held = PodSetReservation(
        name="main", flavors={"cpu": "tas"}, requests={}, count=1, topology=place
    )
    repairing = replace(
        workload(placed_pods(cpu=1)),
        reservation=Reservation(cluster_queue="cq", pod_sets=(held,), usage={}),
        unhealthy_nodes=("n1",),
    )

    assert AssignmentMode.PREEMPT is market.assign(repairing).mode
