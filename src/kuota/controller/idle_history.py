# SPDX-License-Identifier: Apache-2.0
"""Records idle devices of a cluster in its history.

The process of the history reads the exporters itself. It is the only one that has the database, and
it needs neither Events nor metrics, which are those of the controller.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import msgspec

from kuota.api.base import Json, Key, ObjectMeta
from kuota.bridge.workload_pods import workload_pod
from kuota.failures import retried
from kuota.kube.client import Client
from kuota.kube.clock import Clock
from kuota.kube.informer import Informer
from kuota.kube.resources import WORKLOADS
from kuota.utilization.cluster_devices import ClusterDevices, PodWorkload
from kuota.utilization.exporters import SourceReader
from kuota.utilization.monitor import IdleMonitor, Record

from .devices import DeviceSettings

_OWNER = "owner"


class NamedWorkload(msgspec.Struct, frozen=True):
    """A Workload, and the uid of the job that controls it."""

    key: Key
    owner: str


class WorkloadNames:
    """The names of all Workloads while `run` runs."""

    def __init__(self, client: Client, clock: Clock | None = None) -> None:
        self._informer = Informer(
            client,
            WORKLOADS,
            metadata_only=True,
            decode=_named,
            indexers={_OWNER: _owners},
            clock=clock,
        )
        self.run = self._informer.run
        self.synced = self._informer.synced

    def of_pod(self, pod: Json) -> PodWorkload | None:
        """Return the Workload of a pod: by its annotation, or else by its controller."""
        found = workload_pod(pod)
        if found.workload:
            named = self._informer.get(Key(found.key.namespace, found.workload))
        else:
            owners = pod["metadata"].get("ownerReferences") or ()
            uid = next((str(each.get("uid")) for each in owners if each.get("controller")), "")
            owned = self._informer.indexed(_OWNER, uid or found.uid)
            named = next(
                (each for each in owned if each.key.namespace == found.key.namespace), None
            )
        return PodWorkload(named.key.name, "", {}) if named is not None else None


def _named(obj: Json) -> NamedWorkload:
    meta = msgspec.convert(obj["metadata"], ObjectMeta)
    owners = meta.owner_references or ()
    owner = next((each.uid for each in owners if each.controller), "")
    return NamedWorkload(Key(meta.namespace, meta.name), owner)


def _owners(workload: NamedWorkload) -> Iterator[str]:
    if workload.owner:
        yield workload.owner


async def record_idle_devices(
    settings: DeviceSettings, record: Record, client: Client, clock: Clock
) -> None:
    """Record idle devices until cancelled. Only the recorder that leads runs this."""
    names = WorkloadNames(client, clock)
    devices = ClusterDevices(SourceReader(settings.sources).read, client, names.of_pod, clock)
    monitor = IdleMonitor(devices, settings.policy, record=record, clock=clock)
    async with asyncio.TaskGroup() as group:
        group.create_task(names.run())
        await names.synced.wait()
        group.create_task(retried("recording idle devices", monitor.run))
