# SPDX-License-Identifier: Apache-2.0
"""Which clusters get a copy of a Workload, and which of them may preempt."""

from __future__ import annotations

from control.multikueue_groups import (
    EARLIER,
    EMPTY,
    NOW,
    SPEC,
    T,
    local,
    plan,
    remote,
    status_after,
    true,
)
from kuota.api.base import Json
from kuota.api.config.defaults import INCREMENTAL
from kuota.api.gates import Gates
from kuota.bridge.effects import Create, StatusPatch
from kuota.control.checks.multikueue.group import Component, GroupResult, MultiKueueSettings


def test_all_connected_clusters_get_a_copy_and_lost_ones_do_not() -> None:
    stored = local()
    found = plan(stored, lost={"c": NOW}, clusters=("b", "a", "c"))
    assert status_after(found, stored)["nominatedClusterNames"] == ["a", "b"]
    assert sorted(found.dispatched) == ["a", "b"]
    made = found.remote["a"][0]
    assert isinstance(made, Create)
    assert made.object["metadata"]["labels"] == {"kueue.x-k8s.io/multikueue-origin": "here"}
    assert made.object["spec"] == SPEC


def test_nothing_is_dispatched_before_the_other_checks_are_ready() -> None:
    states = [
        {"name": "mk", "state": "Pending", "message": "", "lastTransitionTime": T},
        {"name": "other", "state": "Pending", "message": "", "lastTransitionTime": T},
    ]
    assert plan(local(admissionChecks=states)) == GroupResult()


def test_the_incremental_dispatcher_nominates_in_steps_of_the_configured_order() -> None:
    settings = MultiKueueSettings(origin="here", dispatcher=INCREMENTAL, step_size=2)
    names = ("d", "c", "b", "a")
    remotes = dict.fromkeys(names, EMPTY)
    stored = local()
    first = plan(stored, settings=settings, clusters=names, remotes=remotes)
    assert status_after(first, stored)["nominatedClusterNames"] == ["d", "c"]
    assert (first.nominated, first.requeue_after_s) == (True, 300)
    stored = local(nominatedClusterNames=["d", "c"])
    common: Json = {"settings": settings, "clusters": names, "remotes": remotes}
    waiting = plan(stored, **common, round_started=NOW - 100)
    assert (waiting.nominated, waiting.requeue_after_s) == (False, 200)
    assert sorted(waiting.dispatched) == ["c", "d"]
    second = plan(stored, **common, round_started=NOW - 301)
    assert status_after(second, stored)["nominatedClusterNames"] == ["d", "c", "b", "a"]
    last = plan(local(nominatedClusterNames=list(names)), **common, round_started=NOW - 301)
    assert (last.nominated, last.first) == (False, ())


def test_an_external_dispatcher_decides_by_the_status_alone() -> None:
    settings = MultiKueueSettings(origin="here", dispatcher="example.com/dispatcher")
    assert plan(local(), settings=settings).dispatched == ()
    found = plan(local(nominatedClusterNames=["a", "x"]), settings=settings)
    assert found.dispatched == ("a",)
    assert "cluster x is nominated and not connected" in found.fault


def test_only_the_cluster_that_is_blocked_the_longest_may_preempt() -> None:
    gates = Gates.of({"MultiKueueOrchestratedPreemption": True}, check=False)
    settings = MultiKueueSettings(origin="here", gates=gates)
    stored = local(nominatedClusterNames=["a", "b"])
    remotes = {
        "a": remote(true("BlockedOnPreemptionGates")),
        "b": remote(true("BlockedOnPreemptionGates", at=EARLIER)),
    }
    found = plan(stored, settings=settings, remotes=remotes)
    (opened,) = found.remote["b"]
    assert isinstance(opened, StatusPatch)
    assert opened.status["preemptionGates"][0]["position"] == "Open"
    assert "a" not in found.remote
    assert found.requeue_after_s == 300


def test_the_workloads_of_one_job_go_to_one_cluster() -> None:
    stored = local()
    common: Json = {"expected": 2, "index": 1}
    assert plan(stored, **common) == GroupResult()
    lower = (Component(name="wl-0", index=0),)
    assert plan(stored, **common, components=lower) == GroupResult()
    chosen = (Component(name="wl-0", index=0, cluster="a"),)
    found = plan(stored, **common, components=chosen)
    assert found.dispatched == ("a",)
    assert status_after(found, stored)["nominatedClusterNames"] == ["a"]
    torn = (*chosen, Component(name="wl-2", index=2, cluster="b"))
    assert "different clusters" in plan(stored, **common, components=torn).fault


def test_a_delayed_topology_request_is_ready_when_the_cluster_has_assigned_it() -> None:
    wanted = {"name": "main", "count": 1, "delayedTopologyRequest": "Pending"}
    admission = {"clusterQueue": "cq", "podSetAssignments": [wanted]}
    stored = local(admission=admission, clusterName="a")
    assigned = {"name": "main", "topologyAssignment": {"levels": ["host"]}}
    there = remote(
        true("Admitted"),
        status={"admission": {"clusterQueue": "cq", "podSetAssignments": [assigned]}},
    )
    after = status_after(plan(stored, remotes={"a": there}), stored)
    (found,) = after["admission"]["podSetAssignments"]
    assert found["delayedTopologyRequest"] == "Ready"
