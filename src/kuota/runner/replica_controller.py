# SPDX-License-Identifier: Apache-2.0
"""Keeps the pods of Deployments and StatefulSets, as the rules of the kind decide."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import NamedTuple

from kuota.api.base import Json, Key
from kuota.api.rules.report import child, string_map
from kuota.kube.client import Client
from kuota.kube.clock import Clock
from kuota.kube.errors import NotFound
from kuota.kube.events import Recorder
from kuota.kube.informer import Informer
from kuota.kube.resources import key_of
from kuota.kube.workqueue import serve

from .cron_controller import OWNER, owner_uids
from .deployment_rules import deployment_step
from .pod_controller import PodController
from .replicas import ReplicaStep, Revision
from .revision_records import RevisionRecords
from .revisions import CONTROLLER_REVISION_RECORDS, NUMBER, REPLICA_SET_RECORDS, RecordKind
from .stateful_set_rules import stateful_set_step

Rules = Callable[[Json, Sequence[Json], float, Mapping[str, Revision]], ReplicaStep]
"""Returns the next step of an object, from the object, its pods, the time, and its revisions by the
name of their records."""


class ReplicaKind(NamedTuple):
    """How the pods of a kind are kept, and how its templates are recorded."""

    step: Rules
    records: RecordKind


REPLICA_KINDS: Mapping[tuple[str, str], ReplicaKind] = {
    ("apps", "Deployment"): ReplicaKind(deployment_step, REPLICA_SET_RECORDS),
    ("apps", "StatefulSet"): ReplicaKind(stateful_set_step, CONTROLLER_REVISION_RECORDS),
}
"""The kinds whose pods are created one by one."""


class ReplicaController(PodController):
    """Reconciles the objects of one informer with their pods and records while `run` runs.

    The caller must run the informers of objects and pods.
    """

    def __init__(
        self,
        client: Client,
        objects: Informer[Json],
        pods: Informer[Json],
        kind: ReplicaKind,
        *,
        clock: Clock | None = None,
        recorder: Recorder | None = None,
    ) -> None:
        self._kind = objects.resource.kind
        name = f"{self._kind.lower()}-controller"
        super().__init__(name, client, objects, pods, clock, recorder)
        pods.add_index(OWNER, owner_uids)
        self._rules = kind.step
        self._records = RevisionRecords(client, kind.records, self._clock)

    async def run(self) -> None:
        """Reconcile until cancelled."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._records.informer.run())
            informers = (self._objects, self._pods, self._records.informer)
            await asyncio.gather(*(each.synced.wait() for each in informers))
            self._objects.observe(self._object_changed)
            self._pods.observe(partial(self._owned_changed, self._kind))
            await serve(self._queue, self.reconcile, stuck=self._stuck)

    async def reconcile(self, key: Key) -> float | None:
        """Reconcile one object. Returns the seconds until the next check."""
        obj = self._objects.get(key)
        if obj is None:
            return None
        obj = await self._recorded(obj)
        step = self._step(obj)
        for view in step.delete:
            await self._delete(obj, view)
        await self._create(obj, step.create)
        if step.delete or step.create:
            step = self._step(obj)
            await self._records.keep(obj, self._pods_of(obj))
        await self._write_status(obj, step.status)
        return None if step.retry_at is None else max(0.0, step.retry_at - self._now())

    def _step(self, obj: Json) -> ReplicaStep:
        revisions = self._records.revisions(obj)
        return self._rules(obj, self._pods_of(obj), self._now(), revisions)

    async def _recorded(self, obj: Json) -> Json:
        """Keep the records of the object, and its number. Returns the object as it is then."""
        number = await self._records.keep(obj, self._pods_of(obj))
        before = string_map(child(obj, "metadata").get("annotations")).get(NUMBER)
        if not self._records.numbers_objects or number is None or before == str(number):
            return obj
        body = {"metadata": {"uid": obj["metadata"]["uid"], "annotations": {NUMBER: str(number)}}}
        try:
            written = await self._client.patch(self._objects.resource, key_of(obj), body)
        except NotFound:
            return obj
        self._objects.wrote(written)
        return written

    def _pods_of(self, obj: Json) -> list[Json]:
        namespace = key_of(obj).namespace
        found = self._pods.indexed(OWNER, obj["metadata"]["uid"])
        return [each for each in found if key_of(each).namespace == namespace]


def replica_controllers(
    client: Client,
    pods: Informer[Json],
    others: Mapping[tuple[str, str], Informer[Json]],
    clock: Clock,
    recorder: Recorder | None,
) -> list[ReplicaController]:
    """The controllers of those job kinds whose pods are created one by one."""
    return [
        ReplicaController(
            client, objects, pods, REPLICA_KINDS[kind], clock=clock, recorder=recorder
        )
        for kind, objects in others.items()
        if kind in REPLICA_KINDS
    ]
