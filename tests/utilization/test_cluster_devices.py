# SPDX-License-Identifier: Apache-2.0
"""Idle GPUs of a cluster, from the text of an exporter to Events and metrics, in virtual time."""

from __future__ import annotations

from collections.abc import Sequence

from control.objects import job
from control.stage import Stage, run_scene
from kuota.api.base import Json, Key
from kuota.control.pod_workloads import workload_of_pod
from kuota.kube.resources import CORE_EVENTS, PODS
from kuota.metrics import own_catalog as names
from kuota.utilization.cluster_devices import ClusterDevices, PodWorkload
from kuota.utilization.dcgm import DeviceSample, exporter_samples
from kuota.utilization.monitor import IdleMonitor
from kuota.view.idle import IdlePolicy
from metrics.shown import Scrape, along
from utilization.exported import EXPORTED


def pod(name: str, workload: str) -> Json:
    limits = {"nvidia.com/gpu": "1"}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": name,
            "namespace": "team",
            "annotations": {"kueue.x-k8s.io/workload": workload} if workload else {},
        },
        "spec": {"containers": [{"name": "main", "image": "i", "resources": {"limits": limits}}]},
    }


def test_idle_gpus_of_workloads_are_reported_and_those_of_other_pods_are_not() -> None:
    async def scene(stage: Stage) -> None:
        metrics = along(stage)
        await stage.furnish()
        await stage.api.apply(job("a"))
        await stage.rest()
        (workload,) = stage.system.cache.workloads.values()
        name = workload.key.name
        await stage.api.apply(pod("notebook-0", name), pod("train-0", name), pod("mig-0", ""))
        reads = []

        async def read() -> Sequence[DeviceSample]:
            reads.append(1)
            return exporter_samples(EXPORTED)

        def workload_of(found: Json) -> PodWorkload | None:
            known = workload_of_pod(stage.system.cache, found)
            return PodWorkload(known.key.name, "cq", known.json) if known is not None else None

        devices = ClusterDevices(read, stage.api, workload_of, stage.clock)
        recorder = stage.system.sender.recorder
        monitor = IdleMonitor(
            devices, IdlePolicy(5, 60), recorder, observe=metrics.own.measured, clock=stage.clock
        )
        for _ in range(10):
            await monitor.round()
            await stage.rest(15)
        events = [
            (each["involvedObject"]["kind"], each["involvedObject"]["name"], each["message"])
            for each in stage.api.all(CORE_EVENTS)
            if each["reason"] == "DeviceIdle"
        ]
        assert {("Pod", "notebook-0"), ("Workload", name)} == {each[:2] for each in events}
        assert 2 == len(events)
        assert "GPU-22222222-bbbb" in events[0][2]
        place = {"cluster_queue": "cq", "team": "team", "resource": "nvidia.com/gpu"}
        shown = Scrape(metrics)
        assert 1 == shown(names.IDLE_NOW, **place)
        assert 135 == shown(names.IDLE, **place)
        assert 48.5 == shown(names.UTILIZATION, workload=name, **place)
        assert 10 == len(reads)

    run_scene(scene)


def test_a_pod_with_the_name_of_an_earlier_one_is_another_pod() -> None:
    async def scene(stage: Stage) -> None:
        await stage.furnish()
        await stage.api.apply(job("a"))
        await stage.rest()
        (workload,) = stage.system.cache.workloads.values()

        async def read() -> Sequence[DeviceSample]:
            return [DeviceSample("team", "p", "main", "GPU-1", 0.0)]

        def workload_of(found: Json) -> PodWorkload | None:
            return PodWorkload(workload.key.name, "cq", workload.json)

        devices = ClusterDevices(read, stage.api, workload_of, stage.clock)
        assert [] == await devices.held()
        await stage.rest(31)
        await stage.api.apply(pod("p", workload.key.name))
        (first,) = await devices.held()
        await stage.api.delete(PODS, Key("team", "p"))
        await stage.api.apply(pod("p", workload.key.name))
        await stage.rest(601)
        (second,) = await devices.held()
        assert first.holder.pod_uid != second.holder.pod_uid

    run_scene(scene)
