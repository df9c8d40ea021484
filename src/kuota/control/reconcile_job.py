# SPDX-License-Identifier: Apache-2.0
"""Reconciles a batch/v1 Job with its Workload, using `kuota.bridge.lifecycle_job`."""

from __future__ import annotations

from collections.abc import Callable

from kuota.api.base import Json, Key
from kuota.api.rules.report import child, text
from kuota.bridge.draft import StoredWorkload
from kuota.bridge.effects import Create, Effect, Event
from kuota.bridge.jobs.ancestor import GroupKind, NestingError, NestingTooDeep
from kuota.bridge.lifecycle_job import reconcile_job
from kuota.bridge.lifecycle_job_workload import prebuilt_name
from kuota.bridge.lifecycle_view import JobView, LifecycleConfig, ancestor_of
from kuota.kube.clock import Clock
from kuota.kube.workqueue import RetryLater

from .effects import Sender
from .world import World

FINISHED = "FinishedWorkload"
Occupied = Callable[[Key], frozenset[str]]
"""Returns the UIDs of the Jobs of this name, including deleted ones, that may have processes."""


class JobReconciler:
    """Reads from a World and writes through `sender`."""

    def __init__(
        self,
        world: World,
        sender: Sender,
        clock: Clock,
        config: LifecycleConfig,
        occupied: Occupied | None = None,
    ) -> None:
        self._world = world
        self._occupied = occupied
        self._sender = sender
        self._clock = clock
        self._config = config
        self._finished: dict[Key, str] = {}

    async def reconcile(self, key: Key) -> float | None:
        """Reconcile one Job. Returns the seconds until the next pass, if any; raises RetryLater."""
        async with self._sender.locks.hold(*self._names(key)):
            view = self.view(key)
            result = reconcile_job(view, self._clock.now().timestamp())
            await self._sender.send(self._news(view, result.effects))
        if result.fault:
            raise RetryLater(f"{key}: {result.fault}")
        return result.requeue_after_s

    def _names(self, key: Key) -> list[Key]:
        """Return the existing Workloads that the pass may write."""
        job = self._world.jobs.get(key)
        named = prebuilt_name(job, self._config.gates) if job is not None else ""
        own = [each.key for each in self._world.workloads_of(key)]
        return [*own, Key(key.namespace, named)] if named else own

    def _news(self, view: JobView, effects: tuple[Effect, ...]) -> list[Effect]:
        """Remove the event that a Workload is finished if it was already recorded.

        A Workload finishes in two passes: the first sets the condition, the second removes the
        finalizer.
        """
        uid = text(child(view.job or {}, "metadata").get("uid"))
        if view.job is None or any(isinstance(each, Create) for each in effects):
            self._finished.pop(view.key, None)
        found = []
        for each in effects:
            if isinstance(each, Event) and each.reason == FINISHED:
                if self._finished.get(view.key) == uid:
                    continue
                self._finished[view.key] = uid
            found.append(each)
        return found

    def view(self, key: Key) -> JobView:
        """Collect the inputs of a pass."""
        world = self._world
        job = world.jobs.get(key)
        namespace = world.namespaces.get(Key("", key.namespace))
        above, too_deep, nesting = None, False, ""
        try:
            if job is not None:
                above = ancestor_of(job, self._owner, self._workloads_of, self._config)
        except NestingError as error:
            too_deep, nesting = isinstance(error, NestingTooDeep), str(error)
        return JobView(
            key=key,
            job=job,
            workloads=tuple(self._workloads_of(key)),
            prebuilt=self._prebuilt(key, job),
            namespace=namespace.json["metadata"].get("labels") or {} if namespace else None,
            ancestor=above,
            nested_too_deep=too_deep,
            nesting=nesting,
            occupied=self._occupied(key) if self._occupied is not None else None,
            flavors=world.flavor_objects(),
            classes=world.classes(),
            config=self._config,
        )

    def _workloads_of(self, job: Key) -> list[StoredWorkload]:
        return [each.value for each in self._world.workloads_of(job) if each.value is not None]

    def _prebuilt(self, key: Key, job: Json | None) -> StoredWorkload | None:
        name = prebuilt_name(job, self._config.gates) if job is not None else ""
        cached = self._world.workload(Key(key.namespace, name)) if name else None
        return cached.value if cached is not None else None

    def _owner(self, kind: GroupKind, key: Key) -> Json | None:
        return self._world.jobs.get(key)
