# SPDX-License-Identifier: Apache-2.0
"""The common part of the runner's controllers: queue, status updates, deletions, events."""

from __future__ import annotations

from kuota.api.base import Json, Key
from kuota.api.merge_patch import difference
from kuota.api.owners import controller_of
from kuota.failures import INTERNAL_ERROR, note
from kuota.kube.client import Client
from kuota.kube.clock import Clock, steady
from kuota.kube.errors import NotFound
from kuota.kube.events import Recorder
from kuota.kube.informer import Informer
from kuota.kube.resources import JOBS, key_of
from kuota.kube.workqueue import WorkQueue


class RunnerController:
    """Reconciles the objects of one informer. `name` is the source of its events."""

    def __init__(
        self,
        name: str,
        client: Client,
        objects: Informer[Json],
        clock: Clock | None,
        recorder: Recorder | None,
    ) -> None:
        self._name = name
        self._client = client
        self._objects = objects
        self._clock = steady(clock)
        self._recorder = recorder
        self._queue: WorkQueue[Key] = WorkQueue(self._clock)

    def _object_changed(self, old: Json | None, new: Json | None) -> None:
        """Reconcile an object that was created or changed."""
        if new is not None:
            self._queue.add(key_of(new))

    def _owned_changed(self, kind: str, old: Json | None, new: Json | None) -> None:
        """Reconcile the controller of an object, if it is of this kind."""
        owned = new or old
        owner = None if owned is None else controller_of(owned)
        if owned is not None and owner is not None and owner.get("kind") == kind:
            self._queue.add(Key(key_of(owned).namespace, owner["name"]))

    def _now(self) -> float:
        return self._clock.now().timestamp()

    def _stuck(self, key: Key, error: Exception) -> None:
        obj = self._objects.get(key)
        if obj is not None:
            self._say(obj, INTERNAL_ERROR, note("Reconciling it", error), warning=True)

    async def _write_status(self, obj: Json, status: Json) -> Json:
        """Write the changed fields of the status if the object has not changed since it was read.

        Returns what was written; nothing if nothing differs, or if the object is gone.
        """
        changes = difference(obj.get("status") or {}, status)
        if not changes:
            return {}
        meta = obj["metadata"]
        expected = {"resourceVersion": meta["resourceVersion"], "uid": meta["uid"]}
        body = {"metadata": expected, "status": changes}
        try:
            written = await self._client.patch(
                self._objects.resource, key_of(obj), body, subresource="status"
            )
        except NotFound:
            return {}
        self._objects.wrote(written)
        return changes

    async def _delete_job(self, job: Json) -> bool:
        """Delete the Job, and its pods in the background. Returns False if it is already gone."""
        try:
            await self._client.delete(
                JOBS, key_of(job), propagation="Background", uid=job["metadata"]["uid"]
            )
        except NotFound:
            return False
        return True

    def _say(self, obj: Json, reason: str, note: str, *, warning: bool = False) -> None:
        if self._recorder is not None:
            self._recorder.record(obj, reason, note, warning=warning, controller=self._name)
