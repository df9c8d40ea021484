# SPDX-License-Identifier: Apache-2.0
"""Watches the utilization of GPUs in a cluster, if exporters are configured."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from kuota.failures import retried
from kuota.kube.client import Client
from kuota.kube.clock import Clock
from kuota.utilization.sources import DeviceSources
from kuota.view.idle import IdlePolicy

if TYPE_CHECKING:
    from kuota.control.system import System
    from kuota.metrics.metrics import Metrics


class DeviceSettings(msgspec.Struct, frozen=True):
    """Where readings come from, and when a device is idle. Without sources nothing is read."""

    sources: DeviceSources = DeviceSources()
    policy: IdlePolicy = IdlePolicy()


async def watch_devices(
    settings: DeviceSettings,
    system: System,
    metrics: Metrics,
    client: Client,
    clock: Clock,
) -> None:
    """Report idle devices until cancelled. Only the leader runs this, because it records Events."""
    from kuota.api.base import Json
    from kuota.control.pod_workloads import workload_of_pod
    from kuota.utilization.cluster_devices import ClusterDevices, PodWorkload
    from kuota.utilization.exporters import SourceReader
    from kuota.utilization.monitor import IdleMonitor

    def workload_of(pod: Json) -> PodWorkload | None:
        found = workload_of_pod(system.cache, pod)
        if found is None or found.value is None:
            return None
        admission = found.value.obj.status.admission
        queue = admission.cluster_queue if admission is not None else ""
        return PodWorkload(found.key.name, queue, found.json)

    devices = ClusterDevices(SourceReader(settings.sources).read, client, workload_of, clock)
    recorder, observe = system.sender.recorder, metrics.own.measured
    monitor = IdleMonitor(devices, settings.policy, recorder, observe=observe, clock=clock)
    await retried("watching devices", monitor.run)
