# SPDX-License-Identifier: Apache-2.0
"""When a node has failed for a Workload, and what is written then."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec
import pytest

from kuota.api.base import Json, Key
from kuota.api.core import Node, Pod, Toleration
from kuota.api.gates import Gates
from kuota.api.kueue import ResourceFlavor, ResourceFlavorSpec
from kuota.api.podset import TOPOLOGY_GATE
from kuota.bridge.conditions import timestamp
from kuota.bridge.draft import StoredWorkload
from kuota.bridge.effects import Event, StatusPatch
from kuota.bridge.node_failures import (
    NodeHealth,
    NodeView,
    assigned_nodes,
    may_have_failed,
    recheck_in_s,
    recorded,
    terminated_status,
    undecided,
    verdict,
)
from kuota.bridge.workload_pods import WorkloadPod

HOST = "kubernetes.io/hostname"
NOW = 1_000_000.0
BY_TIME = {"TASReplaceNodeDueToNotReadyOverFixedTime": True}
NOT_BY_PODS = {"TASReplaceNodeOnPodTermination": False}
KEEP = {"key": "drain", "operator": "Exists"}
SOME_TIME = KEEP | {"tolerationSeconds": 60}


def _stored(
    nodes: Sequence[str] = ("x",),
    *,
    unhealthy: Sequence[str] = (),
    tolerations: Sequence[Json] = (),
    level: str = HOST,
    true: Sequence[str] = ("QuotaReserved", "Admitted"),
) -> StoredWorkload:
    slices = [
        {"domainCount": 1, "podCounts": {"universal": 1}, "valuesPerLevel": [{"universal": name}]}
        for name in nodes
    ]
    given: Json = {"name": "main", "count": len(nodes), "flavors": {"cpu": "f"}}
    assigned = given | {"topologyAssignment": {"levels": [level], "slices": slices}}
    template = {"spec": {"tolerations": list(tolerations)}}
    return StoredWorkload.of(
        {
            "metadata": {"name": "wl", "namespace": "team", "resourceVersion": "7"},
            "spec": {"podSets": [{"name": "main", "count": len(nodes), "template": template}]},
            "status": {
                "admission": {"clusterQueue": "cq", "podSetAssignments": [assigned]},
                "conditions": [{"type": each, "status": "True"} for each in true],
                "unhealthyNodes": [{"name": each} for each in unhealthy],
            },
        }
    )


def _node(ready: str = "True", since_s: float = 0, effect: str = "") -> Node:
    taints = [{"key": "drain", "effect": effect}] if effect else []
    found = {"type": "Ready", "status": ready, "lastTransitionTime": timestamp(NOW - since_s)}
    status = {"conditions": [found] if ready else []}
    return msgspec.convert({"spec": {"taints": taints}, "status": status}, Node)


def _view(node: Node | None, gates: dict[str, bool] | None = None, **fields: Any) -> NodeView:
    chosen = Gates.of(gates or {}, check=False)
    return NodeView(
        **{"name": "x", "node": node, "flavors": {}, "gates": chosen, "now": NOW, **fields}
    )


def _pod(name: str = "p", **fields: Any) -> WorkloadPod:
    given: dict[str, Any] = {
        "key": Key("team", name),
        "uid": name,
        "version": "1",
        "workload": "wl",
        "chain": "wl",
        "pod_set": "main",
        "placed": True,
        "phase": "Running",
        "node": "x",
        "node_selector": {HOST: "x"},
    }
    return WorkloadPod(**{**given, **fields})


RUNNING = _pod()
WAITING = _pod("w", phase="Pending", node="")
LEAVING = _pod(deleting=True)


def _health(view: NodeView, *pods: WorkloadPod, **fields: Any) -> NodeHealth:
    return verdict(view, _stored(**fields).obj, pods).health


def test_a_node_that_is_gone_or_reports_nothing_has_failed() -> None:
    assert NodeHealth.FAILED is _health(_view(None), RUNNING)
    assert NodeHealth.FAILED is _health(_view(_node("")), RUNNING)


@pytest.mark.parametrize("status", ["False", "Unknown"])
def test_an_unready_node_fails_once_its_pods_are_gone(status: str) -> None:
    view = _view(_node(status, 1000))
    assert NodeHealth.DRAINING is _health(view, RUNNING)
    for pods in ([], [LEAVING], [_pod(ended=True, phase="Failed")], [_pod(node="y")]):
        assert NodeHealth.FAILED is _health(view, *pods)
    assert recheck_in_s(view) is None


def test_with_the_gate_an_unready_node_fails_after_a_fixed_time() -> None:
    young, old = _view(_node("False", 10), BY_TIME), _view(_node("False", 30), BY_TIME)
    assert NodeHealth.DRAINING is _health(young, RUNNING)
    assert 20 == recheck_in_s(young)
    assert NodeHealth.FAILED is _health(old, RUNNING)
    assert recheck_in_s(old) is None


def test_without_regard_to_pods_an_unready_node_has_a_fixed_time_to_recover() -> None:
    young, old = _view(_node("False", 10), NOT_BY_PODS), _view(_node("False", 31), NOT_BY_PODS)
    assert undecided(young)
    assert 20 == recheck_in_s(young)
    assert not undecided(old)
    assert NodeHealth.FAILED is _health(old, RUNNING)
    assert not undecided(_view(_node(), NOT_BY_PODS))


@pytest.mark.parametrize("effect", ["NoSchedule", "NoExecute"])
def test_a_taint_that_is_not_tolerated_makes_a_node_fail_once_its_pods_are_gone(
    effect: str,
) -> None:
    view = _view(_node(effect=effect))
    assert NodeHealth.DRAINING is _health(view, RUNNING)
    assert NodeHealth.FAILED is _health(view)
    assert NodeHealth.FAILED is _health(_view(_node(effect=effect), NOT_BY_PODS), RUNNING)
    assert NodeHealth.HEALTHY is _health(view, tolerations=[KEEP])
    off = {"TASReplaceNodeOnNodeTaints": False}
    assert NodeHealth.HEALTHY is _health(_view(_node(effect=effect), off))


def test_other_taints_do_not_matter() -> None:
    assert NodeHealth.HEALTHY is _health(_view(_node(effect="PreferNoSchedule")))


def test_a_toleration_for_some_time_waits_for_pods_with_every_gate() -> None:
    for gates in ({}, NOT_BY_PODS):
        view = _view(_node(effect="NoExecute"), gates)
        assert NodeHealth.DRAINING is _health(view, RUNNING, tolerations=[SOME_TIME])
        assert NodeHealth.FAILED is _health(view, LEAVING, tolerations=[SOME_TIME])


def test_tolerations_of_flavors_and_checks_count() -> None:
    tolerated = msgspec.convert(KEEP, Toleration)
    flavor = ResourceFlavor(spec=ResourceFlavorSpec(tolerations=[tolerated]))
    view = _view(_node(effect="NoSchedule"), flavors={"f": flavor})
    assert NodeHealth.HEALTHY is _health(view)
    stored = _stored()
    updates = [{"name": "main", "tolerations": [KEEP]}]
    status = stored.json["status"] | {"admissionChecks": [{"name": "c", "podSetUpdates": updates}]}
    checked = StoredWorkload.of(stored.json | {"status": status})
    assert NodeHealth.HEALTHY is verdict(_view(_node(effect="NoSchedule")), checked.obj, []).health


def test_pods_that_wait_for_a_failed_node_are_terminated() -> None:
    gated = _pod("g", phase="Pending", node="", gates=(TOPOLOGY_GATE,))
    other = _pod("o", phase="Pending", node="", node_selector={HOST: "y"})
    leaving = _pod("l", phase="Pending", node="", deleting=True)
    foreign = _pod("f", phase="Pending", node="", workload="another")
    pods = [WAITING, gated, other, leaving, foreign, RUNNING]
    for view in (_view(None), _view(_node("False")), _view(_node(effect="NoSchedule"))):
        assert (WAITING,) == verdict(view, _stored().obj, pods).terminate
    assert () == verdict(_view(_node()), _stored().obj, pods).terminate


def test_pods_that_wait_for_a_node_that_is_no_longer_assigned_are_terminated() -> None:
    found = verdict(_view(_node()), _stored(["y"]).obj, [WAITING])
    assert (NodeHealth.HEALTHY, (WAITING,)) == (found.health, found.terminate)


def test_a_node_that_the_user_has_chosen_is_not_a_matter_of_assignments() -> None:
    racks = _stored(["r1"], level="rack")
    found = verdict(_view(_node("False")), racks.obj, [WAITING])
    assert (NodeHealth.HEALTHY, ()) == (found.health, found.terminate)
    assert [] == assigned_nodes(racks)


def _status(stored: StoredWorkload, health: NodeHealth) -> Json | None:
    effects = recorded(stored, "x", health, NOW).effects
    found = [each.status for each in effects if isinstance(each, StatusPatch)]
    return found[0] if found else None


def test_a_failed_node_is_recorded_once_and_removed_when_it_recovers() -> None:
    assert {"unhealthyNodes": [{"name": "x"}]} == _status(_stored(), NodeHealth.FAILED)
    assert _status(_stored(unhealthy=["x"]), NodeHealth.FAILED) is None
    for health in (NodeHealth.HEALTHY, NodeHealth.DRAINING):
        assert {"unhealthyNodes": None} == _status(_stored(unhealthy=["x"]), health)
        assert _status(_stored(unhealthy=["y"]), health) is None


def test_a_second_failed_node_evicts_the_workload() -> None:
    effects = recorded(_stored("xy", unhealthy=["y"]), "x", NodeHealth.FAILED, NOW).effects
    [patch] = [each for each in effects if isinstance(each, StatusPatch)]
    evicted = next(each for each in patch.status["conditions"] if each["type"] == "Evicted")
    assert ("True", "NodeFailures") == (evicted["status"], evicted["reason"])
    assert evicted["message"].endswith("node failures, including: y, x")
    assert patch.status["unhealthyNodes"] is None
    [event] = [each for each in effects if isinstance(each, Event)]
    assert "EvictedDueToNodeFailures" == event.reason


def test_only_running_workloads_are_on_nodes() -> None:
    assert ["x", "y"] == assigned_nodes(_stored("xy"))
    assert [] == assigned_nodes(_stored(true=["QuotaReserved"]))
    for type_ in ("Finished", "Evicted"):
        assert [] == assigned_nodes(_stored(true=["Admitted", type_]))


def test_healthy_nodes_are_not_suspicious() -> None:
    assert not may_have_failed(_node())
    for node in (None, _node(""), _node("False"), _node("Unknown"), _node(effect="NoExecute")):
        assert may_have_failed(node)


def test_a_terminated_pod_keeps_its_conditions() -> None:
    scheduled = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}
    pod = msgspec.convert({"metadata": {}, "status": {"conditions": [scheduled]}}, Pod)
    status = terminated_status(pod, "x", NOW)
    assert "Failed" == status["phase"]
    assert ["PodScheduled", "TerminatedByKueue"] == [each["type"] for each in status["conditions"]]
