# SPDX-License-Identifier: Apache-2.0
"""From a Job to its end: queued, admitted, started, finished."""

from __future__ import annotations

from control.stage import Stage, flavor, job, local_queue, queue, told
from kuota.kube.resources import CLUSTER_QUEUES


def test_a_job_is_queued_admitted_started_and_finished() -> None:
    async def scene(stage: Stage) -> None:
        await stage.api.apply(flavor(nodeLabels={"tier": "gold"}), queue("cq"), local_queue())
        await stage.api.apply(job("a", "2", parallelism=2))
        await stage.rest()
        assert "True/Admitted" == stage.says("a", "Admitted")
        assert not stage.suspended("a")
        template = stage.job("a")["spec"]["template"]
        assert {"tier": "gold"} == template["spec"]["nodeSelector"]
        labels = template["metadata"]["labels"]
        assert "main" == labels["kueue.x-k8s.io/podset"]
        assert "main" == labels["kueue.x-k8s.io/local-queue-name"]
        assert "cq" == labels["kueue.x-k8s.io/cluster-queue-name"]
        assert 2 == stage.active("a")
        used = stage.get(CLUSTER_QUEUES, "cq")["status"]["flavorsUsage"]
        assert "4" == used[0]["resources"][0]["total"]
        await stage.kubelet.succeed("a", 2)
        await stage.rest()
        assert "True/Succeeded" == stage.says("a", "Finished")
        assert "finalizers" not in stage.workload("a")["metadata"]
        used = stage.get(CLUSTER_QUEUES, "cq")["status"]["flavorsUsage"]
        assert "0" == used[0]["resources"][0]["total"]
        assert ["CreatedWorkload", "Started", "FinishedWorkload"] == stage.events("Job", "a")[:3]

    told(scene)
