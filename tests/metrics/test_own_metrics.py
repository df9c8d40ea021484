# SPDX-License-Identifier: Apache-2.0
"""The metrics that Kueue does not have, during the lifecycle of workloads in virtual time."""

from __future__ import annotations

from typing import Any

import pytest

from control.objects import flavor, job, local_queue, workload_class
from control.stage import Stage, run_scene
from kuota.api.base import Json, Key
from kuota.kube.resources import CLUSTER_QUEUES, JOBS, LOCAL_QUEUES
from kuota.metrics import own_catalog as names
from kuota.metrics.metrics import FOLLOWER, LEADER
from metrics.shown import Scrape, along

GPU = "nvidia.com/gpu"
AT = {"cluster_queue": "cq", "team": "team", "flavor": "default", "resource": GPU}
HIGH = {"kueue.x-k8s.io/priority-class": "high"}


def gpu_queue(name: str = "cq", gpus: int = 2, **spec: Any) -> Json:
    quota = {"name": "default", "resources": [{"name": GPU, "nominalQuota": str(gpus)}]}
    group = {"coveredResources": [GPU], "flavors": [quota]}
    return {
        "apiVersion": "kueue.x-k8s.io/v1beta2",
        "kind": "ClusterQueue",
        "metadata": {"name": name},
        "spec": {"namespaceSelector": {}, "resourceGroups": [group]} | spec,
    }


def gpu_job(name: str, gpus: int = 1, **given: Any) -> Json:
    made = job(name, **given)
    container = made["spec"]["template"]["spec"]["containers"][0]
    container["resources"] = {"requests": {GPU: str(gpus)}, "limits": {GPU: str(gpus)}}
    return made


def test_devices_are_counted_while_they_are_held() -> None:
    async def scene(stage: Stage) -> None:
        metrics = along(stage)
        await stage.api.apply(flavor(), gpu_queue(), local_queue(), gpu_job("a", 2))
        await stage.rest(100)
        assert Scrape(metrics)(names.USED, **AT) == pytest.approx(200, abs=6)
        await stage.kubelet.succeed("a")
        await stage.rest(500)
        assert Scrape(metrics)(names.USED, **AT) == pytest.approx(200, abs=8)
        assert Scrape(metrics)(names.LOST, **AT) is None

    run_scene(scene)


def test_an_eviction_counts_as_lost_and_a_restart_is_measured() -> None:
    async def scene(stage: Stage) -> None:
        metrics = along(stage)
        preempts = gpu_queue(gpus=1, preemption={"withinClusterQueue": "LowerPriority"})
        await stage.api.apply(flavor(), preempts, local_queue(), workload_class("high", 9))
        await stage.api.apply(gpu_job("low"))
        await stage.rest(50)
        await stage.api.apply(gpu_job("urgent", labels=HIGH))
        await stage.rest(30)
        assert Scrape(metrics)(names.LOST, **AT, reason="Preempted") == pytest.approx(50, abs=5)
        assert not Scrape(metrics).all(f"{names.RESTART}_count")
        await stage.kubelet.succeed("urgent")
        await stage.rest(20)
        restart = {"cluster_queue": "cq", "reason": "Preempted"}
        assert 1 == Scrape(metrics)(f"{names.RESTART}_count", **restart)
        assert Scrape(metrics)(f"{names.RESTART}_sum", **restart) == pytest.approx(30, abs=5)

    run_scene(scene)


def test_the_oldest_pending_workload_and_the_pending_amounts_are_shown() -> None:
    async def scene(stage: Stage) -> None:
        metrics = along(stage)
        await stage.api.apply(flavor(), gpu_queue(), local_queue())
        await stage.rest()
        pair = {"cluster_queue": "cq", "team": "team"}
        assert 0 == Scrape(metrics)(names.OLDEST_PENDING, **pair)
        await stage.api.apply(gpu_job("big", 5))
        await stage.rest(60)
        await stage.api.apply(gpu_job("bigger", 7))
        await stage.rest(40)
        assert Scrape(metrics)(names.OLDEST_PENDING, **pair) == pytest.approx(100, abs=4)
        assert 12 == Scrape(metrics)(names.PENDING, **AT)
        await stage.api.delete(JOBS, Key("team", "big"))
        await stage.rest(10)
        assert Scrape(metrics)(names.OLDEST_PENDING, **pair) == pytest.approx(50, abs=5)
        assert 7 == Scrape(metrics)(names.PENDING, **AT)
        await stage.api.delete(JOBS, Key("team", "bigger"))
        await stage.rest(10)
        assert 0 == Scrape(metrics)(names.OLDEST_PENDING, **pair)
        assert 0 == Scrape(metrics)(names.PENDING, **AT)

    run_scene(scene)


def test_lent_devices_count_for_the_queue_that_owns_the_quota() -> None:
    async def scene(stage: Stage) -> None:
        metrics = along(stage)
        await stage.api.apply(flavor(), local_queue())
        await stage.api.apply(gpu_queue(gpus=1, cohortName="all"))
        await stage.api.apply(gpu_queue("lender", gpus=3, cohortName="all"))
        await stage.api.apply(local_queue("idle", "lender"))
        await stage.api.apply(gpu_job("a", 3))
        await stage.rest(20)
        first = Scrape(metrics)(names.LENT, cluster_queue="lender", team="team", resource=GPU)
        await stage.rest(100)
        then = Scrape(metrics)(names.LENT, cluster_queue="lender", team="team", resource=GPU)
        assert first is not None
        assert then is not None
        assert then - first == pytest.approx(200, abs=1)
        assert Scrape(metrics)(names.LENT, cluster_queue="cq") is None

    run_scene(scene)


def test_series_of_deleted_queues_and_teams_are_dropped() -> None:
    async def scene(stage: Stage) -> None:
        metrics = along(stage)
        await stage.api.apply(flavor(), gpu_queue(), local_queue(), gpu_job("a"))
        await stage.rest(20)
        await stage.kubelet.succeed("a")
        await stage.rest(20)
        assert {names.USED, names.OLDEST_PENDING} <= _own(metrics)
        await stage.api.delete(LOCAL_QUEUES, Key("team", "main"))
        await stage.rest(20)
        assert set() == _own(metrics)
        await stage.api.delete(CLUSTER_QUEUES, Key("", "cq"))
        await stage.rest(20)
        assert set() == _own(metrics)

    run_scene(scene)


def _own(metrics: Any) -> set[str]:
    return {each.name for each in Scrape(metrics).samples if each.name in names.OWN_METRICS}


def test_resources_without_quota_get_no_series() -> None:
    async def scene(stage: Stage) -> None:
        metrics = along(stage)
        await stage.api.apply(flavor(), gpu_queue(), local_queue())
        for number in range(5):
            made = gpu_job(f"odd-{number}")
            container = made["spec"]["template"]["spec"]["containers"][0]
            odd = {f"example.com/odd-{number}": "1"}
            container["resources"] = {"requests": odd, "limits": odd}
            await stage.api.apply(made)
        await stage.rest(20)
        assert {GPU} == {labels["resource"] for labels, _ in Scrape(metrics).all(names.PENDING)}

    run_scene(scene)


def test_only_the_leader_counts_and_it_begins_with_zero() -> None:
    async def scene(stage: Stage) -> None:
        metrics = along(stage)
        metrics.role = FOLLOWER
        await stage.api.apply(flavor(), gpu_queue(), local_queue(), gpu_job("a"))
        await stage.rest(1000)
        assert Scrape(metrics)(names.USED, **AT) is None
        metrics.role = LEADER
        assert 0 == Scrape(metrics)(names.USED, **AT)
        await stage.rest(100)
        assert Scrape(metrics)(names.USED, **AT) == pytest.approx(100, abs=1)

    run_scene(scene)


def test_a_restarted_controller_measures_what_it_missed_of_a_run_that_is_lost() -> None:
    async def scene(stage: Stage) -> None:
        preempts = gpu_queue(gpus=1, preemption={"withinClusterQueue": "LowerPriority"})
        await stage.api.apply(flavor(), preempts, local_queue(), workload_class("high", 9))
        await stage.api.apply(gpu_job("low"))
        await stage.rest(50)
        await stage.stop()
        stage.start()
        metrics = along(stage)
        await stage.rest(10)
        await stage.api.apply(gpu_job("urgent", labels=HIGH))
        await stage.rest(30)
        assert Scrape(metrics)(names.LOST, **AT, reason="Preempted") == pytest.approx(60, abs=6)

    run_scene(scene)
