# SPDX-License-Identifier: Apache-2.0
"""Gangs whose nodes an autoscaler adds first: quota is reserved, and pods are placed afterwards."""

from __future__ import annotations

import pytest

from control import autoscaler
from control.autoscaler import POOL, node
from control.objects import job
from control.racks import placement
from control.stage import Stage, run_scene
from control.test_provisioning import autoscaling, config, furnish, state
from kuota.api.base import Json

HOST = "kubernetes.io/hostname"
HOSTS: Json = {
    "apiVersion": "kueue.x-k8s.io/v1beta2",
    "kind": "Topology",
    "metadata": {"name": "hosts"},
    "spec": {"levels": [{"nodeLabel": HOST}]},
}


def _gpu_node(name: str, pool: str = "") -> Json:
    made = node(name, pool)
    made["metadata"]["labels"]["kind"] = "gpu"
    return made


def test_pods_are_placed_on_the_nodes_that_were_added_for_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(autoscaler, "node", _gpu_node)

    async def scene(stage: Stage) -> None:
        selector = {"key": POOL, "valueFromProvisioningClassDetail": "pool"}
        settings = config(podSetUpdates={"nodeSelector": [selector]})
        async with autoscaling(stage):
            await stage.api.apply(HOSTS, _gpu_node("decoy"))
            await furnish(stage, settings, nodeLabels={"kind": "gpu"}, topologyName="hosts")
            made = job("train", parallelism=2, completions=2)
            annotations = {"kueue.x-k8s.io/podset-preferred-topology": HOST}
            made["spec"]["template"]["metadata"] = {"annotations": annotations}
            await stage.api.apply(made)
            await stage.rest(5)
            [given] = stage.workload("train")["status"]["admission"]["podSetAssignments"]
            assert "Pending" == given["delayedTopologyRequest"]
            assert "topologyAssignment" not in given
            assert "Pending" == state(stage)["state"]
            assert stage.suspended("train")

            await stage.rest(70)
            [given] = stage.workload("train")["status"]["admission"]["podSetAssignments"]
            assert "Ready" == given["delayedTopologyRequest"]
            placed = placement(stage, "train") or []
            assert 2 == len(placed)
            assert "decoy" not in placed
            assert "True/Admitted" == stage.says("train", "Admitted")
            assert not stage.suspended("train")

    run_scene(scene)
