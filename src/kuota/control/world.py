# SPDX-License-Identifier: Apache-2.0
"""The controllers' view of the cluster: one informer per kind, updated with their own writes."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Any, TypeVar

from kuota.api import kueue
from kuota.api.base import Json, Key
from kuota.api.core import LimitRange, Namespace, PriorityClass, RuntimeClass, is_finished
from kuota.api.rules.job_common import PRIORITY_CLASS
from kuota.bridge.draft import StoredWorkload
from kuota.bridge.jobs.batch_job import Classes
from kuota.bridge.lifecycle_checks import named
from kuota.kube import resources as kinds
from kuota.kube.cache import Indexer, never_packed
from kuota.kube.client import Client
from kuota.kube.clock import Clock
from kuota.kube.informer import Informer, job_informer
from kuota.kube.resources import Resource, key_of

from .cached_object import CachedObject, decode_workload, decoder_for

T = TypeVar("T")

OWNER = "owner"
QUEUE = "queue"
WAITING = "waiting"
NAMESPACE = "namespace"
PRIORITY = "priority class"

NEEDED = frozenset(
    {
        kinds.WORKLOADS,
        kinds.LOCAL_QUEUES,
        kinds.CLUSTER_QUEUES,
        kinds.RESOURCE_FLAVORS,
        kinds.NAMESPACES,
    }
)
"""The kinds without which no decision is possible. A server may lack the others."""


class World:
    """Every object that the controllers need.

    `ready` returns once all kinds but Jobs have synced.
    """

    def __init__(self, client: Client, clock: Clock) -> None:
        self._client = client
        self._clock = clock
        self._informers: dict[Resource, Informer[Any]] = {}
        self._classes: Classes | None = None
        self._flavors: dict[str, kueue.ResourceFlavor] | None = None
        make = self._informer
        indexers = {OWNER: _owners, QUEUE: _queues, WAITING: _waiting, PRIORITY: _named}
        self.workloads = make(kinds.WORKLOADS, decode_workload, _over, indexers)
        self.jobs = self._informers[kinds.JOBS] = job_informer(client, clock)
        self.jobs.add_index(NAMESPACE, _open_in)
        self.jobs.add_index(PRIORITY, _labelled)
        self.cluster_queues = make(kinds.CLUSTER_QUEUES, decoder_for(kueue.ClusterQueue))
        self.local_queues = make(kinds.LOCAL_QUEUES, decoder_for(kueue.LocalQueue))
        self.cohorts = make(kinds.COHORTS, decoder_for(kueue.Cohort))
        self.flavors = make(kinds.RESOURCE_FLAVORS, decoder_for(kueue.ResourceFlavor))
        self.checks = make(kinds.ADMISSION_CHECKS, decoder_for(kueue.AdmissionCheck))
        self.topologies = make(kinds.TOPOLOGIES, decoder_for(kueue.Topology))
        self.workload_classes = make(
            kinds.WORKLOAD_PRIORITY_CLASSES, decoder_for(kueue.WorkloadPriorityClass)
        )
        self.pod_classes = make(kinds.PRIORITY_CLASSES, decoder_for(PriorityClass))
        self.namespaces = make(kinds.NAMESPACES, decoder_for(Namespace))
        self.limit_ranges = make(kinds.LIMIT_RANGES, decoder_for(LimitRange))
        self.runtime_classes = make(kinds.RUNTIME_CLASSES, decoder_for(RuntimeClass))
        for few in (self.pod_classes, self.workload_classes, self.flavors):
            few.observe(lambda old, new: self._forget_collected())

    def _informer(
        self,
        resource: Resource,
        decode: Callable[[Json], CachedObject[T]],
        packs: Callable[[CachedObject[T]], bool] = never_packed,
        indexers: Mapping[str, Indexer[CachedObject[T]]] | None = None,
    ) -> Informer[CachedObject[T]]:
        found: Informer[CachedObject[T]] = Informer(
            self._client, resource, decode=decode, packs=packs, indexers=indexers, clock=self._clock
        )
        self._informers[resource] = found
        return found

    def informers(self) -> Iterator[Informer[Any]]:
        return iter(self._informers.values())

    async def ready(self) -> None:
        """Return when decisions can be made. Callers that need Jobs wait for them separately."""
        for each in self._informers.values():
            if each.resource != kinds.JOBS:
                await _known(each).wait()

    @property
    def synced(self) -> bool:
        return all(_known(each).is_set() for each in self._informers.values())

    def wrote(self, resource: Resource, answer: Json) -> None:
        """Store the response of a write, so that readers see it before the watch does."""
        self._informers[resource].wrote(answer)

    def workload(self, key: Key) -> CachedObject[StoredWorkload] | None:
        return self.workloads.get(key)

    def json(self, resource: Resource, key: Key) -> Json | None:
        """Return the JSON of any watched object."""
        found: CachedObject[Any] | Json | None = self._informers[resource].get(key)
        return found.json if isinstance(found, CachedObject) else found

    def workloads_of(self, job: Key) -> list[CachedObject[StoredWorkload]]:
        """Return the Workloads that a Job of this name controls, oldest first."""
        return self.workloads.indexed(OWNER, str(job))

    def workloads_in(self, local_queue: Key) -> list[CachedObject[StoredWorkload]]:
        """Return the unfinished Workloads of a LocalQueue."""
        return self.workloads.indexed(QUEUE, str(local_queue))

    def waiting_in(self, namespace: str) -> list[CachedObject[StoredWorkload]]:
        """Return the pending Workloads of a namespace, or of all namespaces for ""."""
        if namespace:
            return self.workloads.indexed(WAITING, namespace)
        return [each for each in self.workloads.values() if _waiting(each)]

    def classes(self) -> Classes:
        if self._classes is None:
            self._classes = Classes(
                pods={e.key.name: e.value for e in self.pod_classes.values() if e.value},
                workloads={e.key.name: e.value for e in self.workload_classes.values() if e.value},
            )
        return self._classes

    def flavor_objects(self) -> dict[str, kueue.ResourceFlavor]:
        if self._flavors is None:
            self._flavors = {e.key.name: e.value for e in self.flavors.values() if e.value}
        return self._flavors

    def _forget_collected(self) -> None:
        """Drop the cached classes and flavors, which every pass reads and which rarely change."""
        self._classes = self._flavors = None


def _owners(cached: CachedObject[StoredWorkload]) -> list[str]:
    owners = cached.json["metadata"].get("ownerReferences") or ()
    namespace = cached.key.namespace
    return [
        str(Key(namespace, each["name"]))
        for each in owners
        if each.get("controller") and each.get("kind") == "Job"
    ]


def _over(cached: CachedObject[StoredWorkload]) -> bool:
    """Whether the Workload is finished. Finished Workloads never change and may be numerous."""
    return cached.value is not None and cached.value.true("Finished")


def _queues(cached: CachedObject[StoredWorkload]) -> list[str]:
    if _over(cached):
        return []
    spec = cached.json.get("spec")
    name = spec.get("queueName") if isinstance(spec, dict) else None
    return [str(Key(cached.key.namespace, name))] if isinstance(name, str) and name else []


def _waiting(cached: CachedObject[StoredWorkload]) -> list[str]:
    """Index pending Workloads by namespace."""
    stored = cached.value
    waits = stored is not None and not stored.reserved and not stored.true("Finished")
    return [cached.key.namespace] if waits else []


def _named(cached: CachedObject[StoredWorkload]) -> list[str]:
    """Index unfinished Workloads by WorkloadPriorityClass."""
    name = named(cached.value) if cached.value is not None and not _over(cached) else ""
    return [name] if name else []


def _open_in(job: Json) -> list[str]:
    """Index unfinished Jobs by namespace."""
    return [] if is_finished(job) else [key_of(job).namespace]


def _labelled(job: Json) -> list[str]:
    """Index unfinished Jobs by WorkloadPriorityClass."""
    name = (job["metadata"].get("labels") or {}).get(PRIORITY_CLASS)
    return [str(name)] if name and not is_finished(job) else []


def _known(informer: Informer[Any]) -> asyncio.Event:
    return informer.synced if informer.resource in NEEDED else informer.settled


async def followed(world: World, without: Collection[Resource] = ()) -> None:
    """Run all informers until cancelled, except for the kinds in `without`."""
    async with asyncio.TaskGroup() as group:
        for each in world.informers():
            if each.resource not in without:
                group.create_task(each.run())
