# SPDX-License-Identifier: Apache-2.0
"""What each viewer may read, determined again and again so that changes of permissions count."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable

import msgspec

from kuota.kube.access import UserInfo
from kuota.kube.resources import (
    CLUSTER_QUEUES,
    COHORTS,
    CORE_EVENTS,
    LOCAL_QUEUES,
    NODES,
    PODS,
    RESOURCE_FLAVORS,
    TOPOLOGIES,
    WORKLOADS,
    Resource,
)

from .access import ADMINS, ViewerAccess, permitted_namespaces, requesting
from .responses import forbidden

MOST = 1000
"""The most users whose permissions are cached."""
NEEDED: dict[str, tuple[Resource, ...]] = {
    "tree": (CLUSTER_QUEUES, COHORTS),
    "queue": (CLUSTER_QUEUES, COHORTS),
    "topology": (TOPOLOGIES, RESOURCE_FLAVORS, NODES),
    "nodes": (NODES,),
    "workloads": (),
    "workload": (),
}
"""The cluster-scoped kinds that a viewer of each view must be able to list."""

Namespaces = frozenset[str] | None
"""Namespaces, or None for all of them."""


class Scope(msgspec.Struct, frozen=True):
    """The namespaces whose objects a viewer may list."""

    workloads: Namespaces
    pods: Namespaces
    local_queues: Namespaces
    events: Namespaces


EVERYTHING = Scope(None, None, None, None)


def visible(namespaces: Namespaces, namespace: str) -> bool:
    """Whether the namespace is one of these."""
    return namespaces is None or namespace in namespaces


class Scopes:
    """Permissions of viewers, cached for a short time. `namespaces` returns those that exist."""

    def __init__(
        self,
        access: ViewerAccess,
        namespaces: Callable[[], Awaitable[list[str]]],
        *,
        ttl_s: float,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.ttl_s = ttl_s
        self._access = access
        self._namespaces = namespaces
        self._clock = clock
        self._known: dict[UserInfo, tuple[float, Scope]] = {}

    async def of(self, user: UserInfo) -> Scope:
        """Return what the user may read."""
        known = self._known.get(user)
        if known is not None and known[0] > self._clock():
            return known[1]
        scope = await self._found(user)
        self._known.pop(user, None)
        if len(self._known) >= MOST:
            del self._known[next(iter(self._known))]
        self._known[user] = self._clock() + self.ttl_s, scope
        return scope

    async def changeable(self, user: UserInfo, resource: Resource) -> Namespaces:
        """Return the namespaces in which the user may change objects; None if everywhere."""
        places = await self._namespaces() if resource.namespaced else []
        return await permitted_namespaces(self._access, user, resource, places, "patch")

    async def check(self, user: UserInfo, view: str) -> None:
        """Raise StatusError if the user may not see the view at all."""
        if ADMINS in user.groups:
            return
        for each in NEEDED[view]:
            if not await self._access.allows(user, requesting(each)):
                raise forbidden(f'User "{user.name}" may not list {each}, which this page shows')

    async def _found(self, user: UserInfo) -> Scope:
        if ADMINS in user.groups:
            return EVERYTHING
        places = await self._namespaces()
        kinds = (WORKLOADS, PODS, LOCAL_QUEUES, CORE_EVENTS)
        found = [await permitted_namespaces(self._access, user, each, places) for each in kinds]
        return Scope(*found)
