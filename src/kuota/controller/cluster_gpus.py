# SPDX-License-Identifier: Apache-2.0
"""The GPUs that pods of a cluster hold, as the dashboard shows them.

The dashboard reads the exporters itself, also while nobody views it: a device is idle only after
its utilization was low for some time. Events and metrics about idle devices are the controller's.
"""

from __future__ import annotations

from kuota.api.base import Json
from kuota.api.owners import controller_of
from kuota.bridge.conditions import timestamp
from kuota.failures import retried
from kuota.kube.client import Client
from kuota.kube.clock import Clock
from kuota.utilization.cluster_devices import ClusterDevices, PodWorkload, ReadSamples
from kuota.utilization.monitor import IdleMonitor
from kuota.view.devices import DeviceRow
from kuota.view.idle import HeldDevice, IdlePeriod, IdlePolicy


class ClusterGpus:
    """The devices of the last readings while `run` runs. `read` returns those of exporters."""

    def __init__(self, read: ReadSamples, policy: IdlePolicy, client: Client, clock: Clock) -> None:
        # The dashboard finds the Workload of a pod itself.
        self._devices = ClusterDevices(read, client, lambda pod: PodWorkload("", "", {}), clock)
        self.monitor = IdleMonitor(self._devices, policy, observe=self._observe, clock=clock)
        self._held: list[HeldDevice] = []

    async def run(self) -> None:
        """Read until cancelled."""
        await retried("reading GPUs for the dashboard", self.monitor.run)

    async def rows(self) -> list[DeviceRow]:
        """Return the devices with all their holders, which are hidden from viewers afterwards."""
        return [self._row(each) for each in self._held]

    def _observe(
        self, held: list[HeldDevice], idle: tuple[IdlePeriod, ...], added_s: tuple[float, ...]
    ) -> None:
        self._held = held

    def _row(self, device: HeldDevice) -> DeviceRow:
        holder, percent = device.holder, device.utilization_percent
        pod: Json = next(iter(self._devices.regarding(holder)), {})
        owner = controller_of(pod) if pod else None
        idle_since = self.monitor.tracker.idle_since(holder.pod_uid, device.device)
        return DeviceRow(
            node=str((pod.get("spec") or {}).get("nodeName") or ""),
            resource=device.resource,
            id=device.device,
            held=True,
            namespace=holder.namespace,
            pod=holder.pod,
            job=f"{owner['kind']}/{owner['name']}" if owner is not None else "",
            since=str((pod.get("status") or {}).get("startTime") or ""),
            utilization_percent=round(percent) if percent is not None else None,
            idle_since=timestamp(idle_since) if idle_since is not None else "",
        )
