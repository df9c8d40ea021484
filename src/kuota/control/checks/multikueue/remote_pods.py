# SPDX-License-Identifier: Apache-2.0
"""Reads the pods of dispatched Workloads, and their logs, in the clusters that run them.

The credentials of a cluster stay here. Only pods of the copy of a Workload are visible, and only
what shows their state: another team may use a namespace of the same name in that cluster.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing

from kuota.api.base import Json, Key
from kuota.api.config.frameworks import FRAMEWORKS
from kuota.api.owners import controller_of, owners
from kuota.api.rules.report import child, elements, mapping, text
from kuota.bridge.jobs.ancestor import group_kind
from kuota.control.cluster_cache import ClusterCache
from kuota.kube.client import Client
from kuota.kube.clock import Clock
from kuota.kube.errors import (
    ApiError,
    BadRequest,
    Forbidden,
    NotFound,
    TooManyRequests,
    Unreachable,
)
from kuota.kube.requests import LogOptions
from kuota.kube.resources import PODS, Resource

from .copies import owned
from .group import MultiKueueSettings
from .remote import RemoteCluster, RemoteClusters
from .worker_client import explained

MOST_LOGS, MOST_OF_NAMESPACE = 128, 64
"""How many logs of one cluster are open at a time, in all and by namespace."""
LISTED_S = 0.4
"""How long a list of pods is used again. Many users may ask at the same time."""
INTEREST_S = 3.0
"""For how long after a request it is assumed that the user is still interested."""
DEPTH = 5
"""How many owners there may be between a pod and the job."""
_METADATA = ("namespace", "name", "uid", "creationTimestamp", "deletionTimestamp")
_CONTAINERS = ("initContainers", "containers")
_STATUS = (
    "phase",
    "reason",
    "message",
    "startTime",
    "conditions",
    "initContainerStatuses",
    "containerStatuses",
)
_RESOURCES = {
    (each.group, each.kind): Resource(each.group, each.version, each.plural, each.kind)
    for each in FRAMEWORKS.values()
}
"""The kinds that may own pods, as the role of a manager lists them."""


class RemotePods:
    """Raises ApiError: NotFound, or 503 if the cluster cannot be asked now."""

    def __init__(
        self,
        cache: ClusterCache,
        clusters: RemoteClusters,
        settings: Callable[[], MultiKueueSettings],
        clock: Clock,
    ) -> None:
        self._cache, self._clusters, self._settings = cache, clusters, settings
        self._clock = clock
        self._open: Counter[tuple[str, str]] = Counter()
        self._lists: dict[tuple[str, str], tuple[float, list[Json]]] = {}
        self._asked: dict[Key, float] = {}

    def has_log_readers(self, key: Key) -> bool:
        """Whether a user follows the logs of a Workload, and may not have read all of them."""
        asked = self._asked.get(key)
        return asked is not None and self._clock.monotonic() - asked < INTEREST_S

    async def pods(self, key: Key) -> tuple[str, list[Json]]:
        """Return the cluster of a Workload, and its pods there, oldest first."""
        cluster, roots = self._copy(key)
        try:
            listed = await self._listed(cluster, key.namespace)
            owned = _OwnedPods(cluster.client, key.namespace, roots)
            found = [_shown(each) for each in listed if await owned.includes(each)]
        except (ApiError, Unreachable) as error:
            raise _unavailable(cluster.name, error) from None
        oldest = sorted(found, key=lambda each: text(each["metadata"].get("creationTimestamp")))
        return cluster.name, oldest

    async def log(self, key: Key, pod: str, options: LogOptions) -> AsyncGenerator[bytes, None]:
        """Yield the log of a pod of a Workload in chunks."""
        cluster, roots = self._copy(key)
        there = Key(key.namespace, pod)
        place = (cluster.name, key.namespace)
        self._check_limits(*place)
        self._open[place] += 1
        try:
            found = await cluster.client.get(PODS, there)
            if not await _OwnedPods(cluster.client, key.namespace, roots).includes(found):
                raise _no_pod(pod, cluster.name)
            async with aclosing(cluster.client.log(there, options)) as chunks:
                async for chunk in chunks:
                    yield chunk
        except (NotFound, ValueError):
            raise _no_pod(pod, cluster.name) from None
        except (BadRequest, TooManyRequests):
            raise
        except (ApiError, Unreachable) as error:
            raise _unavailable(cluster.name, error) from None
        finally:
            self._open[place] -= 1
            self._open += Counter()  # Removes places without open logs.

    def _check_limits(self, cluster: str, namespace: str) -> None:
        """Raise TooManyRequests. The manager needs connections to the cluster for its own work."""
        of_cluster = sum(count for (name, _), count in self._open.items() if name == cluster)
        if of_cluster >= MOST_LOGS or self._open[cluster, namespace] >= MOST_OF_NAMESPACE:
            why = f"too many logs of cluster {cluster} are open; close some, or try again later"
            raise TooManyRequests(429, "TooManyRequests", why)

    async def _listed(self, cluster: RemoteCluster, namespace: str) -> list[Json]:
        """Return the pods of a namespace, as they are or were a moment ago."""
        now, at = self._clock.monotonic(), (cluster.name, namespace)
        self._lists = {k: v for k, v in self._lists.items() if now - v[0] < LISTED_S}
        if at not in self._lists:
            found = (await cluster.client.list(PODS, namespace)).items
            self._lists[at] = (self._clock.monotonic(), found)
        return self._lists[at][1]

    def _note(self, key: Key) -> None:
        """Remember that a user is interested in a Workload."""
        now = self._clock.monotonic()
        self._asked = {k: v for k, v in self._asked.items() if now - v < INTEREST_S}
        self._asked[key] = now

    def _copy(self, key: Key) -> tuple[RemoteCluster, frozenset[str]]:
        """Return the cluster of a Workload, and the UIDs of the owners of its copy there."""
        cached = self._cache.workload(key)
        if cached is None or cached.value is None:
            raise NotFound(404, "NotFound", f'workloads.kueue.x-k8s.io "{key.name}" not found')
        self._note(key)
        name = cached.value.obj.status.cluster_name
        if not name:
            why = f"Workload {key.name} runs in no other cluster"
            raise NotFound(404, "NotFound", why)
        cluster = self._clusters.get(name)
        if cluster is None or not cluster.connected:
            why = f"cluster {name} is not connected to the replica that answers; try again later"
            raise ApiError(503, "ServiceUnavailable", why)
        copy = cluster.workload(key)
        if copy is None or not owned(copy, self._settings()):
            why = f"cluster {name} has no copy of Workload {key.name}, which may have finished"
            raise NotFound(404, "NotFound", why)
        return cluster, frozenset(text(each.get("uid")) for each in owners(copy))


class _OwnedPods:
    """The objects below the owners with these UIDs. Owners of pods are read once each."""

    def __init__(self, client: Client, namespace: str, roots: frozenset[str]) -> None:
        self._client, self._namespace = client, namespace
        self._known: dict[str, bool] = dict.fromkeys(roots - {""}, True)

    async def includes(self, obj: Json) -> bool:
        """Whether the object is one of the owners, or one of them owns it indirectly."""
        passed: list[str] = []
        found: Json | None = obj
        included = False
        while found is not None and len(passed) < DEPTH:
            uid = text(child(found, "metadata").get("uid"))
            passed.append(uid)
            if uid in self._known:
                included = self._known[uid]
                break
            found = await self._owner(controller_of(found))
        self._known |= dict.fromkeys(passed, included)
        return included

    async def _owner(self, reference: Json | None) -> Json | None:
        """Return the object that a reference names, as far as it has to be read."""
        uid = text((reference or {}).get("uid"))
        if reference is None or not uid:
            return None
        if uid in self._known:
            return {"metadata": {"uid": uid}}
        resource = _RESOURCES.get(group_kind(reference))
        if resource is None:
            return None
        try:
            key = Key(self._namespace, text(reference.get("name")))
            found = await self._client.get(resource, key)
        except (NotFound, Forbidden, ValueError):
            return None
        return found if text(child(found, "metadata").get("uid")) == uid else None


def _shown(pod: Json) -> Json:
    """Return what shows the state of a pod. The rest of its spec may be that cluster's secret."""
    meta, spec, status = (child(pod, field) for field in ("metadata", "spec", "status"))
    named: Json = {
        field: [{"name": text(mapping(each).get("name"))} for each in elements(spec.get(field))]
        for field in _CONTAINERS
        if spec.get(field)
    }
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": _picked(meta, _METADATA),
        "spec": named | _picked(spec, ("nodeName",)),
        "status": _picked(status, _STATUS),
    }


def _picked(found: Json, fields: tuple[str, ...]) -> Json:
    return {field: found[field] for field in fields if field in found}


def _no_pod(pod: str, cluster: str) -> NotFound:
    why = f'the workload has no pod "{pod[:253]}" in cluster {cluster}'
    return NotFound(404, "NotFound", why)


def _unavailable(cluster: str, error: Exception) -> ApiError:
    """Return the error for a cluster that does not answer, without its address."""
    why = f"cluster {cluster}: {explained(error)}"
    return ApiError(503, "ServiceUnavailable", why)
