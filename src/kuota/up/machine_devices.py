# SPDX-License-Identifier: Apache-2.0
"""The allocated devices of this machine, their utilization, and the pods and Workloads of both.

A simulated device has no utilization of its own. It shows the CPU usage of the pod that holds it,
so that users can see what an idle device looks like.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping, Sequence

from kuota.api.base import Json
from kuota.bridge.draft import StoredWorkload
from kuota.control.cached_object import CachedObject
from kuota.control.cluster_cache import ClusterCache
from kuota.control.pod_workloads import workload_of_pod
from kuota.kube.events import Recorder
from kuota.runner.device_readings import DeviceReading, readings
from kuota.runner.devices import Device
from kuota.runner.inventory import is_pretended
from kuota.runner.runner import Runner
from kuota.runner.usage import UsageSampler
from kuota.server.api import ApiServer
from kuota.utilization.monitor import IdleMonitor, Observe, Record
from kuota.view.idle import DeviceHolder, HeldDevice, IdlePolicy

from .device_extension import DeviceExtension

_CORE_NANO = 10**9


class MachineDevices:
    """A `kuota.utilization.monitor.Readings` of this machine."""

    def __init__(self, runner: Runner, sampler: UsageSampler, cache: ClusterCache) -> None:
        self.runner = runner
        self._sampler = sampler
        self._cache = cache

    async def readings(self, devices: Sequence[Device]) -> Mapping[str, DeviceReading]:
        """Return the current readings by device, without devices that have none."""
        real = [each.id for each in devices if not is_pretended(each.id)]
        found = await asyncio.to_thread(readings, real) if real else {}
        simulated = [each for each in devices if is_pretended(each.id)]
        if not any(each.holder for each in simulated):
            return found
        percent = await self._cpu_percent()
        return {
            **found,
            **{
                each.id: DeviceReading(utilization_percent=percent.get(each.holder, 0))
                for each in simulated
                if each.holder
            },
        }

    async def held(self) -> list[HeldDevice]:
        """Return every allocated device with its utilization."""
        allocated = [each for each in self.runner.devices() if each.holder]
        found = await self.readings(allocated)
        held = []
        for each in allocated:
            holder = self.holder(each.holder)
            if holder is not None:
                percent = found.get(each.id, DeviceReading()).utilization_percent
                held.append(HeldDevice(each.id, each.resource, holder, percent))
        return held

    def holder(self, uid: str) -> DeviceHolder | None:
        """Return the pod with this uid; None if it no longer runs here."""
        worker = self.runner.worker(uid)
        if worker is None:
            return None
        metadata = worker.pod["metadata"]
        workload = self._workload(uid)
        obj = workload.value.obj if workload is not None and workload.value is not None else None
        admission = obj.status.admission if obj is not None else None
        return DeviceHolder(
            namespace=metadata["namespace"],
            pod=metadata["name"],
            pod_uid=uid,
            workload=obj.metadata.name if obj is not None else "",
            cluster_queue=admission.cluster_queue if admission is not None else "",
        )

    def workload_name(self, uid: str) -> str:
        """Return the name of the Workload of a pod; "" if it has none."""
        holder = self.holder(uid)
        return holder.workload if holder is not None else ""

    def regarding(self, holder: DeviceHolder) -> Iterator[Json]:
        """Yield the pod and its Workload."""
        worker = self.runner.worker(holder.pod_uid)
        if worker is not None:
            yield {"apiVersion": "v1", "kind": "Pod", **worker.pod}
        workload = self._workload(holder.pod_uid)
        if workload is not None and workload.value is not None:
            yield workload.json

    def _workload(self, uid: str) -> CachedObject[StoredWorkload] | None:
        worker = self.runner.worker(uid)
        return workload_of_pod(self._cache, worker.pod) if worker is not None else None

    async def _cpu_percent(self) -> dict[str, int]:
        """Return the CPU usage of each pod, at most that of one core."""
        used: dict[str, int] = {}
        for (uid, _), usage in (await self._sampler.usage()).items():
            used[uid] = used.get(uid, 0) + usage.cpu_nano
        return {uid: min(100, nano * 100 // _CORE_NANO) for uid, nano in used.items()}


def serve_devices(
    api: ApiServer,
    devices: MachineDevices,
    policy: IdlePolicy,
    events: Recorder,
    observe: Observe,
    record: Record | None = None,
) -> IdleMonitor:
    """Serve the devices, and return the monitor that finds idle ones while it runs."""
    monitor = IdleMonitor(devices, policy, events, observe=observe, record=record)
    api.extensions.append(
        DeviceExtension(
            devices.runner.devices,
            devices.runner.worker,
            api.roles,
            read=devices.readings,
            workload=devices.workload_name,
            idle_since=monitor.tracker.idle_since,
        )
    )
    return monitor
