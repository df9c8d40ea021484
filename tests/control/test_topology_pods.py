# SPDX-License-Identifier: Apache-2.0
"""Pods are sent to the nodes of their gang, and nodes that fail are replaced."""

from __future__ import annotations

import asyncio
from collections import Counter

import pytest

from control.objects import condition
from control.racks import GATE, HOST, furnish, gang, node
from control.stage import Stage, run_scene
from kuota.api.base import Json, Key
from kuota.control.observer import attach_observer
from kuota.control.parts import ALL, Part
from kuota.failures import Fatal, cause
from kuota.kube.errors import ServerError
from kuota.kube.resources import JOBS, NODES, PODS, WORKLOADS

INDEX = "batch.kubernetes.io/job-completion-index"


def _indexed(name: str, pods: int) -> Json:
    made = gang(name, pods)
    made["spec"]["completionMode"] = "Indexed"
    return made


def _pod(stage: Stage, job: str, name: str, index: int | None = None) -> Json:
    """A pod as the Job controller creates it from the template."""
    template = stage.job(job)["spec"]["template"]
    meta: Json = {**template["metadata"], "name": name, "namespace": "team"}
    if index is not None:
        meta["labels"] = {**meta["labels"], INDEX: str(index)}
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": template["spec"]}
    return pod | {"status": {"phase": "Pending"}}


def _host(stage: Stage, name: str) -> str | None:
    """The node that a pod was sent to; None while it is gated."""
    spec = stage.get(PODS, name)["spec"]
    gated = any(each["name"] == GATE for each in spec.get("schedulingGates") or ())
    return None if gated else spec["nodeSelector"][HOST]


async def _run(stage: Stage, name: str) -> None:
    """Bind a pod to its node and let it run, as kube-scheduler and kubelet do."""
    key = Key("team", name)
    await stage.api.patch(PODS, key, {"spec": {"nodeName": _host(stage, name)}})
    await stage.status(PODS, name, {"phase": "Running"})


async def _ready(stage: Stage, name: str, status: str) -> None:
    since = stage.clock.now().replace(microsecond=0).isoformat()
    found = {"type": "Ready", "status": status, "lastTransitionTime": since}
    await stage.status(NODES, name, {"conditions": [found]})


def _unhealthy(stage: Stage, job: str) -> list[str]:
    listed = stage.workload(job)["status"].get("unhealthyNodes") or ()
    return [each["name"] for each in listed]


async def _gang_of_four(stage: Stage) -> None:
    """Four running pods on the two nodes of one rack."""
    await furnish(stage, node("n1", "r1"), node("n2", "r1"))
    await stage.api.apply(_indexed("gang", 4))
    await stage.rest()
    for index in range(4):
        await stage.api.apply(_pod(stage, "gang", f"p{index}", index))
    await stage.rest()
    for index in range(4):
        await _run(stage, f"p{index}")
    await stage.rest()


def test_pods_are_sent_to_the_nodes_of_their_ranks() -> None:
    async def scene(stage: Stage) -> None:
        await furnish(stage, node("n1", "r1"), node("n2", "r1"))
        await stage.api.apply(_indexed("gang", 4))
        await stage.rest()
        for index in (3, 1, 0, 2):
            await stage.api.apply(_pod(stage, "gang", f"p{index}", index))
            await stage.rest()
            assert ["n1", "n2"][index // 2] == _host(stage, f"p{index}")

    run_scene(scene)


def test_a_failed_write_does_not_hide_an_observer_that_fails_at_the_same_time() -> None:
    def broken(old: Json | None, new: Json | None) -> None:
        if old is not None and new is not None and new["metadata"]["name"] == "p1":
            raise ValueError("a bug")

    async def scene(stage: Stage) -> None:
        await furnish(stage, node("n1", "r1"))
        await stage.api.apply(_indexed("gang", 2))
        await stage.rest()
        stage.system.cache.pods.observe(broken)
        stage.api.refuse["patch", "Pod"] = [ServerError(500, "InternalError", "not now")]
        await stage.api.apply(*(_pod(stage, "gang", f"p{index}", index) for index in range(2)))
        with pytest.raises(BaseExceptionGroup) as caught:
            await asyncio.wait_for(asyncio.shield(stage.running), 60)
        assert isinstance(cause(caught.value), Fatal)
        stage.start()
        await stage.rest()
        assert ["n1", "n1"] == [_host(stage, f"p{index}") for index in range(2)]

    run_scene(scene)


def test_pods_that_exist_before_the_controller_starts_are_sent_too() -> None:
    async def scene(stage: Stage) -> None:
        await furnish(stage, node("n1", "r1"))
        await stage.api.apply(gang("gang", 1))
        await stage.rest()
        await stage.stop()
        await stage.api.apply(_pod(stage, "gang", "p"))
        stage.start()
        await stage.rest()
        assert "n1" == _host(stage, "p")

    run_scene(scene)


def test_pods_are_sent_to_their_nodes_without_the_reconcilers_of_jobs() -> None:
    async def scene(stage: Stage) -> None:
        await furnish(stage, node("n1", "r1"))
        await stage.api.apply(gang("gang", 1))
        await stage.rest()
        await stage.stop()
        await stage.api.apply(_pod(stage, "gang", "p"))
        stage.parts = ALL - {Part.CORE}
        stage.start()
        await stage.rest()
        assert _host(stage, "p") is None
        stage.parts = ALL - {Part.JOBS}
        await stage.restart()
        await stage.rest()
        assert "n1" == _host(stage, "p")

    run_scene(scene)


def test_no_node_gets_more_pods_than_it_was_assigned() -> None:
    async def scene(stage: Stage) -> None:
        await furnish(stage, node("n1", "r1"), node("n2", "r1"))
        await stage.api.apply(gang("gang", 3))
        await stage.rest()
        for name in "abcdef":
            await stage.api.apply(_pod(stage, "gang", name))
        await stage.rest()
        sent = {name: _host(stage, name) for name in "abcdef"}
        assert {"n1": 2, "n2": 1, None: 3} == dict(Counter(sent.values()))
        await stage.status(PODS, "a", {"phase": "Failed"})
        await stage.rest()
        assert sent["a"] == _host(stage, "d")
        assert (None, None) == (_host(stage, "e"), _host(stage, "f"))

    run_scene(scene)


def test_a_write_with_an_unknown_outcome_is_read_before_the_next_pass() -> None:
    async def scene(stage: Stage) -> None:
        await furnish(stage, node("n1", "r1", 1), node("n2", "r1", 1))
        await stage.api.apply(gang("gang", 2))
        await stage.rest()
        stage.api.lag_s = 60
        stage.api.refuse["patch", "Pod"] = [ServerError(500, "InternalError", "no answer")]
        await stage.api.apply(_pod(stage, "gang", "b"))
        await stage.rest(61)
        # The write was stored, although it seemed to fail.
        given = {"schedulingGates": None, "nodeSelector": {HOST: "n1"}}
        await stage.api.patch(PODS, Key("team", "b"), {"spec": given})
        await stage.api.apply(_pod(stage, "gang", "a"))
        await stage.rest(200)
        assert ("n1", "n2") == (_host(stage, "b"), _host(stage, "a"))

    run_scene(scene)


def test_a_node_that_fails_is_recorded_once_its_pods_are_gone() -> None:
    async def scene(stage: Stage) -> None:
        await _gang_of_four(stage)
        await _ready(stage, "n2", "False")
        await stage.rest(60)
        assert [] == _unhealthy(stage, "gang")
        for name in ("p2", "p3"):
            await stage.status(PODS, name, {"phase": "Failed"})
        await stage.rest()
        replaced = _unhealthy(stage, "gang") == ["n2"]
        evicted = condition(stage.workload("gang"), "Evicted").get("reason") == "NodeFailures"
        # No other node can replace it, so the second pass evicts the workload at once.
        assert replaced or evicted

    run_scene(scene)


def test_a_failed_node_is_replaced_and_new_pods_go_to_the_replacement() -> None:
    async def scene(stage: Stage) -> None:
        await _gang_of_four(stage)
        await stage.api.apply(node("n3", "r1"))
        await stage.rest()
        await stage.api.delete(NODES, Key("", "n2"))
        await stage.rest(5)
        assert [] == _unhealthy(stage, "gang")
        assert not condition(stage.workload("gang"), "Evicted")
        for index in (2, 3):
            await stage.api.delete(PODS, Key("team", f"p{index}"))
            await stage.api.apply(_pod(stage, "gang", f"q{index}", index))
        await stage.rest()
        assert ("n3", "n3") == (_host(stage, "q2"), _host(stage, "q3"))

    run_scene(scene)


def test_two_failed_nodes_evict_the_workload() -> None:
    async def scene(stage: Stage) -> None:
        await _gang_of_four(stage)
        for name in ("n1", "n2"):
            await stage.api.delete(NODES, Key("", name))
        await stage.rest(5)
        evicted = condition(stage.workload("gang"), "Evicted")
        assert ("True", "NodeFailures") == (evicted["status"], evicted["reason"])
        assert stage.job("gang")["spec"]["suspend"]

    run_scene(scene, gates={"TASFailedNodeReplacementFailFast": False})


def test_a_pod_that_waits_for_a_failed_node_is_terminated() -> None:
    async def scene(stage: Stage) -> None:
        await _gang_of_four(stage)
        await stage.api.apply(node("n3", "r1"))
        await stage.api.delete(PODS, Key("team", "p3"))
        await stage.api.apply(_pod(stage, "gang", "late", 3))
        await stage.rest()
        assert "n2" == _host(stage, "late")
        taint = {"key": "maintenance", "effect": "NoSchedule"}
        await stage.edit(NODES, "n2", {"spec": {"taints": [taint]}})
        await stage.rest()
        late = stage.get(PODS, "late")["status"]
        assert "Failed" == late["phase"]
        assert "TerminatedByKueue" == late["conditions"][0]["type"]
        assert ["PodTerminatedByKueue"] == stage.events("Pod", "late")
        # A pod still runs on the node.
        assert [] == _unhealthy(stage, "gang")

    run_scene(scene)


def test_a_node_that_recovers_is_healthy_again() -> None:
    async def scene(stage: Stage) -> None:
        await _gang_of_four(stage)
        await _ready(stage, "n2", "False")
        await stage.rest(29)
        assert [] == _unhealthy(stage, "gang")
        await _ready(stage, "n2", "True")
        await stage.rest(60)
        assert [] == _unhealthy(stage, "gang")
        assert not condition(stage.workload("gang"), "Evicted")

    run_scene(scene, gates={"TASReplaceNodeOnPodTermination": False})


def test_a_node_that_was_lost_while_the_controller_was_down_is_noticed() -> None:
    async def scene(stage: Stage) -> None:
        await _gang_of_four(stage)
        await stage.api.apply(node("n3", "r1"))
        await stage.rest()
        await stage.stop()
        await stage.api.delete(NODES, Key("", "n1"))
        stage.start()
        await stage.rest(10)
        name = stage.workload("gang")["metadata"]["name"]
        admission = stage.get(WORKLOADS, name)["status"].get("admission")
        assert "n1" not in str(admission)

    run_scene(scene)


def test_pods_of_other_workloads_are_left_alone() -> None:
    async def scene(stage: Stage) -> None:
        await _gang_of_four(stage)
        await stage.rest()
        versions = {name: stage.api.versions(PODS, name) for name in ("p0", "p1")}
        await stage.api.delete(JOBS, Key("team", "gang"))
        await stage.rest()
        assert all(stage.api.versions(PODS, name) == n for name, n in versions.items())

    run_scene(scene)


class _Ungated:
    """An observer that counts removed gates."""

    def __init__(self) -> None:
        self.found: list[tuple[str, bool]] = []

    def cycle(self, outcome: object, took_s: float) -> None: ...

    def changed(self, old: object, new: object, now: float) -> None: ...

    def removed(self, kind: str, key: Key) -> None: ...

    def cohort_specified(self, name: str) -> None: ...

    def created(self, workload: object, job_kind: str, took_s: float) -> None: ...

    def ungated(self, workload: object, gate: str, took_s: float, *, in_group: bool) -> None:
        assert took_s >= 0
        self.found.append((gate, in_group))


def test_removed_gates_are_observed_once() -> None:
    observer = _Ungated()

    async def scene(stage: Stage) -> None:
        attach_observer(observer, stage.system.driver, stage.system.cache, stage.clock)
        await _gang_of_four(stage)

    run_scene(scene)
    assert [(GATE, False)] * 4 == observer.found
