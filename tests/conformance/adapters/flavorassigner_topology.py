# SPDX-License-Identifier: Apache-2.0
"""Recorded flavor assignments with nodes: where the scan stopped, and what is added to nodes."""

from __future__ import annotations

from conformance import world
from conformance.adapters.flavorassigner import assigned
from conformance.case import Json, Run, same
from conformance.recorder import convert, whole
from conformance.registry import suite
from kuota.api.topology_codec import AssignedDomain, compact
from kuota.api.workload import Admission
from kuota.engine.model import PodSetReservation, Reservation
from kuota.engine.usage import added_places, usage_of


@suite(
    "flavorassigner/TestFlavorScanRecordsLastTriedFlavorIdx",
    ignores={
        "inputs.nodes.*.status.conditions.*.lastHeartbeatTime": "placement does not read it",
        "inputs.nodes.*.status.conditions.*.lastTransitionTime": "placement does not read it",
        "config.schedulingCycle": "the number of the cycle, which does not change the result",
    },
)
def scan_positions(run: Run) -> None:
    """Where the scan stopped is noted even if the pods cannot be placed."""
    found = assigned(run)
    same(run.expected["wantMode"], str(found.mode), ".mode")
    [tried] = found.progress.tried
    [index] = tried.values()
    same(run.expected["wantTriedFlavorIdx"], -1 if index is None else index, ".tried")
    same(run.expected["wantPlan"], bool(found.places), ".plan")


@suite(
    "flavorassigner/TestAssignment_ComputeTASNetUsage",
    ignores={
        "inputs.podSetAssignments.*.requests": "placed pods use what their spec requests",
        "inputs.podSetAssignments.*.status": "empty, and not part of what is computed",
        **{
            f"inputs.podSetAssignments.*.flavors.*.{name}": "not part of what is computed"
            for name in ("mode", "borrow", "triedFlavorIdx")
        },
    },
)
def net_places(run: Run) -> None:
    """What a second pass adds to the places that the workload has."""
    workload = world.workload(run.inputs["workload"])
    given = [_placed(each) for each in run.inputs["podSetAssignments"]]
    reservation = Reservation(cluster_queue="", pod_sets=tuple(given), usage={})
    places = usage_of(workload, reservation).places
    before = whole(run.inputs.get("previousAdmission"))
    if before:
        stored = convert(before, Admission).pod_set_assignments or ()
        held = [
            PodSetReservation(
                name=e.name, flavors={}, requests={}, count=0, topology=e.topology_assignment
            )
            for e in stored
        ]
        places = added_places(places, Reservation(cluster_queue="", pod_sets=tuple(held), usage={}))
    found: dict[str, list[Json]] = {}
    for place in places:
        if place.flavor in list(run.inputs["tasFlavors"]):
            found.setdefault(place.flavor, []).extend(
                {"values": e.values, "count": e.count, "singlePodRequests": place.requests}
                for e in place.assignment.domains
            )
    same(run.expected["want"], found)


def _placed(given: Json) -> PodSetReservation:
    placed = given["topologyAssignment"]
    domains = [AssignedDomain(list(each["values"]), each["count"]) for each in placed["domains"]]
    return PodSetReservation(
        name=given["name"],
        flavors={name: each["name"] for name, each in given["flavors"].items()},
        requests={},
        count=given["count"],
        topology=compact(tuple(placed["levels"]), domains),
    )
