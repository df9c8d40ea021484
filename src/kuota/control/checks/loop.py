# SPDX-License-Identifier: Apache-2.0
"""Runs one admission check controller: watches what it reads, and sends its effects.

The kinds that only this controller reads are watched once an AdmissionCheck names it, so a
controller that nobody uses costs nothing.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Iterator, Sequence
from contextlib import suppress
from functools import partial
from typing import NamedTuple

from kuota.api.base import Json, Key
from kuota.api.kueue import AdmissionCheck
from kuota.bridge.draft import PassResult, StoredWorkload
from kuota.failures import report
from kuota.kube.client import Client
from kuota.kube.clock import Clock
from kuota.kube.errors import AlreadyExists, ApiError, Conflict
from kuota.kube.informer import Informer
from kuota.kube.resources import Resource
from kuota.kube.workqueue import RetryLater, Stuck, WorkQueue, serve

from ..cached_object import CachedObject
from ..cluster_cache import ClusterCache
from ..effects import EffectSender
from ..observer import Instrument
from ..workload_indexes import CHECK
from .controller import Activity, CheckController, CheckedWorkload, Watched

WORKERS = 8

_WORKLOAD = "workload"


class WatchedObjects:
    """The objects of the kinds that one controller watches, as `controller.CheckObjects`."""

    def __init__(self, client: Client, clock: Clock, watched: Sequence[Watched]) -> None:
        self.informers: dict[Resource, Informer[Json]] = {
            each.resource: Informer[Json](
                client,
                each.resource,
                label_selector=each.label_selector,
                indexers={_WORKLOAD: partial(_workloads, each)},
                clock=clock,
            )
            for each in watched
        }

    def get(self, resource: Resource, key: Key) -> Json | None:
        return self.informers[resource].get(key)

    def for_workload(self, resource: Resource, workload: Key) -> list[Json]:
        return self.informers[resource].indexed(_WORKLOAD, str(workload))

    def lacking(self, resource: Resource) -> bool:
        return self.informers[resource].lacking


def _workloads(watched: Watched, obj: Json) -> list[str]:
    return [str(each) for each in _affected_workloads(watched, obj)]


def _affected_workloads(watched: Watched, obj: Json) -> list[Key]:
    """Return the Workloads that an object concerns; none if the controller fails to tell them.

    An observer must not raise, and the controller may be that of another package.
    """
    if watched.workloads is None:
        return []
    try:
        return list(watched.workloads(obj))
    except Exception as error:
        report("reconcile", error, f"finding the Workloads of {watched.resource} failed")
        return []


class ControllerDependencies(NamedTuple):
    """What the loops of a process share. `checks` receives the checks to be reconciled."""

    client: Client
    cache: ClusterCache
    sender: EffectSender
    clock: Clock
    checks: WorkQueue[Key]


class CheckLoop:
    """One controller with its work queue. Follow, then run.

    Until the watched kinds are known, nothing is reconciled.
    """

    def __init__(self, controller: CheckController, shared: ControllerDependencies) -> None:
        self.controller = controller
        self.queue: WorkQueue[Key] = WorkQueue(shared.clock)
        self.objects = WatchedObjects(shared.client, shared.clock, controller.watched)
        self._cache = shared.cache
        self._sender = shared.sender
        self._clock = shared.clock
        self._checks = shared.checks
        self._needed = asyncio.Event()
        self._closed = False
        self._cache.add(self.informers(), controller.effect_kinds)

    def informers(self) -> Iterator[Informer[Json]]:
        """Yield the informers of the kinds that only this controller reads."""
        yield from self.objects.informers.values()

    def follow(self) -> None:
        """Observe Workloads, AdmissionChecks and the watched kinds from now on."""
        self._cache.checks.observe(self._check)
        self._cache.workloads.observe(self._workload)
        for each in self.controller.watched:
            informer = self.objects.informers[each.resource]
            informer.observe(partial(self._object, each))
            informer.observe_lacking(self._enqueue_all)

    async def run(self, instrument: Instrument, stuck: Stuck[Key]) -> None:
        """Wait for the first check of this controller, then watch and reconcile until closed."""
        await self._needed.wait()
        if self._closed:
            return
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(each.run()) for each in self.informers()]
            tasks.append(group.create_task(self._enqueue_known()))
            passes = instrument(self.controller.name, self.reconcile)
            await serve(self.queue, passes, WORKERS, stuck)
            for each in tasks:
                each.cancel()

    def close(self) -> None:
        """Start nothing more."""
        self._closed = True
        self.queue.close()
        self._needed.set()

    async def _enqueue_known(self) -> None:
        """Once the watched kinds are known, enqueue everything: earlier passes did nothing."""
        for informer in self.informers():
            await informer.settled.wait()
        self._enqueue_all()
        for watched in self.controller.watched:
            for each in list(self.objects.informers[watched.resource].values()):
                self._object(watched, None, each)

    @property
    def _knows_all(self) -> bool:
        return all(each.settled.is_set() for each in self.informers())

    def activity(self, check: AdmissionCheck) -> Activity | None:
        """Return whether a check can be used; None while the watched kinds are unknown."""
        if not self._knows_all:
            return None
        return self.controller.activity(check, self.objects)

    async def reconcile(self, key: Key) -> float | None:
        """Reconcile one Workload. Returns the seconds until the next pass, if any.

        A rejected write is reported by the controller and raised, so that the pass is repeated.
        """
        async with self._sender.locks.hold(key):
            view = self._view(key)
            if view is None or not self._knows_all:
                return None
            result = self.controller.reconcile(view)
            try:
                await self._send(result)
            except AlreadyExists as error:
                # The watch has not delivered the object yet.
                raise RetryLater(f"{key}: {error}") from error
            except Conflict:
                raise
            except ApiError as error:
                await self._report(key, error)
                raise
        if result.fault:
            raise RetryLater(f"{key}: {result.fault}")
        return result.requeue_after_s

    async def _report(self, key: Key, error: ApiError) -> None:
        view = self._view(key)
        if view is not None:
            with suppress(Conflict):
                await self._send(self.controller.failed(view, str(error)))

    async def _send(self, result: PassResult) -> None:
        await self._sender.send(result.effects)

    def _view(self, key: Key) -> CheckedWorkload | None:
        cached = self._cache.workload(key)
        if cached is None or cached.value is None:
            return None
        return CheckedWorkload(
            stored=cached.value,
            checks=self._own_checks(cached.value),
            objects=self.objects,
            flavors=self._cache.flavor_objects(),
            now=self._clock.now().timestamp(),
            jitter=random.random(),
        )

    def _own_checks(self, stored: StoredWorkload) -> dict[str, AdmissionCheck]:
        names = [each.name for each in stored.obj.status.admission_checks or ()]
        found = ((name, self._cache.checks.get(Key("", name))) for name in names)
        return {
            name: each.value
            for name, each in found
            if each is not None and each.value is not None and self._owns(each)
        }

    def _owns(self, check: CachedObject[AdmissionCheck]) -> bool:
        value = check.value
        return value is not None and value.spec.controller_name == self.controller.name

    def _workload(
        self, old: CachedObject[StoredWorkload] | None, new: CachedObject[StoredWorkload] | None
    ) -> None:
        if not self._needed.is_set():
            return  # There is no check of this controller. Its first one enqueues its Workloads.
        for each in (old, new):
            if each is not None and each.value is not None and self._is_relevant(each.value):
                self.queue.add(each.key)
                return

    def _is_relevant(self, stored: StoredWorkload) -> bool:
        if self._own_checks(stored):
            return True
        kinds = self.objects.informers
        return any(self.objects.for_workload(each, stored.key) for each in kinds)

    def _check(
        self, old: CachedObject[AdmissionCheck] | None, new: CachedObject[AdmissionCheck] | None
    ) -> None:
        for each in (old, new):
            if each is not None and self._owns(each):
                self._needed.set()
                self._enqueue(each.key)
                return

    def _object(self, watched: Watched, old: Json | None, new: Json | None) -> None:
        if watched.workloads is None:
            self._enqueue_all()
            return
        for each in (old, new):
            for key in _affected_workloads(watched, each) if each is not None else ():
                self.queue.add(key)

    def _enqueue_all(self) -> None:
        """Enqueue the checks of this controller and their Workloads."""
        for each in list(self._cache.checks.values()):
            if self._owns(each):
                self._enqueue(each.key)

    def _enqueue(self, check: Key) -> None:
        self._checks.add(check)
        for each in self._cache.workloads.indexed(CHECK, check.name):
            self.queue.add(each.key)
