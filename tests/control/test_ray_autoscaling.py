# SPDX-License-Identifier: Apache-2.0
"""Elastic Ray jobs, whose autoscaler decides about their size."""

from __future__ import annotations

from bridge.jobs.kinds import BY_NAME, EXAMPLES
from control.objects import workload_class
from control.stage import Stage, run_scene
from control.test_job_kinds import example, stage_for, submitted
from kuota.api.base import Json
from kuota.api.rules.metadata import ELASTIC_JOB
from kuota.bridge.jobs.fields import put
from kuota.kube.resources import Resource


def test_an_elastic_ray_job_follows_the_autoscaler_of_its_cluster() -> None:
    kind, cluster = BY_NAME["RayJob"], BY_NAME["RayCluster"]
    jobs, clusters = (Resource.of(each.gvk, each.plural) for each in (kind, cluster))

    def live(workers: int) -> Json:
        spec = EXAMPLES["RayCluster"]["spec"] | {"suspend": False}
        scaled = put(spec, ("workerGroupSpecs", 0, "replicas"), workers)
        meta = {"name": "live", "namespace": "team"}
        return {"apiVersion": "ray.io/v1", "kind": "RayCluster", "metadata": meta, "spec": scaled}

    async def scene(stage: Stage) -> None:
        await stage.furnish(20)
        await stage.api.apply(workload_class("low", 1))
        new = put(example("RayJob"), ("metadata", "annotations"), {ELASTIC_JOB: "true"})
        scaling = {"enableInTreeAutoscaling": True, "autoscalerOptions": {"resources": {}}}
        new["spec"]["rayClusterSpec"] = new["spec"]["rayClusterSpec"] | scaling
        await stage.api.create(jobs, submitted(kind, new))
        await stage.rest()
        assert not kind.suspended(stage.get(jobs, "j"))
        uid = stage.get(jobs, "j")["metadata"]["uid"]
        owner = {"apiVersion": "ray.io/v1", "kind": "RayJob", "name": "j", "uid": uid}
        owned = live(3)
        owned["metadata"]["ownerReferences"] = [owner | {"controller": True}]
        await stage.api.create(clusters, owned)
        await stage.status(jobs, "j", {"rayClusterName": "live"})
        await stage.rest()
        await stage.edit(clusters, "live", {"spec": live(5)["spec"]})
        await stage.rest()
        found = {
            each["spec"]["podSets"][1]["count"]: each["status"]["conditions"]
            for each in stage.workloads("j")
        }
        assert {3, 5} == set(found)
        replaced = next(each for each in found[3] if each["type"] == "Finished")
        assert "WorkloadSliceReplaced" == replaced["reason"]
        assert [] == stage.workloads("live"), "the RayJob is queued for both"

    config, gates = stage_for(kind)
    config["integrations"]["frameworks"].append(cluster.framework)
    run_scene(scene, config=config, gates=gates)
