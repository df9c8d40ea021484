# SPDX-License-Identifier: Apache-2.0
"""The controllers' view of the cluster: one informer per kind, updated with their own writes."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeVar

from kuota.api import kueue
from kuota.api.base import Json, Key
from kuota.api.config.frameworks import GroupVersionKind
from kuota.api.core import LimitRange, Namespace, PriorityClass, RuntimeClass
from kuota.api.rules.job_common import PRIORITY_CLASS
from kuota.api.rules.metadata import ELASTIC_JOB, annotation, label
from kuota.bridge.draft import StoredWorkload
from kuota.bridge.job_pass.slices import chain_name
from kuota.bridge.job_pass.workload import Classes
from kuota.bridge.jobs.ancestor import GroupKind
from kuota.bridge.jobs.kind import JobKey, JobKind, Referred, Referring, referred
from kuota.bridge.lifecycle_checks import named
from kuota.kube import resources as kinds
from kuota.kube.cache import Indexer, never_packed
from kuota.kube.client import Client
from kuota.kube.clock import Clock
from kuota.kube.informer import Informer, trimmed
from kuota.kube.resources import Resource, key_of

from .cached_object import CachedObject, decode_workload, decoder_for
from .devices import OfferedDevices

T = TypeVar("T")

OWNER = "owner"
QUEUE = "queue"
WAITING = "waiting"
NAMESPACE = "namespace"
PRIORITY = "priority class"
CHAIN = "chain"
REFERENCE = "reference"

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


_EFFECTS = (
    kinds.WORKLOADS,
    kinds.CLUSTER_QUEUES,
    kinds.LOCAL_QUEUES,
    kinds.COHORTS,
    kinds.RESOURCE_FLAVORS,
    kinds.ADMISSION_CHECKS,
)


class World:
    """Every object that the controllers need, with jobs of these kinds.

    Of objects of `external` kinds, which may own jobs, only the metadata is kept. `with_devices`
    adds what dynamic resource allocation offers.

    `ready` returns once everything has synced but jobs and what they depend on.
    """

    def __init__(
        self,
        client: Client,
        clock: Clock,
        job_kinds: Sequence[JobKind],
        external: Iterable[GroupVersionKind] = (),
        *,
        with_devices: bool = False,
    ) -> None:
        self._client, self._clock = client, clock
        self._informers: dict[Resource, Informer[Any]] = {}
        self.resources: dict[str, Resource] = {each.kind: each for each in _EFFECTS}
        """The resource of each kind that effects name."""
        self._classes: Classes | None = None
        self._flavors: dict[str, kueue.ResourceFlavor] | None = None
        make = self._informer
        self.workloads = make(kinds.WORKLOADS, decode_workload, _over, _workload_indexers())
        self.jobs = {each.group_kind: self._job_informer(each) for each in job_kinds}
        """The jobs of each kind."""
        self.referred = {at: self._referred_informer(e) for at, e in referred(job_kinds).items()}
        """The objects that jobs depend on, by kind."""
        self._owners = {(each.group, each.kind): self._owner_informer(each) for each in external}
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
        self.devices = OfferedDevices(client, clock) if with_devices else None
        for device_kind in self.devices.informers() if self.devices is not None else ():
            self._informers[device_kind.resource] = device_kind
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

    def _job_informer(self, kind: JobKind) -> Informer[Json]:
        """Return an informer of jobs as plain JSON. Suspended and ended jobs are compressed.

        Open jobs are indexed by namespace, by WorkloadPriorityClass, and by what they depend on.
        """

        def ended(job: Json) -> bool:
            return kind.end(job) is not None

        def namespace(job: Json) -> list[str]:
            return [] if ended(job) else [key_of(job).namespace]

        def priority(job: Json) -> list[str]:
            name = label(job, PRIORITY_CLASS)
            return [name] if name and not ended(job) else []

        def references(job: Json) -> list[str]:
            if not isinstance(kind, Referring) or ended(job):
                return []
            return [reference_word(*each) for each in kind.references(job)]

        resource = Resource.of(kind.gvk, kind.plural)
        self.resources[kind.name] = resource
        self._informers[resource] = found = Informer[Json](
            self._client,
            resource,
            packs=lambda job: kind.suspended(job) or ended(job),
            indexers={NAMESPACE: namespace, PRIORITY: priority, REFERENCE: references},
            clock=self._clock,
        )
        return found

    def _owner_informer(self, gvk: GroupVersionKind) -> Informer[Json]:
        resource = Resource.of(gvk, gvk.plural)
        found = Informer[Json](
            self._client, resource, metadata_only=True, decode=_metadata, clock=self._clock
        )
        self._informers[resource] = found
        return found

    def _referred_informer(self, kind: Referred) -> Informer[Json]:
        """Return the informer of a kind that jobs depend on, which may be a job kind itself."""
        if kind.group_kind in self.jobs:
            return self.jobs[kind.group_kind]
        resource = Resource.of(kind.gvk, kind.gvk.plural, namespaced=kind.namespaced)
        found = Informer[Json](self._client, resource, clock=self._clock)
        self._informers[resource] = found
        return found

    def job_informers(self) -> Iterator[Informer[Json]]:
        """Yield the informers of jobs, of their external owners, and of what they depend on."""
        yield from self.jobs.values()
        yield from self._owners.values()
        yield from self.referred.values()

    def informers(self) -> Iterator[Informer[Any]]:
        return iter(self._informers.values())

    async def ready(self) -> None:
        """Return when decisions can be made. Callers that need Jobs wait for them separately."""
        jobs = {each.resource for each in self.job_informers()}
        for each in self._informers.values():
            if each.resource not in jobs:
                await _known(each).wait()

    @property
    def synced(self) -> bool:
        return all(_known(each).is_set() for each in self._informers.values())

    def owning_jobs(self) -> Iterator[JobKey]:
        """Yield the jobs that control Workloads, whether or not they exist."""
        for each in self.workloads.values():
            yield from controlling_jobs(each.json)

    def wrote(self, resource: Resource, answer: Json) -> None:
        """Store the response of a write, so that readers see it before the watch does."""
        self._informers[resource].wrote(answer)

    def workload(self, key: Key) -> CachedObject[StoredWorkload] | None:
        return self.workloads.get(key)

    def json(self, resource: Resource, key: Key) -> Json | None:
        """Return the JSON of any watched object."""
        found: CachedObject[Any] | Json | None = self._informers[resource].get(key)
        return found.json if isinstance(found, CachedObject) else found

    def job(self, job: JobKey) -> Json | None:
        """Return a job or another owner; None if it does not exist or its kind is not watched."""
        informer = self.jobs.get(job.kind) or self._owners.get(job.kind)
        return informer.get(job.key) if informer is not None else None

    def find(self, kind: GroupKind, key: Key) -> Json | None:
        """Return an object that jobs depend on; None if it does not exist."""
        informer = self.referred.get(kind)
        return informer.get(key) if informer is not None else None

    def workloads_of(self, job: JobKey) -> list[CachedObject[StoredWorkload]]:
        """Return the Workloads that a job of this kind and name controls, oldest first."""
        return self.workloads.indexed(OWNER, _owner_word(job))

    def workloads_in(self, local_queue: Key) -> list[CachedObject[StoredWorkload]]:
        """Return the unfinished Workloads of a LocalQueue."""
        return self.workloads.indexed(QUEUE, str(local_queue))

    def waiting_in(self, namespace: str) -> list[CachedObject[StoredWorkload]]:
        """Return the pending Workloads of a namespace, or of all namespaces for ""."""
        if namespace:
            return self.workloads.indexed(WAITING, namespace)
        return [each for each in self.workloads.values() if _waiting(each)]

    def slices_of(self, chain: Key) -> list[CachedObject[StoredWorkload]]:
        """Return the open slices of elastic jobs whose first slice has this name."""
        return self.workloads.indexed(CHAIN, str(chain))

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
    return [_owner_word(each) for each in controlling_jobs(cached.json)]


def controlling_jobs(workload: Json) -> list[JobKey]:
    """Return the owner that controls a Workload, of whatever kind."""
    meta = workload["metadata"]
    return [
        JobKey((_group(each), each["kind"]), Key(meta.get("namespace", ""), each["name"]))
        for each in meta.get("ownerReferences") or ()
        if each.get("controller")
    ]


def _group(reference: Json) -> str:
    version: str = reference["apiVersion"]
    return version.rpartition("/")[0]


def _metadata(obj: Json) -> Json:
    return {"metadata": trimmed(obj)["metadata"]}


def _owner_word(job: JobKey) -> str:
    return reference_word(*job)


def reference_word(at: GroupKind, key: Key) -> str:
    """Return the word by which objects are indexed that name this one."""
    group, kind = at
    return f"{kind}.{group} {key}"


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


def _chains(cached: CachedObject[StoredWorkload]) -> list[str]:
    """Index the open slices of elastic jobs by chain."""
    stored = cached.value
    if stored is None or _over(cached) or annotation(stored.json, ELASTIC_JOB) != "true":
        return []
    return [str(Key(cached.key.namespace, chain_name(stored)))]


def _named(cached: CachedObject[StoredWorkload]) -> list[str]:
    """Index unfinished Workloads by WorkloadPriorityClass."""
    name = named(cached.value) if cached.value is not None and not _over(cached) else ""
    return [name] if name else []


def _workload_indexers() -> dict[str, Indexer[CachedObject[StoredWorkload]]]:
    return {
        OWNER: _owners,
        QUEUE: _queues,
        WAITING: _waiting,
        PRIORITY: _named,
        CHAIN: _chains,
    }


def _known(informer: Informer[Any]) -> asyncio.Event:
    return informer.synced if informer.resource in NEEDED else informer.settled


async def followed(world: World, without: Collection[Resource] = ()) -> None:
    """Run all informers until cancelled, except for the kinds in `without`."""
    async with asyncio.TaskGroup() as group:
        for each in world.informers():
            if each.resource not in without:
                group.create_task(each.run())
