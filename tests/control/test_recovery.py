# SPDX-License-Identifier: Apache-2.0
"""Pods on lost nodes are deleted if they opted in and the gate is on."""

from __future__ import annotations

from control.stage import Stage, run_scene
from kuota.api.base import Json, Key
from kuota.kube.resources import PODS

SAFE = {"kueue.x-k8s.io/safe-to-forcefully-delete": "true"}
LOST = [{"key": "node.kubernetes.io/unreachable", "effect": "NoExecute"}]
ON = {"FailureRecoveryPolicy": True}


def _node(taints: list[dict[str, str]]) -> Json:
    spec = {"taints": taints}
    return {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n1"}, "spec": spec}


def _pod(name: str, annotations: dict[str, str]) -> Json:
    meta = {"name": name, "namespace": "team", "annotations": annotations}
    container = {"name": "c", "image": "i"}
    spec = {"nodeName": "n1", "containers": [container]}
    # A finalizer stands for the kubelet that would have to confirm the end.
    meta["finalizers"] = ["example.com/kubelet"]
    return {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": spec}


def _phases(stage: Stage) -> dict[str, str]:
    return {
        each["metadata"]["name"]: (each.get("status") or {}).get("phase", "")
        for each in stage.api.all(PODS)
    }


async def _lose(stage: Stage, *taints: dict[str, str]) -> None:
    await stage.api.apply(_node([]), _pod("safe", SAFE), _pod("dear", {}))
    for name in ("safe", "dear"):
        await stage.api.delete(PODS, Key("team", name))
    await stage.api.apply(_node(list(taints)))


def test_a_pod_that_may_be_given_up_fails_a_minute_after_it_should_have_gone() -> None:
    async def scene(stage: Stage) -> None:
        await _lose(stage, *LOST)
        await stage.rest(50)
        assert {"safe": "", "dear": ""} == _phases(stage)
        await stage.rest(20)
        assert {"safe": "Failed", "dear": ""} == _phases(stage)
        assert ["KueueForcefullyDeleted"] == stage.events("Pod")
        writes = stage.api.writes
        await stage.rest(600)
        assert writes == stage.api.writes

    run_scene(scene, gates=ON)


def test_a_pod_on_a_node_that_answers_is_waited_for_until_the_node_is_lost() -> None:
    async def scene(stage: Stage) -> None:
        await _lose(stage)
        await stage.rest(300)
        assert {"safe": "", "dear": ""} == _phases(stage)
        await stage.api.apply(_node(LOST))
        await stage.rest()
        assert {"safe": "Failed", "dear": ""} == _phases(stage)

    run_scene(scene, gates=ON)


def test_no_pod_is_terminated_while_the_gate_is_off() -> None:
    async def scene(stage: Stage) -> None:
        await _lose(stage, *LOST)
        await stage.rest(300)
        assert {"safe": "", "dear": ""} == _phases(stage)

    run_scene(scene)


def test_a_pod_that_cannot_be_decoded_does_not_end_the_process() -> None:
    async def scene(stage: Stage) -> None:
        broken = _pod("broken", SAFE)
        broken["spec"]["nodeName"] = 7
        await stage.api.apply(broken)
        await _lose(stage, *LOST)
        await stage.rest(70)
        assert not stage.running.done()
        assert {"broken": "", "safe": "Failed", "dear": ""} == _phases(stage)

    run_scene(scene, gates=ON)
