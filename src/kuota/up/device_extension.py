# SPDX-License-Identifier: Apache-2.0
"""Serves the devices of this machine: who holds them since when, and how busy they are.

Everyone who may read Nodes sees all devices. The holder is named to those who may read its pod.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from datetime import UTC, datetime

import msgspec

from kuota.api.base import Json
from kuota.api.owners import controller_of
from kuota.api.status import not_allowed
from kuota.kube.clock import time_text
from kuota.runner.device_readings import DeviceReading, readings
from kuota.runner.devices import Device
from kuota.runner.pod_worker import PodWorker
from kuota.server.auth import AccessAttributes, Roles
from kuota.server.requests import Request, Response
from kuota.server.status import no_such_path
from kuota.view.devices import DEVICES_PATH, GROUP, DeviceRow


async def nvml_readings(devices: Sequence[Device]) -> Mapping[str, DeviceReading]:
    """Return what NVML reports about devices."""
    return await asyncio.to_thread(readings, [each.id for each in devices])


class DeviceExtension:
    """A `kuota.server.api.Extension` for devices.

    By the uid of a pod, `worker` finds its worker and `workload` the name of its Workload.
    `idle_since` returns since when a pod leaves a device idle.
    """

    prefix = f"/apis/{GROUP}"

    def __init__(
        self,
        devices: Callable[[], Sequence[Device]],
        worker: Callable[[str], PodWorker | None],
        roles: Roles,
        *,
        read: Callable[[Sequence[Device]], Awaitable[Mapping[str, DeviceReading]]] = nvml_readings,
        workload: Callable[[str], str] = lambda uid: "",
        idle_since: Callable[[str, str], float | None] = lambda uid, device: None,
    ) -> None:
        self._devices = devices
        self._worker = worker
        self._roles = roles
        self._read = read
        self._workload = workload
        self._idle_since = idle_since

    def access(self, request: Request) -> AccessAttributes:
        if request.path.rstrip("/") == DEVICES_PATH:
            return AccessAttributes(verb="list", resource="nodes")
        return AccessAttributes(verb="get", path=request.path)

    async def answer(self, request: Request) -> Response:
        if request.method not in ("GET", "HEAD"):
            raise not_allowed("devices can only be read")
        if request.path.rstrip("/") != DEVICES_PATH:
            raise no_such_path()
        found = self._devices()
        read = await self._read(found)
        rows = [self._row(each, read, request) for each in found]
        body: Json = {"kind": "DeviceList", "items": msgspec.to_builtins(rows)}
        return Response(200, msgspec.json.encode(body))

    def _row(
        self, device: Device, read: Mapping[str, DeviceReading], request: Request
    ) -> DeviceRow:
        measured = read.get(device.id, DeviceReading())
        row = DeviceRow(
            node=device.node,
            resource=device.resource,
            id=device.id,
            held=bool(device.holder),
            utilization_percent=measured.utilization_percent,
            memory_used_bytes=measured.memory_used_bytes,
            memory_total_bytes=measured.memory_total_bytes,
        )
        worker = self._worker(device.holder) if device.holder else None
        if worker is None:
            return row
        meta = worker.pod["metadata"]
        reading = AccessAttributes(verb="list", resource="pods", namespace=meta["namespace"])
        if not self._roles.allows(request.user, reading):
            return row
        owner = controller_of(worker.pod)
        idle = self._idle_since(device.holder, device.id)
        return msgspec.structs.replace(
            row,
            namespace=meta["namespace"],
            pod=meta["name"],
            job=f"{owner['kind']}/{owner['name']}" if owner is not None else "",
            since=(worker.pod.get("status") or {}).get("startTime") or "",
            workload=self._workload(device.holder),
            idle_since=time_text(datetime.fromtimestamp(idle, UTC)) if idle is not None else "",
        )
