# SPDX-License-Identifier: Apache-2.0
"""Caches of jobs: one informer for each kind of objects, and the jobs that consist of them.

An object is a job, or a member of one. A Pod may in addition belong to another object, such as a
StatefulSet, whose pass needs it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from functools import partial
from typing import Any

from kuota.api.base import Json, Key
from kuota.api.config.frameworks import FRAMEWORKS
from kuota.api.gates import Gates
from kuota.api.rules.job_common import PRIORITY_CLASS
from kuota.api.rules.metadata import label
from kuota.bridge.jobs.ancestor import GroupKind
from kuota.bridge.jobs.composable import ComposableJob
from kuota.bridge.jobs.kind import JobKey, JobKind, JobWithReferences, JobWithSkip
from kuota.bridge.jobs.members import Members, identity_of
from kuota.bridge.jobs.pod_parent import PodParent
from kuota.kube.cache import Indexer
from kuota.kube.client import Client
from kuota.kube.clock import Clock
from kuota.kube.informer import Informer, trimmed
from kuota.kube.lazy_informer import LazyInformer
from kuota.kube.resources import Resource, key_of

from .node_pod_informers import POD

NAMESPACE = "namespace"
PRIORITY = "priority class"
REFERENCE = "reference"
PARENT = "parent"


class JobCaches:
    """The jobs of these kinds. `informers` has one informer for each kind of objects.

    `pods` is the informer of all pods, which has other readers too.
    """

    def __init__(
        self,
        client: Client,
        clock: Clock,
        kinds: Iterable[JobKind],
        gates: Gates,
        pods: LazyInformer[Json],
    ) -> None:
        self._client = client
        self._pods = pods
        self._clock = clock
        self._gates = gates
        self._kinds = {each.group_kind: each for each in kinds}
        self._members: dict[JobKey, Members[Any]] = {}
        """The members of each composed job."""
        self.resources: dict[str, Resource] = {}
        """The resource of each kind that effects name."""
        self._composed = [each for each in self._kinds.values() if isinstance(each, ComposableJob)]
        self._parents = [each for each in self._kinds.values() if isinstance(each, PodParent)]
        self.informers = {
            at: self._job_informer(each)
            for at, each in self._kinds.items()
            if each.objects == each.group_kind
        }
        for at in {each.member for each in self._composed}.intersection(self.informers):
            self.informers[at].observe(partial(self._member_changed, at))
        related = {at for each in self._parents for at in each.related}.difference(self.informers)
        self._all = self.informers | {at: self._related_informer(at) for at in sorted(related)}

    def __iter__(self) -> Iterator[Informer[Json]]:
        return iter(self._all.values())

    def _job_informer(self, kind: JobKind) -> Informer[Json]:
        """Return an informer of jobs as plain JSON. Suspended and ended jobs are compressed."""
        resource, at = Resource.of(kind.gvk, kind.plural), kind.group_kind
        self.resources[kind.name] = resource
        indexers: dict[str, Any] = _open_job_indexers(kind)
        if any(at == each.pods or at in each.related for each in self._parents):
            indexers[PARENT] = partial(self._parent_index_keys, at)
        if at == POD:
            return self._with(indexers)
        return Informer[Json](
            self._client,
            resource,
            decode=lambda obj: kind.cached(trimmed(obj)),
            packs=kind.rarely_read,
            indexers=indexers,
            clock=self._clock,
        )

    def _with(self, indexers: Mapping[str, Indexer[Json]]) -> Informer[Json]:
        """Return the informer of pods with these indexes."""
        for name, indexer in indexers.items():
            self._pods.add_index(name, indexer)
        return self._pods

    def _related_informer(self, at: GroupKind) -> Informer[Json]:
        gvk = next(each for each in FRAMEWORKS.values() if (each.group, each.kind) == at)
        indexers: Any = {PARENT: partial(self._parent_index_keys, at)}
        if at == POD:
            return self._with(indexers)
        resource = Resource.of(gvk, gvk.plural)
        return Informer[Json](self._client, resource, indexers=indexers, clock=self._clock)

    def _groups_of(self, at: GroupKind, member: Json) -> Iterator[JobKey]:
        """Yield the composed jobs that an object is a member of."""
        for kind in self._composed:
            name = kind.group_of(member, self._gates) if kind.member == at else ""
            if name:
                yield JobKey(_at(kind), Key(key_of(member).namespace, name))

    def _member_changed(self, at: GroupKind, old: Json | None, new: Json | None) -> None:
        """Update the composed jobs that an object belongs to, and those that it belonged to."""
        for obj in filter(None, (old, new)):
            for job in self._groups_of(at, obj):
                members = self._members.get(job)
                if members is None:
                    read = self.informers[at].get
                    members = self._members[job] = Members(job.key.namespace, read)
                if obj is new:
                    kind = self._kinds[job.kind]
                    assert isinstance(kind, ComposableJob)
                    members.put(kind.described(obj))
                else:
                    members.drop(identity_of(obj))
                if not members:
                    del self._members[job]

    def _parent_index_keys(self, at: GroupKind, obj: Json) -> list[str]:
        return [str(each) for each in self._parents_of(at, obj)]

    def _parents_of(self, at: GroupKind, obj: Json) -> Iterator[JobKey]:
        """Yield the objects whose passes need this one."""
        for kind in self._parents:
            name = kind.parent_of(obj) if at == kind.pods else ""
            if at in kind.related:
                name = kind.parent_of_related(obj)
            if name:
                yield JobKey(kind.group_kind, Key(key_of(obj).namespace, name))

    def jobs_of(self, at: GroupKind, obj: Json) -> Iterator[JobKey]:
        """Yield the jobs that a change of an object concerns."""
        kind = self._kinds.get(at)
        if kind is not None and not (
            isinstance(kind, JobWithSkip) and kind.skipped(obj, self._gates)
        ):
            yield from list(self._groups_of(at, obj)) or [JobKey(at, key_of(obj))]
        yield from self._parents_of(at, obj)

    def jobs_affected_by(
        self, at: GroupKind, old: Json | None, new: Json | None
    ) -> Iterator[tuple[JobKey, bool]]:
        """Yield the jobs that a change of an object affects, and whether they are composed."""
        composed = [each for each in self._composed if each.member == at]
        idle = {
            _at(each)
            for each in composed
            if old is not None and new is not None and not each.matters(old, new)
        }
        for obj in (new, old):
            for job in self.jobs_of(at, obj) if obj is not None else ():
                if job.kind not in idle:
                    yield job, any(_at(each) == job.kind for each in composed)

    def observed(self) -> Iterator[tuple[GroupKind, Informer[Json]]]:
        """Yield every informer and the kind of its objects."""
        return iter(self._all.items())

    def required(self, at: GroupKind) -> list[Informer[Json]]:
        """Return the informers that have to be synced before a pass over a job of this kind."""
        kind = self._kinds[at]
        needed = [kind.objects]
        if isinstance(kind, PodParent):
            needed += [kind.pods, *kind.related]
        return [found for each in needed if (found := self._all.get(each)) is not None]

    def known(self, at: GroupKind) -> bool:
        """Whether the jobs of this kind are known."""
        return at in self._kinds and all(each.synced.is_set() for each in self.required(at))

    def kinds(self) -> Iterator[GroupKind]:
        return iter(self._kinds)

    def parents(self) -> Iterator[GroupKind]:
        """Yield the kinds whose passes need other objects than their own."""
        return (each.group_kind for each in self._parents)

    def get(self, job: JobKey) -> Json | None:
        """Return a job; None if it does not exist or its kind is not watched."""
        for kind in self._composed:
            if _at(kind) == job.kind:
                return self._composition(kind, job)
        informer = self._all.get(job.kind)
        return informer.get(job.key) if informer is not None else None

    def _composition(self, kind: ComposableJob, job: JobKey) -> Json | None:
        members = self._members.get(job)
        if members is None:
            return None
        stale = self.informers[kind.member].error is not None
        now = self._clock.now().timestamp()
        return kind.compose(job.key, members, self._gates, now, stale=stale)

    def group_members(self, at: GroupKind, obj: Json) -> list[Json]:
        """Return the objects that form one job with this one, including it."""
        for group in self._groups_of(at, obj):
            return list(self._members.get(group) or [obj])
        return [obj]

    def pods_of(self, kind: PodParent, parent: JobKey) -> list[Json]:
        """Return the Pods that an object suspends."""
        return self._belonging([kind.pods], parent)

    def related_to(self, kind: PodParent, parent: JobKey) -> list[Json]:
        """Return the objects of other kinds that belong to an object."""
        return self._belonging(kind.related, parent)

    def _belonging(self, kinds: Iterable[GroupKind], parent: JobKey) -> list[Json]:
        word = str(parent)
        return [each for at in kinds for each in self._all[at].indexed(PARENT, word)]

    def composed(self, at: GroupKind) -> bool:
        """Whether jobs of this kind consist of several objects."""
        return any(_at(each) == at for each in self._composed)

    def woken_by(self, workload: Json, *, deleted: bool) -> Iterator[JobKey]:
        """Yield the composed jobs that a change of a Workload concerns."""
        for kind in self._composed:
            if kind.woken_by(workload, self._gates, deleted=deleted):
                yield JobKey(_at(kind), key_of(workload))


def _open_job_indexers(kind: JobKind) -> dict[str, Indexer[Json]]:
    """Index open jobs by namespace, by WorkloadPriorityClass, and by what they depend on."""

    def ended(job: Json) -> bool:
        return kind.end(job) is not None

    def namespace(job: Json) -> list[str]:
        return [] if ended(job) else [key_of(job).namespace]

    def priority(job: Json) -> list[str]:
        name = label(job, PRIORITY_CLASS)
        return [name] if name and not ended(job) else []

    def references(job: Json) -> list[str]:
        if not isinstance(kind, JobWithReferences) or ended(job):
            return []
        return [reference_index_key(*each) for each in kind.references(job)]

    return {NAMESPACE: namespace, PRIORITY: priority, REFERENCE: references}


def _at(kind: ComposableJob) -> GroupKind:
    assert isinstance(kind, JobKind)
    return kind.group_kind


def reference_index_key(at: GroupKind, key: Key) -> str:
    """Return the index key of objects that refer to this one."""
    return f"{_index_key_prefix(at)}{key}"


def referenced_keys(at: GroupKind, index_keys: Iterable[str]) -> list[Key]:
    """Return the objects of a kind to which these index keys belong."""
    prefix = _index_key_prefix(at)
    return [Key.parse(each[len(prefix) :]) for each in index_keys if each.startswith(prefix)]


def _index_key_prefix(at: GroupKind) -> str:
    group, kind = at
    return f"{kind}.{group} "
