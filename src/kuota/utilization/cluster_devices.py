# SPDX-License-Identifier: Apache-2.0
"""Joins readings of GPUs in a cluster with the pods and Workloads that hold them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator, Sequence

import msgspec

from kuota.api.base import Json, Key
from kuota.api.device_resources import is_device
from kuota.kube.client import Client
from kuota.kube.clock import Clock, steady
from kuota.kube.errors import KubeError, NotFound
from kuota.kube.resources import PODS
from kuota.view.idle import DeviceHolder, HeldDevice

from .dcgm import DeviceSample

KNOWN_S = 600.0
"""A pod is read again after this time: another pod may have got its name."""
ABSENT_S = 30.0
"""A pod that was not found is looked for again after this time."""
_GPU = "nvidia.com/gpu"

ReadSamples = Callable[[], Awaitable[Sequence[DeviceSample]]]
"""Returns the samples of exporters."""


class PodWorkload(msgspec.Struct, frozen=True):
    """The Workload of a pod."""

    name: str
    cluster_queue: str
    obj: Json


class _KnownPod(msgspec.Struct, frozen=True):
    pod: Json | None
    at: float


class ClusterDevices:
    """A `kuota.utilization.monitor.Readings` of a cluster.

    `workload_of` returns the Workload of a pod; pods without one are left out. A pod is read when
    it first holds a device, not watched.
    """

    def __init__(
        self,
        read: ReadSamples,
        client: Client,
        workload_of: Callable[[Json], PodWorkload | None],
        clock: Clock | None = None,
    ) -> None:
        self._read = read
        self._client = client
        self._workload_of = workload_of
        self._clock = steady(clock)
        self._pods: dict[Key, _KnownPod] = {}

    async def held(self) -> list[HeldDevice]:
        """Return the devices that pods of Workloads hold, with their utilization."""
        samples = await self._read()
        keys = {Key(each.namespace, each.pod) for each in samples}
        self._pods = {key: known for key, known in self._pods.items() if key in keys}
        held = []
        for each in samples:
            pod = await self._pod(Key(each.namespace, each.pod))
            workload = self._workload_of(pod) if pod is not None else None
            if pod is not None and workload is not None:
                held.append(_held(each, pod, workload))
        return held

    def regarding(self, holder: DeviceHolder) -> Iterator[Json]:
        """Yield the pod and its Workload."""
        known = self._pods.get(Key(holder.namespace, holder.pod))
        if known is None or known.pod is None:
            return
        yield {"apiVersion": "v1", "kind": "Pod", **known.pod}
        workload = self._workload_of(known.pod)
        if workload is not None:
            yield workload.obj

    async def _pod(self, key: Key) -> Json | None:
        """Return the pod; None if it does not exist or cannot be read now."""
        now, known = self._clock.monotonic(), self._pods.get(key)
        lasts_s = KNOWN_S if known is not None and known.pod is not None else ABSENT_S
        if known is None or now - known.at > lasts_s:
            try:
                known = _KnownPod(await self._client.get(PODS, key), now)
            except NotFound:
                known = _KnownPod(None, now)
            except KubeError:
                return None
            self._pods[key] = known
        return known.pod


def _held(sample: DeviceSample, pod: Json, workload: PodWorkload) -> HeldDevice:
    holder = DeviceHolder(
        namespace=sample.namespace,
        pod=sample.pod,
        pod_uid=str(pod["metadata"].get("uid") or ""),
        workload=workload.name,
        cluster_queue=workload.cluster_queue,
    )
    resource = _resource(pod, sample.container)
    return HeldDevice(sample.device, resource, holder, sample.utilization_percent)


def _resource(pod: Json, container: str) -> str:
    """Return the device resource that the container requests."""
    for each in (pod.get("spec") or {}).get("containers") or ():
        if each.get("name") == container:
            limits = (each.get("resources") or {}).get("limits") or {}
            devices = sorted(name for name in limits if is_device(name) and "/" in name)
            return devices[0] if devices else _GPU
    return _GPU
