# SPDX-License-Identifier: Apache-2.0
"""Simulated GPUs and nodes with real processes: assignment and waiting."""

from __future__ import annotations

from pathlib import Path

from kuota.api.base import Json, Key
from kuota.kube.resources import NODES, PODS
from kuota.runner.nodes import NodePlan, described
from runner.machine import World, container, gpus, one_node, pod, story

NODES_FILE = """
kind: Node
metadata: {name: left, labels: {side: left}}
spec: {taints: [{key: reserved, value: "yes", effect: NoSchedule}]}
status: {capacity: {cpu: 4, memory: 8Gi, nvidia.com/gpu: 1}}
---
kind: Node
metadata: {name: right, labels: {side: right}}
status: {capacity: {cpu: 4, memory: 8Gi}}
"""


def scheduled(obj: Json) -> Json:
    found = [
        each for each in obj["status"].get("conditions") or () if each["type"] == "PodScheduled"
    ]
    return found[0] if found else {"status": "", "message": ""}


def test_each_process_sees_its_own_gpus_and_the_last_one_waits_for_them(tmp_path: Path) -> None:
    async def work(world: World) -> None:
        script = "echo $CUDA_VISIBLE_DEVICES; sleep 100"
        for name, count in (("one", 1), ("two", 2), ("three", 2)):
            await world.submit(pod(name, container(script, resources=gpus(count))))
            if name != "three":
                await world.phase(name, "Running")
                await world.line(name, "\n")
        seen = [(await world.log(name)).strip() for name in ("one", "two")]
        assert ["GPU-pretend-0", "GPU-pretend-1,GPU-pretend-2"] == seen
        waiting = await world.until(PODS, "three", lambda obj: scheduled(obj)["status"] == "False")
        message = "0/1 nodes are available: 1 Insufficient nvidia.com/gpu."
        assert message == scheduled(waiting)["message"]
        await world.client.delete(PODS, Key("team", "two"))
        await world.phase("three", "Running")
        await world.line("three", "\n")
        assert "GPU-pretend-1,GPU-pretend-2" == (await world.log("three")).strip()

    story(tmp_path, work, one_node(gpus=3))


def test_pods_find_their_pretend_nodes_and_all_run_here(tmp_path: Path) -> None:
    async def work(world: World) -> None:
        tolerations = [{"key": "reserved", "operator": "Exists"}]
        await world.submit(
            pod("gpu", container("true", resources=gpus(1)), tolerations=tolerations)
        )
        await world.submit(pod("plain", container("true"), nodeSelector={"side": "right"}))
        await world.submit(pod("lost", container("true", resources=gpus(1))))
        assert "left" == (await world.phase("gpu", "Succeeded"))["spec"]["nodeName"]
        assert "right" == (await world.phase("plain", "Succeeded"))["spec"]["nodeName"]
        lost = await world.until(PODS, "lost", lambda obj: scheduled(obj)["status"] == "False")
        assert "untolerated taint {reserved: yes}" in scheduled(lost)["message"]
        left = await world.client.get(NODES, Key("", "left"))
        assert "1" == left["status"]["allocatable"]["nvidia.com/gpu"]
        ready = [each for each in left["status"]["conditions"] if each["type"] == "Ready"]
        assert "True" == ready[0]["status"]

    story(tmp_path, work, described(NODES_FILE))


def test_a_restart_with_other_nodes_takes_up_what_runs_on_the_former_ones(tmp_path: Path) -> None:
    async def work(world: World) -> None:
        await world.submit(pod("old", container("sleep 100", resources=gpus(1))))
        await world.phase("old", "Running")
        await world.stop()
        (machine,) = one_node(gpus=1)
        renamed = {**machine.node, "metadata": {**machine.node["metadata"], "name": "renamed"}}
        world.plans = [NodePlan(renamed, machine.devices)]
        world.start()
        here = await world.until(NODES, "here", lambda obj: ready(obj) == "False")
        assert "here" == here["metadata"]["name"]
        await world.submit(pod("new", container("sleep 100", resources=gpus(1))))
        waiting = await world.until(PODS, "new", lambda obj: obj["spec"].get("nodeName"))
        assert ("renamed", "Pending") == (waiting["spec"]["nodeName"], waiting["status"]["phase"])
        await world.client.delete(PODS, Key("team", "old"), grace_s=1)
        await world.phase("new", "Running")
        await world.stop()
        world.start()
        await world.gone(NODES, "here")

    story(tmp_path, work, one_node(gpus=1))


def test_what_a_file_no_longer_says_of_a_node_goes_and_what_others_said_stays(
    tmp_path: Path,
) -> None:
    async def work(world: World) -> None:
        await world.until(NODES, "left", lambda obj: ready(obj) == "True")
        mine = {"metadata": {"labels": {"mine": "1"}}}
        await world.client.patch(NODES, Key("", "left"), mine)
        await world.stop()
        taint = 'spec: {taints: [{key: reserved, value: "yes", effect: NoSchedule}]}\n'
        assert taint in NODES_FILE
        world.plans = described(NODES_FILE.replace(taint, "").replace("side: left", "row: one"))
        world.start()
        node = await world.until(NODES, "left", lambda obj: not obj["spec"].get("taints"))
        labels = node["metadata"]["labels"]
        assert ("1", "one", None) == tuple(labels.get(each) for each in ("mine", "row", "side"))

    story(tmp_path, work, described(NODES_FILE))


def ready(node: Json) -> str:
    found = [each for each in node["status"].get("conditions") or () if each["type"] == "Ready"]
    return str(found[0]["status"]) if found else ""
