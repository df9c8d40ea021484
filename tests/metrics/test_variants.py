# SPDX-License-Identifier: Apache-2.0
"""Variants and their parent count as one workload."""

from __future__ import annotations

from control.objects import flavor, job, local_queue, queue
from control.stage import Stage, run_scene
from kuota.api.base import Json
from kuota.kube.resources import CLUSTER_QUEUES
from metrics.shown import Scrape, along

QUEUE = {"cluster_queue": "cq", "priority_class": ""}
POLICY: Json = {"concurrentAdmissionPolicy": {"migration": {"mode": "TryPreferredFlavors"}}}


def test_a_family_is_counted_once_at_every_step() -> None:
    async def scene(stage: Stage) -> None:
        metrics = along(stage, gates={"ConcurrentAdmission": True})
        await stage.api.apply(flavor("reserved"), flavor("spot"), local_queue())
        await stage.api.apply(queue("cq", flavors={"reserved": 0, "spot": 4}, **POLICY))
        await stage.api.apply(job("a", "4"), job("b", "9"))
        await stage.rest(20)
        waiting = Scrape(metrics).all("unadmitted_workloads")
        assert [1.0] == [count for labels, count in waiting if labels["cluster_queue"] == "cq"]
        groups = queue("cq", flavors={"reserved": 4, "spot": 4})["spec"]["resourceGroups"]
        await stage.edit(CLUSTER_QUEUES, "cq", {"spec": {"resourceGroups": groups}})
        await stage.rest(20)
        shown = Scrape(metrics)
        # On spot first, then on reserved: once each, and moved once in between.
        assert 2 == shown("admitted_workloads_total", **QUEUE)
        assert 2 == shown("quota_reserved_workloads_total", **QUEUE)
        moved = {"reason": "FlavorMigration", "underlying_cause": ""}
        assert 1 == shown("evicted_workloads_total", **QUEUE, **moved)
        assert shown("evicted_workloads_total", reason="VariantEvicted") is None
        await stage.kubelet.succeed("a")
        await stage.rest(20)
        shown = Scrape(metrics)
        assert 1 == shown("finished_workloads_total", **QUEUE)
        assert 1 == shown("finished_workloads", cluster_queue="cq")

    run_scene(scene, gates={"ConcurrentAdmission": True})
