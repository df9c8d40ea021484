# SPDX-License-Identifier: Apache-2.0
"""Suites on engine values of a Workload: totals, order, scheduling hash, placement."""

from __future__ import annotations

from conformance import world
from conformance.case import Json, Run, same, seconds
from conformance.recorder import convert, whole
from conformance.registry import suite
from kuota.api.resources import Transformation
from kuota.api.workload import Workload
from kuota.bridge.inbound_workload import AccountingContext
from kuota.bridge.inbound_workload import workload as inbound_workload
from kuota.engine import model
from kuota.engine.assignment import ScanProgress
from kuota.engine.placement import explicit
from kuota.engine.policy import Policy
from kuota.engine.ranking import queue_timestamp
from kuota.engine.second_pass import needs_second_pass


def _read(run: Run, name: str) -> model.Workload:
    return world.workload(run.inputs[name], world.gates_of(run))


@suite("workload/workload-TestNewInfo")
def counted(run: Run) -> None:
    """Of what is counted the record keeps only the ClusterQueue; the amounts are unexported."""
    options = run.inputs.get("infoOptions") or {}
    accounting = AccountingContext(
        gates=world.gates_of(run),
        transformations=convert(
            options.get("resourceTransformations") or {}, dict[str, Transformation]
        ),
        excluded_prefixes=tuple(options.get("excludedResourcePrefixes") or ()),
    )
    found = inbound_workload(convert(run.inputs["workload"], Workload), accounting)
    queue = found.reservation.cluster_queue if found.reservation else ""
    same(run.expected["wantInfo"], {"clusterQueue": queue})


@suite(
    "workload/workload-TestUpdateWithRebuild",
    ignores={
        "inputs.initial": "the workload before; Kuota counts the new one alone",
        "inputs.initialOptions": "DRA follows in its own issue; what it added must not survive",
    },
)
def counted_anew(run: Run) -> None:
    same(run.expected["wantRequests"], _totals(_read(run, "updated")))


def _totals(workload: model.Workload) -> list[Json]:
    if workload.reservation is not None:
        return [
            {"name": each.name, "count": each.count, "requests": each.requests}
            for each in workload.reservation.pod_sets
        ]
    return [
        {"name": each.name, "count": each.pods, "requests": each.requests}
        for each in workload.pod_sets
    ]


@suite("workload/workload-TestSchedulingHash")
def same_class(run: Run) -> None:
    same(
        run.expected["wantSame"],
        _read(run, "wl1").scheduling_hash == _read(run, "wl2").scheduling_hash,
    )


@suite("workload/workload-TestGetQueueOrderTimestamp")
def order_timestamp(run: Run) -> None:
    found = _read(run, "wl")
    for option, wanted in run.expected["want"].items():
        policy = Policy(gates=world.gates_of(run), by_eviction=option == "Eviction")
        same(seconds(wanted), queue_timestamp(found, policy), option)


@suite("workload/workload-TestIsOnHold")
def on_hold(run: Run) -> None:
    same(run.expected["want"], _read(run, "wl").on_hold)


@suite("workload/workload-TestNeedsSecondPass")
def second_pass(run: Run) -> None:
    same(run.expected["want"], needs_second_pass(_read(run, "wl")))


@suite("workload/workload-TestIsExplicitlyRequestingTAS")
def asks_for_topology(run: Run) -> None:
    found = world.workload({"spec": {"podSets": run.inputs.get("podSets")}})
    same(run.expected["want"], any(explicit(each) for each in found.pod_sets))


@suite("workload/workload-TestAssignmentClusterQueueState")
def flavors_left(run: Run) -> None:
    state = whole(run.inputs.get("state")) or {}
    tried = state.get("lastTriedFlavorIdx") or ()
    progress = ScanProgress(
        generation=state.get("clusterQueueGeneration") or 0,
        cycle=state.get("schedulingCycle") or 0,
        scheduling_hash=state.get("schedulingHash") or "",
        tried=tuple(
            {name: None if index == -1 else index for name, index in each.items()} for each in tried
        ),
    )
    same(run.expected["wantPendingFlavors"], progress.pending)
