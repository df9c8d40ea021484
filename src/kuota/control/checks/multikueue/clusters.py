# SPDX-License-Identifier: Apache-2.0
"""Reconciles MultiKueueClusters: reads the kubeconfig, connects, and writes the condition."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from kuota.api.base import Json, Key
from kuota.api.gates import Gate, Gates
from kuota.api.kueue import MultiKueueCluster, MultiKueueConfig
from kuota.bridge.conditions import Conditions
from kuota.control.cached_object import CachedObject
from kuota.control.observer import Instrument
from kuota.kube.client import Client
from kuota.kube.clock import Clock
from kuota.kube.config import Connection
from kuota.kube.errors import NotFound
from kuota.kube.events import Recorder
from kuota.kube.resources import MULTI_KUEUE_CLUSTERS, key_of
from kuota.kube.workqueue import WorkQueue, serve

from ..controller import Activity
from .activity import ACTIVE
from .cluster_connections import ClusterConnections
from .kubeconfig import BAD, ClusterUnusable, accepted
from .kubeconfig_file import PREFIX, file_content, file_version
from .objects import MultiKueueObjects
from .origin_conflicts import CONFLICT
from .profile import Providers, profile_connection
from .references import path_name, profile_name, secret_name

CONTROLLER = "multikueue_cluster"
"""The name of the loop in metrics, as in Kueue."""
LOOK_AGAIN_S = 1.0
"""The interval between checks whether a kubeconfig file or a permission has changed."""
GATE_OFF = "MultiKueueClusterProfileFeatureDisabled"
_DEPRECATED = (
    "Using locationType=Path without the feature gate MultiKueueKubeConfigPathValidation is "
    f"deprecated. Enable the gate and place kubeconfigs in {PREFIX}."
)


class ClusterReconciler:
    """One work queue for all clusters. Connections have their own tasks, so none blocks it."""

    def __init__(
        self,
        client: Client,
        clock: Clock,
        recorder: Recorder,
        gates: Gates,
        objects: MultiKueueObjects,
        providers: Providers,
    ) -> None:
        self._client, self._clock, self._recorder = client, clock, recorder
        self._gates, self._objects, self._providers = gates, objects, providers
        self.queue: WorkQueue[Key] = WorkQueue(clock)
        self.connections: ClusterConnections | None = None
        self.conflict: Callable[[str], Activity | None] = lambda _: None
        """Returns the condition of a cluster in which another manager uses the same origin."""
        self._files: dict[str, object] = {}

    def changed(self, name: str) -> None:
        """Reconcile a cluster, because the state of its connection has changed."""
        self.queue.add(Key("", name))

    def follow(self) -> None:
        """Reconcile all existing clusters, and every later change."""
        self._objects.clusters.observe(self._cluster)
        self._objects.secrets.observe(self._secret)
        self._objects.configs.observe(self._config)
        if self._objects.profiles is not None:
            self._objects.profiles.observe(self._profile)

    async def run(self, instrument: Instrument) -> None:
        """Reconcile until closed."""
        watching = (self._watch_secrets, self._watch_profiles, self._watch_files)
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(each()) for each in watching]
            await serve(self.queue, instrument(CONTROLLER, self.reconcile))
            for each in tasks:
                each.cancel()

    async def reconcile(self, key: Key) -> float | None:
        """Connect a cluster as its object says, and write its condition."""
        assert self.connections is not None
        cached = self._objects.clusters.get(key)
        if cached is None or cached.json["metadata"].get("deletionTimestamp"):
            self._files.pop(key.name, None)
            await self.connections.forget(key.name)
            return None
        state = await self._connected(key.name, cached.value, self.connections)
        if state is None:
            return LOOK_AGAIN_S
        await self._write(cached, state)
        return LOOK_AGAIN_S if self._objects.forbidden else None

    async def _connected(
        self, name: str, cluster: MultiKueueCluster | None, connections: ClusterConnections
    ) -> Activity | None:
        try:
            if cluster is None:
                raise ClusterUnusable(BAD, "the object cannot be read; correct its spec")
            connection = self._connection(cluster)
        except ClusterUnusable as refusal:
            await connections.stop(name)
            return Activity(False, refusal.reason, refusal.message)
        if connection is None:
            return None
        await connections.use(name, connection)
        return connections.state(name)

    def _connection(self, cluster: MultiKueueCluster) -> Connection | None:
        """Return how to connect; None if that is not known yet. Raises ClusterUnusable."""
        profile = profile_name(cluster)
        if profile:
            return self._profile_connection(profile)
        content = self._content(cluster)
        return None if content is None else accepted(content)

    def _content(self, cluster: MultiKueueCluster) -> str | None:
        location = path_name(cluster)
        if not location:
            name = secret_name(cluster)
            if not name:
                raise ClusterUnusable(BAD, "spec.clusterSource names no kubeconfig; name a Secret")
            return self._objects.kubeconfig(name)
        self._files[cluster.metadata.name] = file_version(location)
        confined = self._gates.on(Gate.MultiKueueKubeConfigPathValidation)
        if not confined:
            about = {"apiVersion": MULTI_KUEUE_CLUSTERS.api_version, "kind": "MultiKueueCluster"}
            meta = {"name": cluster.metadata.name, "uid": cluster.metadata.uid}
            named: Json = about | {"metadata": meta}
            self._recorder.record(named, "DeprecatedPathUsage", _DEPRECATED, warning=True)
        return file_content(location, confined=confined)

    def _profile_connection(self, name: str) -> Connection | None:
        if self._objects.profiles is None:
            raise ClusterUnusable(GATE_OFF, "the feature gate MultiKueueClusterProfile is disabled")
        profile = self._objects.profile(name)
        return None if profile is None else profile_connection(profile, name, self._providers)

    async def _write(self, cached: CachedObject[MultiKueueCluster], state: Activity) -> None:
        meta = cached.json["metadata"]
        stored = cached.value.status.conditions if cached.value is not None else None
        now, generation = self._clock.now().timestamp(), int(meta.get("generation") or 0)
        conditions = Conditions(stored, now, generation)
        conditions.put(ACTIVE, state.active, state.reason, state.message)
        conflict = self.conflict(cached.key.name)
        if conflict is None:
            conditions.drop(CONFLICT)
        else:
            conditions.put(CONFLICT, conflict.active, conflict.reason, conflict.message)
        if not conditions.changed:
            return
        body = {
            "metadata": {"resourceVersion": meta.get("resourceVersion")},
            "status": {"conditions": conditions.json()},
        }
        try:
            answer = await self._client.patch(
                MULTI_KUEUE_CLUSTERS, cached.key, body, subresource="status"
            )
        except NotFound:
            return
        self._objects.clusters.wrote(answer)

    def _cluster(self, old: CachedObject[Any] | None, new: CachedObject[Any] | None) -> None:
        cached = new or old
        assert cached is not None
        status_only = (
            old is not None
            and new is not None
            and old.json.get("spec") == new.json.get("spec")
            and not new.json["metadata"].get("deletionTimestamp")
        )
        if not status_only:
            self.queue.add(cached.key)

    def _config(
        self,
        old: CachedObject[MultiKueueConfig] | None,
        new: CachedObject[MultiKueueConfig] | None,
    ) -> None:
        for each in (old, new):
            if each is not None and each.value is not None:
                for name in each.value.spec.clusters or ():
                    self.queue.add(Key("", name))

    def _secret(self, old: Json | None, new: Json | None) -> None:
        name = key_of(new or old or {}).name
        self._add_all(lambda cluster: secret_name(cluster) == name)

    def _profile(self, old: Json | None, new: Json | None) -> None:
        name = key_of(new or old or {}).name
        self._add_all(lambda cluster: profile_name(cluster) == name)

    def _add_all(self, selects: Any) -> None:
        for each in self._objects.clusters.values():
            if each.value is not None and selects(each.value):
                self.queue.add(each.key)

    async def _watch_secrets(self) -> None:
        """Reconcile clusters whose Secret does not exist, once Secrets are known."""
        await self._objects.secrets.synced.wait()
        self._add_all(secret_name)

    async def _watch_profiles(self) -> None:
        """Reconcile clusters whose ClusterProfile does not exist, once all are known."""
        if self._objects.profiles is not None:
            await self._objects.profiles.settled.wait()
            self._add_all(profile_name)

    async def _watch_files(self) -> None:
        while True:
            await self._clock.sleep(LOOK_AGAIN_S)
            for each in self._objects.clusters.values():
                location = path_name(each.value) if each.value is not None else ""
                if location and self._files.get(each.key.name) != file_version(location):
                    self.queue.add(each.key)
