# SPDX-License-Identifier: Apache-2.0
"""Sends the writes of a pass to one worker cluster."""

from __future__ import annotations

from collections.abc import Mapping

from kuota.api.base import Json, Key
from kuota.bridge.effects import Create
from kuota.bridge.jobs.ancestor import GroupKind
from kuota.bridge.jobs.dispatch import is_owned
from kuota.control.effects import EffectSender
from kuota.kube.errors import AlreadyExists, NotFound
from kuota.kube.events import Recorder
from kuota.kube.resources import WORKLOADS, Resource
from kuota.kube.workqueue import RetryLater

from .remote import RemoteCluster


class RemoteObjects:
    """The cache of a worker cluster, as a sender needs it."""

    def __init__(self, cluster: RemoteCluster, resources: Mapping[str, Resource]) -> None:
        self.resources = {WORKLOADS.kind: WORKLOADS, **resources}
        self._cluster = cluster

    def wrote(self, resource: Resource, answer: Json) -> None:
        self._cluster.wrote(_kind(resource), answer)

    def json(self, resource: Resource, key: Key) -> Json | None:
        return self._cluster.get(_kind(resource), key)


class RemoteSender(EffectSender):
    """Sends effects to a worker cluster, and refuses to adopt objects of others."""

    def __init__(
        self,
        cluster: RemoteCluster,
        resources: Mapping[str, Resource],
        origin: str,
        recorder: Recorder,
    ) -> None:
        self._objects = RemoteObjects(cluster, resources)
        super().__init__(cluster.client, self._objects, recorder)
        self._origin = origin

    async def _create(self, resource: Resource, effect: Create) -> None:
        """Create an object. One of this origin that exists is read and found by the next pass.

        Raises ForeignObject if it exists and belongs to others.
        """
        key = effect.key
        try:
            self._objects.wrote(resource, await self._client.create(resource, effect.object))
        except AlreadyExists:
            found = await self._client.get(resource, key)
            is_owned({"kind": resource.kind, **found}, self._origin)
            self._objects.wrote(resource, found)
            raise RetryLater(f"{resource.kind} {key} exists already") from None
        except NotFound as error:
            raise MissingInWorkerCluster(
                f"cannot create {resource.kind} {key}: {error}. The namespace {key.namespace} and "
                f"the kind {resource.kind} have to exist in the cluster"
            ) from error


class MissingInWorkerCluster(Exception):
    """The cluster lacks something that every dispatched Workload needs."""


def _kind(resource: Resource) -> GroupKind:
    return resource.group, resource.kind
