# SPDX-License-Identifier: Apache-2.0
"""Looks up other objects for reviews: in caches that have synced, or else by requests.

Reviews start before any cache has synced, so that a starting controller does not block writes.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from typing import Protocol, TypeVar

from kuota.api.base import Json, Key
from kuota.bridge.jobs.ancestor import REPLICA_SET, GroupKind
from kuota.bridge.jobs.ancestor import Lookup as Finder
from kuota.bridge.jobs.job_webhook import LOOKED_UP
from kuota.bridge.jobs.kind import referred
from kuota.bridge.lifecycle_view import LifecycleConfig
from kuota.kube import resources as kinds
from kuota.kube.client import Client
from kuota.kube.clock import Clock
from kuota.kube.errors import KubeError, NotFound
from kuota.kube.informer import Informer
from kuota.kube.resources import Resource

_log = logging.getLogger(__name__)
T = TypeVar("T")

FOLLOWED = (
    kinds.NAMESPACES,
    kinds.LOCAL_QUEUES,
    kinds.CLUSTER_QUEUES,
    kinds.ADMISSION_CHECKS,
    kinds.WORKLOAD_PRIORITY_CLASSES,
)
"""The kinds that have a cache."""

_PROVEN_ABSENT = frozenset(FOLLOWED) - {kinds.NAMESPACES}
"""The kinds whose absence a synced cache proves. Others are requested before they count as absent.

The namespace of a reviewed object exists: a cache without it is only late, and a Job that is
created right after its namespace would not be suspended.
"""


class Lookup(Protocol):
    async def find(self, resource: Resource, key: Key) -> Json | None:
        """Return the object; None if it does not exist. Raises KubeError if that is unknown."""


Resources = Mapping[GroupKind, Resource]


def owner_resources(config: LifecycleConfig) -> Resources:
    """Return the resources of job kinds, of other owners of jobs, and of what jobs depend on."""
    jobs = {each.group_kind: Resource.of(each.gvk, each.plural) for each in config.registry}
    others = {(each.group, each.kind): Resource.of(each, each.plural) for each in config.external}
    needed = {
        at: Resource.of(each.gvk, each.gvk.plural, namespaced=each.namespaced)
        for at, each in referred(config.registry).items()
    }
    return jobs | others | needed


class _NotLookedUp(Exception):
    """An object that has not been looked up yet."""

    def __init__(self, kind: GroupKind, key: Key) -> None:
        super().__init__(kind, key)
        self.kind, self.key = kind, key


async def answered(lookup: Lookup, question: Callable[[Finder], T], owners: Resources) -> T:
    """Evaluate a pure function of stored objects. Raises KubeError, and what the function raises.

    `owners` are the resources of kinds that may own jobs. The function is evaluated again whenever
    an object that it needs has been found.
    """
    known: dict[tuple[GroupKind, Key], Json | None] = {}

    def find(kind: GroupKind, key: Key) -> Json | None:
        if (kind, key) not in known:
            raise _NotLookedUp(kind, key)
        return known[kind, key]

    while True:
        try:
            return question(find)
        except _NotLookedUp as missing:
            at = missing.kind, missing.key
        resource = _RESOURCES.get(at[0]) or owners[at[0]]
        known[at] = await _found(lookup, resource, at[1])


async def _found(lookup: Lookup, resource: Resource, key: Key) -> Json | None:
    try:
        return await lookup.find(resource, key)
    except KubeError as error:
        if resource != kinds.WORKLOAD_PRIORITY_CLASSES:
            raise
        # A default must not prevent the creation of a job, so the class counts as absent.
        _log.warning("WorkloadPriorityClass %s cannot be read: %s", key.name, error)
        return None


_RESOURCES = kinds.by_kind((*LOOKED_UP, REPLICA_SET))


class CacheLookup:
    """Reads existing caches. `full` returns whether the cache of a kind has synced."""

    def __init__(
        self,
        client: Client,
        cached: Callable[[Resource, Key], Json | None],
        full: Callable[[Resource], bool],
    ) -> None:
        self._client = client
        self._cached = cached
        self._full = full

    async def find(self, resource: Resource, key: Key) -> Json | None:
        if self._full(resource):
            found = self._cached(resource, key)
            if found is not None or resource in _PROVEN_ABSENT:
                return found
        try:
            return await self._client.get(resource, key)
        except NotFound:
            return None


class InformerLookup:
    """Small caches for a process that runs webhooks without controllers."""

    def __init__(self, client: Client, clock: Clock | None = None) -> None:
        self._informers: dict[Resource, Informer[Json]] = {
            each: Informer(client, each, decode=_essence, clock=clock) for each in FOLLOWED
        }
        self._lookup = CacheLookup(client, self._cached, self._full)

    async def find(self, resource: Resource, key: Key) -> Json | None:
        return await self._lookup.find(resource, key)

    async def run(self) -> None:
        """Run the caches until cancelled."""
        async with asyncio.TaskGroup() as group:
            for each in self._informers.values():
                group.create_task(each.run())

    @property
    def synced(self) -> bool:
        return all(each.synced.is_set() for each in self._informers.values())

    def _cached(self, resource: Resource, key: Key) -> Json | None:
        informer = self._informers.get(resource)
        return informer.get(key) if informer is not None else None

    def _full(self, resource: Resource) -> bool:
        informer = self._informers.get(resource)
        return informer is not None and informer.synced.is_set()


def _essence(obj: Json) -> Json:
    """Return the parts that reviews read: labels, and references of queues and checks."""
    labels = obj["metadata"].get("labels")
    return {"metadata": {"labels": labels}, "spec": obj.get("spec")}
