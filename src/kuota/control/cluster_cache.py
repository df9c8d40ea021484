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
from kuota.api.gates import Gates
from kuota.api.podset import FlavorMissing
from kuota.api.priority import POD_CLASS, WORKLOAD_CLASS, ClassMissing
from kuota.bridge.draft import StoredWorkload
from kuota.bridge.job_pass.workload import PriorityClasses
from kuota.bridge.jobs.ancestor import GroupKind
from kuota.bridge.jobs.kind import JobKey, JobKind, ReferencedKind, referred
from kuota.kube import resources as kinds
from kuota.kube.cache import Indexer, never_packed
from kuota.kube.client import Client
from kuota.kube.clock import Clock
from kuota.kube.errors import NotFound
from kuota.kube.informer import Informer, trimmed
from kuota.kube.lazy_informer import LazyInformer
from kuota.kube.resources import Resource

from .cached_object import CachedObject, decode_workload, decoder_for
from .devices import OfferedDevices
from .job_caches import JobCaches, reference_index_key, referenced_keys
from .node_pod_informers import node_informer, pod_informer
from .unwatched_owners import UnwatchedOwners
from .workload_indexes import (
    CHAIN,
    OWNER,
    QUEUE,
    WAITING,
    controlling_jobs,
    is_over,
    is_waiting,
    owners_of,
    workload_indexers,
)

T = TypeVar("T")

POD_PARENT = "pod parent"
"""The index of Workloads by the parents of their Pods, which own but do not control them."""

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
    kinds.TOPOLOGIES,
)
_MAY_BE_LATE = {
    POD_CLASS: kinds.PRIORITY_CLASSES,
    WORKLOAD_CLASS: kinds.WORKLOAD_PRIORITY_CLASSES,
    FlavorMissing.kind: kinds.RESOURCE_FLAVORS,
}


class ClusterCache:
    """Every object that the controllers need, with jobs of these kinds.

    Of objects of `external` kinds, which may own jobs, only the metadata is kept. `with_devices`
    adds what dynamic resource allocation offers.

    `nodes` and `pods` are empty until something needs them (`LazyInformer.need`). Pods that are not
    queued are reduced.

    `ready` returns once everything has synced, except for jobs, the objects they depend on,
    nodes and pods.
    """

    def __init__(
        self,
        client: Client,
        clock: Clock,
        job_kinds: Sequence[JobKind],
        external: Iterable[GroupVersionKind] = (),
        *,
        gates: Gates | None = None,
        with_devices: bool = False,
    ) -> None:
        self._client, self._clock, self._added = client, clock, list[Informer[Any]]()
        self.job_kinds = tuple(job_kinds)
        self._informers: dict[Resource, Informer[Any]] = {}
        self.resources: dict[str, Resource] = {each.kind: each for each in _EFFECTS}
        """The resource of each kind that effects name."""
        self._classes: PriorityClasses | None = None
        self._flavors: dict[str, kueue.ResourceFlavor] | None = None
        make = self._informer
        self.workloads = make(kinds.WORKLOADS, decode_workload, is_over, workload_indexers())
        self.nodes = self._lazy(node_informer(client, clock))
        self.pods = self._lazy(pod_informer(client, clock, job_kinds))
        caches = JobCaches(client, clock, job_kinds, gates or Gates(), self.pods)
        self.job_caches = self._jobs(caches)
        self.jobs = self.job_caches.informers
        """The objects of each kind of jobs."""
        self._unwatched = UnwatchedOwners(client, {at for at, _ in caches.observed()})
        self.referred = {at: self._referred_informer(e) for at, e in referred(job_kinds).items()}
        """The objects that jobs depend on, by kind."""
        self._owners = {(each.group, each.kind): self._owner_informer(each) for each in external}
        self.cluster_queues = make(kinds.CLUSTER_QUEUES, decoder_for(kueue.ClusterQueue))
        self.local_queues = make(kinds.LOCAL_QUEUES, decoder_for(kueue.LocalQueue))
        self.cohorts = make(kinds.COHORTS, decoder_for(kueue.Cohort))
        self.flavors = make(kinds.RESOURCE_FLAVORS, decoder_for(kueue.ResourceFlavor))
        self.checks = make(kinds.ADMISSION_CHECKS, decoder_for(kueue.AdmissionCheck))
        self.topologies = make(kinds.TOPOLOGIES, decoder_for(kueue.Topology))
        self.namespaces = make(kinds.NAMESPACES, decoder_for(Namespace))
        self.limit_ranges = make(kinds.LIMIT_RANGES, decoder_for(LimitRange))
        self.runtime_classes = make(kinds.RUNTIME_CLASSES, decoder_for(RuntimeClass))
        self.devices = self._devices(OfferedDevices(client, clock)) if with_devices else None
        self._make_classes()

    def _make_classes(self) -> None:
        workload_class = decoder_for(kueue.WorkloadPriorityClass)
        self.workload_classes = self._informer(kinds.WORKLOAD_PRIORITY_CLASSES, workload_class)
        self.pod_classes = self._informer(kinds.PRIORITY_CLASSES, decoder_for(PriorityClass))
        for few in (self.pod_classes, self.workload_classes, self.flavors):
            few.observe(lambda old, new: self._forget_collected())

    def _jobs(self, caches: JobCaches) -> JobCaches:
        """Run these caches together with the others."""
        self.resources |= caches.resources
        self._informers |= {each.resource: each for each in caches}
        self.workloads.add_index(POD_PARENT, self._pod_parent_index_keys)
        return caches

    def _lazy(self, informer: LazyInformer[T]) -> LazyInformer[T]:
        self._informers[informer.resource] = informer
        return informer

    def _devices(self, devices: OfferedDevices) -> OfferedDevices:
        """Run the caches of devices together with the others."""
        self._informers |= {each.resource: each for each in devices.informers()}
        return devices

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

    def _owner_informer(self, gvk: GroupVersionKind) -> Informer[Json]:
        resource = Resource.of(gvk, gvk.plural)
        found = Informer[Json](
            self._client, resource, metadata_only=True, decode=_metadata, clock=self._clock
        )
        self._informers[resource] = found
        return found

    def _referred_informer(self, kind: ReferencedKind) -> Informer[Json]:
        """Return the informer of a kind that jobs depend on, which may be a job kind itself."""
        if kind.group_kind in self.jobs:
            return self.jobs[kind.group_kind]
        resource = Resource.of(kind.gvk, kind.gvk.plural, namespaced=kind.namespaced)
        found = Informer[Json](self._client, resource, clock=self._clock)
        self._informers[resource] = found
        return found

    def add(self, informers: Iterable[Informer[Any]], others: Iterable[Resource] = ()) -> None:
        """Let effects name the kinds of these informers, and these other kinds.

        The caller runs the informers, and whoever waits for this cache does not wait for them.
        """
        added = list(informers)
        self._added += added
        self.resources |= {each.kind: each for each in (*(e.resource for e in added), *others)}

    def job_informers(self) -> Iterator[Informer[Json]]:
        """Yield the informers of jobs, of their external owners, and of what they depend on."""
        yield from self.job_caches
        yield from self._owners.values()
        yield from self.referred.values()

    def informers(self) -> Iterator[Informer[Any]]:
        return iter(self._informers.values())

    async def ready(self) -> None:
        """Return when decisions can be made. Callers that need Jobs wait for them separately."""
        jobs = {each.resource for each in self.job_informers()}
        for each in self._informers.values():
            if each.resource not in jobs and not isinstance(each, LazyInformer):
                await _known(each).wait()

    @property
    def synced(self) -> bool:
        return all(_known(each).is_set() for each in self._informers.values() if _running(each))

    def owning_jobs(self, kind: GroupKind) -> Iterator[JobKey]:
        """Yield the jobs of a kind that own Workloads, whether or not they exist."""
        if self.job_caches.composed(kind):
            for each in self.workloads.values():
                woken = self.job_caches.woken_by(each.json, deleted=False)
                yield from (job for job in woken if job.kind == kind)
        for index in (OWNER, POD_PARENT):
            # Reading an index does not decode the Workloads, which may be numerous.
            for key in referenced_keys(kind, self.workloads.words(index)):
                yield JobKey(kind, key)

    def owners(self, workload: Json, *, deleted: bool = False) -> Iterator[JobKey]:
        """Yield the jobs of watched kinds that a change of a Workload concerns."""
        yield from self._pod_parents(workload)
        yield from (each for each in controlling_jobs(workload) if each.kind in self.jobs)
        yield from self.job_caches.woken_by(workload, deleted=deleted)

    def _pod_parents(self, workload: Json) -> Iterator[JobKey]:
        """Yield the parents of queued Pods that own a Workload without controlling it."""
        parents = set(self.job_caches.parents())
        for each in owners_of(workload, controlling=False):
            if each.kind in parents:
                yield each

    def _pod_parent_index_keys(self, cached: CachedObject[StoredWorkload]) -> list[str]:
        return [reference_index_key(*each) for each in self._pod_parents(cached.json)]

    def wrote(self, resource: Resource, answer: Json) -> None:
        """Store the response of a write, so that readers see it before the watch does."""
        for each in self._watching(resource):
            each.wrote(answer)

    def _watching(self, resource: Resource) -> Iterator[Informer[Any]]:
        if resource in self._informers:
            yield self._informers[resource]
        yield from (each for each in self._added if each.resource == resource)

    def workload(self, key: Key) -> CachedObject[StoredWorkload] | None:
        return self.workloads.get(key)

    def stored_workload(self, key: Key) -> StoredWorkload | None:
        """Return a Workload; None if it does not exist or cannot be decoded."""
        cached = self.workloads.get(key)
        return cached.value if cached is not None else None

    def json(self, resource: Resource, key: Key) -> Json | None:
        """Return the JSON of any watched object."""
        found: CachedObject[Any] | Json | None = None
        for each in self._watching(resource):
            found = found or each.get(key)
        return found.json if isinstance(found, CachedObject) else found

    def job(self, job: JobKey) -> Json | None:
        """Return a job or another owner.

        None if it does not exist or, unless `read_owners` has found it, its kind is not watched.
        """
        owner = self._owners.get(job.kind)
        found = owner.get(job.key) if owner is not None else self.job_caches.get(job)
        return found if found is not None else self._unwatched.get(*job)

    async def read_owners(self, job: Json) -> None:
        """Ask the API server for owners of a job whose kinds are not watched."""
        await self._unwatched.read(job, lambda kind, key: self.job(JobKey(kind, key)))

    def find(self, kind: GroupKind, key: Key) -> Json | None:
        """Return an object that jobs depend on; None if it does not exist."""
        informer = self.referred.get(kind)
        return informer.get(key) if informer is not None else None

    def workloads_of(self, job: JobKey) -> list[CachedObject[StoredWorkload]]:
        """Return the Workloads that a job of this kind and name controls, oldest first.

        The Workload of a composed job has the same name as the job.
        """
        if self.job_caches.composed(job.kind):
            named = self.workload(job.key)
            return [named] if named is not None else []
        return self.workloads.indexed(OWNER, reference_index_key(*job))

    def workloads_owned_by(self, job: JobKey) -> list[CachedObject[StoredWorkload]]:
        """Return the Workloads that an object of this kind and name owns without control."""
        return self.workloads.indexed(POD_PARENT, reference_index_key(*job))

    def workloads_in(self, local_queue: Key) -> list[CachedObject[StoredWorkload]]:
        """Return the unfinished Workloads of a LocalQueue."""
        return self.workloads.indexed(QUEUE, str(local_queue))

    def waiting_in(self, namespace: str) -> list[CachedObject[StoredWorkload]]:
        """Return the pending Workloads of a namespace, or of all namespaces for ""."""
        if namespace:
            return self.workloads.indexed(WAITING, namespace)
        return [each for each in self.workloads.values() if is_waiting(each)]

    def slices_of(self, chain: Key) -> list[CachedObject[StoredWorkload]]:
        """Return the open slices of elastic jobs whose first slice has this name."""
        return self.workloads.indexed(CHAIN, str(chain))

    def classes(self) -> PriorityClasses:
        if self._classes is None:
            self._classes = PriorityClasses(
                pods={e.key.name: e.value for e in self.pod_classes.values() if e.value},
                workloads={e.key.name: e.value for e in self.workload_classes.values() if e.value},
            )
        return self._classes

    async def find_missing(self, missing: ClassMissing | FlavorMissing) -> bool:
        """Ask the API server for an object that its cache lacks. Return whether it exists.

        The watch of a class or a flavor may be later than that of a job or a Workload which was
        created after it.
        """
        resource = _MAY_BE_LATE[missing.kind]
        try:
            self.wrote(resource, await self._client.get(resource, Key("", missing.name)))
        except NotFound:
            return False
        return True

    def flavor_objects(self) -> dict[str, kueue.ResourceFlavor]:
        if self._flavors is None:
            self._flavors = {e.key.name: e.value for e in self.flavors.values() if e.value}
        return self._flavors

    def _forget_collected(self) -> None:
        """Drop the cached classes and flavors, which every pass reads and which rarely change."""
        self._classes = self._flavors = None


def _metadata(obj: Json) -> Json:
    return {"metadata": trimmed(obj)["metadata"]}


def _running(informer: Informer[Any]) -> bool:
    return not isinstance(informer, LazyInformer) or informer.needed


def _known(informer: Informer[Any]) -> asyncio.Event:
    return informer.synced if informer.resource in NEEDED else informer.settled


async def followed(cache: ClusterCache, without: Collection[Resource] = ()) -> None:
    """Run all informers until cancelled, except for the kinds in `without`."""
    async with asyncio.TaskGroup() as group:
        for each in cache.informers():
            if each.resource not in without:
                group.create_task(each.run())
