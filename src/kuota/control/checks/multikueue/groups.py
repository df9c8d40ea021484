# SPDX-License-Identifier: Apache-2.0
"""Collects what a pass over a Workload reads, from the caches of all clusters."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any

import msgspec

from kuota.api.base import Json, Key
from kuota.api.gates import Gate, Gates
from kuota.api.kueue import AdmissionCheck
from kuota.api.rules.metadata import elastic
from kuota.api.rules.report import child, elements, mapping, text
from kuota.api.rules.workload_status import pod_set_counts
from kuota.bridge.draft import StoredWorkload
from kuota.bridge.job_pass.names import workload_name
from kuota.bridge.job_pass.slices import counts_of
from kuota.bridge.jobs.dispatch import Dispatch
from kuota.bridge.jobs.kind import ElasticJob, JobKey, JobKind, PodSetsUnknown, key_of
from kuota.bridge.jobs.topology_request import TopologyRequestError
from kuota.control.cluster_cache import ClusterCache

from .external import ExternalJobs
from .group import Component, MultiKueueSettings, RemoteCopies, WorkloadGroup
from .objects import MultiKueueObjects
from .owner import JobOwner, owner_of
from .references import BadReference, check_names, multikueue_state, worker_names
from .remote import RemoteCluster, RemoteClusters
from .remote_index import RemoteIndex

_SLICES = 10
"""How many slices of one size of an elastic job are recognized as current."""


class Groups:
    """Reads from `cache` and from the caches of `clusters`; nothing here waits."""

    def __init__(
        self,
        cache: ClusterCache,
        objects: MultiKueueObjects,
        clusters: RemoteClusters,
        settings: Callable[[], MultiKueueSettings],
        external: ExternalJobs,
    ) -> None:
        self._cache, self._objects, self._clusters = cache, objects, clusters
        self.settings = settings
        self._external = external
        self.index = RemoteIndex(self.sharing)
        self._missing: dict[str, float] = {}

    def kinds(self) -> dict[tuple[str, str], JobKind]:
        return {kind.group_kind: kind for kind in self._cache.job_kinds}

    def checks(self) -> dict[str, AdmissionCheck]:
        """Return the readable AdmissionChecks by name."""
        return {each.key.name: each.value for each in self._cache.checks.values() if each.value}

    def is_dispatched(self, stored: StoredWorkload) -> bool:
        """Whether a Workload is dispatched, or has copies nevertheless."""
        states = stored.obj.status.admission_checks or ()
        listed = bool(states) and multikueue_state(states, self.checks()) is not None
        return listed or stored.key in self.index

    def sharing(self, kind: tuple[str, str], key: Key) -> list[Key]:
        """Return the Workloads of a job that has several."""
        return [each.key for each in self._cache.workloads_owned_by(JobKey(kind, key))]

    def group(self, stored: StoredWorkload, now: float, **fields: Any) -> WorkloadGroup | None:
        """Return the group of a Workload; None if its configuration is unknown."""
        state = multikueue_state(stored.obj.status.admission_checks or (), self.checks())
        names: list[str] = []
        if state is None and any(each not in self.checks() for each in check_names(stored.obj)):
            # The check may be one of ours that was deleted: nothing running is stopped for that.
            return None
        if state is not None:
            try:
                names = worker_names(self.checks()[state.name], self._objects.config_map())
            except BadReference:
                return None
        kinds = self.kinds()
        owner = owner_of(stored.json, kinds.keys() | self._external.dispatches.keys())
        kind = kinds.get(owner.kind) if owner is not None else None
        dispatch = kind.dispatch() if kind is not None else None
        if owner is not None and kind is None:
            dispatch = self._external.dispatches.get(owner.kind)
        jobs = self._jobs(stored, owner) if dispatch is not None and owner is not None else ()
        remotes, lost = self._remotes(stored.key, names, dispatch, jobs, now)
        shared = self._components(stored, owner, dispatch, jobs)
        return WorkloadGroup(
            local=stored,
            settings=self.settings(),
            check=state,
            owner=owner.described if owner is not None else "",
            dispatch=dispatch,
            jobs=jobs,
            current=self._current(stored, kind, jobs),
            clusters=tuple(names),
            remotes=remotes,
            lost=lost,
            removed=self._removed(stored.key, names, dispatch, jobs),
            **(shared | fields),
        )

    def _jobs(self, stored: StoredWorkload, owner: JobOwner) -> tuple[Json, ...]:
        """Return the job of a Workload, or all objects that it consists of.

        Every Pod of a group owns its Workload; the first one may be gone.
        """
        listed = elements(child(stored.json, "metadata").get("ownerReferences"))
        same = (mapping(each) for each in listed if mapping(each).get("kind") == owner.kind[1])
        for name in (owner.name, *(text(each.get("name")) for each in same)):
            key = Key(stored.key.namespace, name)
            external = self._external.get(owner.kind, key)
            if external is not None:
                return (external,)
            found = self._cache.job(JobKey(owner.kind, key))
            if found is not None and owner.kind in self._cache.jobs:
                return tuple(self._cache.job_caches.group_members(owner.kind, found))
        return ()

    def _remotes(
        self,
        key: Key,
        names: list[str],
        dispatch: Dispatch | None,
        jobs: tuple[Json, ...],
        now: float,
    ) -> tuple[dict[str, RemoteCopies], dict[str, float]]:
        """Return what connected clusters have, and since when the others are lost."""
        remotes: dict[str, RemoteCopies] = {}
        lost: dict[str, float] = {}
        for name in names:
            cluster = self._clusters.get(name)
            if cluster is None:
                lost[name] = self._missing.setdefault(name, now)
                continue
            self._missing.pop(name, None)
            if not cluster.connected:
                lost[name] = cluster.lost_since if cluster.lost_since is not None else now
                continue
            try:
                remotes[name] = self._remote(cluster, key, dispatch, jobs)
            except msgspec.ValidationError:
                # The worker returns something else than Workloads: as good as no answer.
                lost[name] = now
        return remotes, lost

    def _remote(
        self, cluster: RemoteCluster, key: Key, dispatch: Dispatch | None, jobs: tuple[Json, ...]
    ) -> RemoteCopies:
        found = cluster.workload(key)
        stored = StoredWorkload.of(found) if found is not None else None
        if dispatch is None:
            return RemoteCopies(workload=stored, jobs=tuple(None for _ in jobs))
        kind, keys = dispatch.group_kind, [key_of(each) for each in jobs]
        strays = (
            cluster.get(kind, each.key)
            for each in self.index.places(key)
            if each.cluster == cluster.name and each.kind == kind and each.key not in keys
        )
        return RemoteCopies(
            workload=stored,
            jobs=tuple(cluster.get(kind, each) for each in keys),
            strays=tuple(each for each in strays if each is not None),
        )

    def _removed(
        self, key: Key, names: list[str], dispatch: Dispatch | None, jobs: tuple[Json, ...]
    ) -> dict[str, RemoteCopies]:
        """Return the copies in connected clusters that are not configured."""
        others = {each.cluster for each in self.index.places(key)}.difference(names)
        clusters = [self._clusters.get(each) for each in sorted(others)]
        found: dict[str, RemoteCopies] = {}
        for each in clusters:
            if each is not None and each.connected:
                with suppress(msgspec.ValidationError):
                    found[each.name] = self._remote(each, key, dispatch, jobs)
        return found

    def _current(self, stored: StoredWorkload, kind: JobKind | None, jobs: tuple[Json, ...]) -> str:
        """Return the name of the Workload that describes the job as it is now."""
        if kind is None or not jobs or not elastic(jobs[0], self.settings().gates):
            return stored.key.name
        job, gates = jobs[0], self.settings().gates
        names = _slice_names(kind, job, gates)
        if not names or stored.key.name in names or _fits(stored, kind, job, gates):
            return stored.key.name
        return names[0]

    def _components(
        self,
        stored: StoredWorkload,
        owner: JobOwner | None,
        dispatch: Dispatch | None,
        jobs: tuple[Json, ...],
    ) -> dict[str, Any]:
        """Return the other Workloads of a job that has several."""
        if owner is None or dispatch is None or not dispatch.shared or not jobs:
            return {}
        job = JobKey(owner.kind, Key(stored.key.namespace, owner.name))
        others = [
            Component(
                name=each.key.name,
                index=dispatch.index(each.json),
                cluster=(each.value.obj.status.cluster_name or "") if each.value else "",
            )
            for each in self._cache.workloads_owned_by(job)
            if each.key != stored.key
        ]
        index, expected = dispatch.index(stored.json), dispatch.expected(jobs[0])
        return {"components": tuple(others), "index": index, "expected": expected}


def _fits(stored: StoredWorkload, kind: JobKind, job: Json, gates: Gates) -> bool:
    """Whether a slice has the size of the job.

    Its name does not show that after the job was suspended, which changes the generation.
    """
    try:
        asked = kind.pod_sets(job, gates)
    except (PodSetsUnknown, TopologyRequestError):
        return False
    return counts_of(stored) == pod_set_counts({"spec": {"podSets": asked}})


def _slice_names(kind: JobKind, job: Json, gates: Gates) -> list[str]:
    """Return the names that a slice of the present size of a job may have."""
    if not isinstance(kind, ElasticJob):
        return []
    suffix = kind.slice_suffix(job)
    return list(_names(kind, job, [suffix, *(f"{suffix}.{n}" for n in range(1, _SLICES))], gates))


def _names(kind: JobKind, job: Json, suffixes: list[str], gates: Gates) -> Iterator[str]:
    meta, gvk, short = child(job, "metadata"), kind.gvk, gates.on(Gate.ShortWorkloadNames)
    name, uid = text(meta.get("name")), text(meta.get("uid"))
    for each in suffixes:
        yield workload_name(gvk.kind, gvk.group, name, uid, each, short=short)
