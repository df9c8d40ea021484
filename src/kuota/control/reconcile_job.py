# SPDX-License-Identifier: Apache-2.0
"""Reconciles a job with its Workload, using `kuota.bridge.job_pass`."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import msgspec

from kuota.api.base import Json, Key
from kuota.api.gates import Gate
from kuota.api.kueue import MULTIKUEUE
from kuota.api.owners import controller_of
from kuota.api.rules.job_common import queue_name
from kuota.api.rules.report import child, string_map, text
from kuota.bridge.draft import PassResult, StoredWorkload
from kuota.bridge.effects import Create, Effect, Event
from kuota.bridge.job_pass.match import prebuilt_name
from kuota.bridge.job_pass.steps import reconcile_job
from kuota.bridge.jobs.ancestor import GroupKind, NestingError, NestingTooDeep
from kuota.bridge.jobs.composable import ComposableJob, JobWithTermination, members_of
from kuota.bridge.jobs.job_webhook import NAMESPACE, waits_for_quota
from kuota.bridge.jobs.kind import JobKey, JobKind, resolved
from kuota.bridge.jobs.pod_parent import ParentView, PodParent, reconcile_parent
from kuota.bridge.lifecycle_view import JobPassInput, LifecycleConfig, ancestor_of
from kuota.kube.clock import Clock
from kuota.kube.errors import Forbidden, Invalid, NotFound
from kuota.kube.workqueue import RetryLater

from .cluster_cache import ClusterCache
from .effects import EffectSender

FINISHED = "FinishedWorkload"
WORKLOAD_REJECTED = "ErrWorkloadCompose"
UPDATE_REJECTED = "UpdateRejected"
STOPPED = "Stopped"
NOT_SUSPENDED = "SuspendIgnored"
_VERSION = "resourceVersion"
_REPORTED = 10
"""The number of members of a job that get an event."""
Occupied = Callable[[JobKey], frozenset[str]]
"""Returns the UIDs of jobs of this kind and name, also of deleted ones, that may have processes."""


class JobReconciler:
    """Reads from a ClusterCache and writes through `sender`."""

    def __init__(
        self,
        cache: ClusterCache,
        sender: EffectSender,
        clock: Clock,
        config: LifecycleConfig,
        occupied: Occupied | None = None,
    ) -> None:
        self._cache = cache
        self._occupied = occupied
        self._sender = sender
        self._clock = clock
        self._config = config
        self._finished: dict[JobKey, str] = {}
        self._postponed: dict[GroupKind, set[JobKey]] = {}

    def take_postponed(self, kind: GroupKind) -> set[JobKey]:
        """Return and forget the existing jobs whose passes began before their kind was known."""
        return self._postponed.pop(kind, set())

    def _note_postponed(self, at: JobKey) -> None:
        """Record a job that exists. Others may be of a kind that is never defined."""
        if self._cache.job(at) is not None:
            self._postponed.setdefault(at.kind, set()).add(at)
        elif at.kind in self._postponed:
            self._postponed[at.kind].discard(at)

    async def reconcile(self, at: JobKey) -> float | None:
        """Reconcile one job. Returns the seconds until the next pass, if any; raises RetryLater."""
        kind = self._config.kind(at.kind)
        if kind is None:
            return None
        if not self._cache.job_caches.known(at.kind):
            self._note_postponed(at)
            return None
        job = self._cache.job(at)
        if job is not None and kind.ancestors and controller_of(job) is not None:
            await self._cache.read_owners(job)
        if isinstance(kind, PodParent):
            result = await self._reconcile_parent(kind, at)
        else:
            async with self._sender.locks.hold(*self._workload_keys(at)):
                before = self._cache.job(at)
                result = await self._evaluated(lambda: self._pass(at))
                await self._send(at, list(result.effects))
                self._note_finished(at, before, result.effects)
                self._check_stop(at, kind, before, result.effects)
        if result.invalid:
            self._warn(at, WORKLOAD_REJECTED, result.fault)
        if result.fault:
            raise RetryLater(f"{at}: {result.fault}")
        return result.requeue_after_s

    async def _evaluated(self, run: Callable[[], PassResult]) -> PassResult:
        """Return the result of a pass, which runs again if what it did not find exists by now."""
        result = run()
        if result.missing is not None and await self._cache.find_missing(result.missing):
            return run()
        return result

    def _pass(self, at: JobKey) -> PassResult:
        view = self.view(at)
        result = reconcile_job(view, self._clock.now().timestamp())
        effects = self._without_repeated_event(at, view, result.effects)
        return msgspec.structs.replace(result, effects=effects)

    async def _send(self, at: JobKey, effects: list[Effect]) -> None:
        """Send the effects. If the API server rejects one, the job gets an event that says why."""
        try:
            await self._sender.send(effects)
        except (Invalid, Forbidden, NotFound) as error:
            composes = any(isinstance(each, Create) for each in effects)
            self._warn(at, WORKLOAD_REJECTED if composes else UPDATE_REJECTED, str(error))
            raise

    def _warn(self, at: JobKey, reason: str, message: str) -> None:
        """Record an event about a job, or about the members of a composed one."""
        kind = self._config.registry.kind(at.kind)
        for key in self._object_keys(kind, at)[:_REPORTED]:
            self._sender.record(Event.about(key, reason, message, warning=True, kind=kind.name))

    def _check_stop(
        self, at: JobKey, kind: JobKind, job: Json | None, effects: Sequence[Effect]
    ) -> None:
        """Report a job that the API server does not suspend. Raises RetryLater.

        It drops fields that the definition of a kind does not have, such as `suspend`.
        """
        stops = any(isinstance(each, Event) and each.reason == STOPPED for each in effects)
        stored = self._cache.job(at) if stops and not isinstance(kind, JobWithTermination) else None
        if stored is None or job is None or kind.suspended(stored):
            return
        if child(stored, "metadata").get(_VERSION) != child(job, "metadata").get(_VERSION):
            return
        message = (
            "The API server does not store that the job is suspended: the definition of "
            f"{kind.gvk.kind} lacks the field, so the job runs without quota; install a version "
            "of its CustomResourceDefinition that has it"
        )
        self._warn(at, NOT_SUSPENDED, message)
        raise RetryLater(f"{at}: {message}")

    def _object_keys(self, kind: JobKind, at: JobKey) -> list[Key]:
        """Return the key of a job, or those of the members of a composed one."""
        if not isinstance(kind, ComposableJob):
            return [at.key]
        return members_of(self._cache.job(at) or {}).keys()

    async def _reconcile_parent(self, kind: PodParent, at: JobKey) -> PassResult:
        """Reconcile an object whose Pods are queued."""
        stored = self._parent_workloads(kind, at)
        async with self._sender.locks.hold(*(each.key for each in stored)):
            result = await self._evaluated(lambda: self._parent_pass(kind, at))
            await self._send(at, list(result.effects))
        return result

    def _parent_pass(self, kind: PodParent, at: JobKey) -> PassResult:
        try:
            view = self.parent_view(kind, at)
        except NestingError as error:
            return PassResult(fault=str(error))
        return reconcile_parent(kind, view, self._clock.now().timestamp())

    def parent_view(self, kind: PodParent, at: JobKey) -> ParentView:
        """Collect the inputs of a pass over such an object. Raises NestingError."""
        cache, config, obj = self._cache, self._config, self._cache.job(at)
        managed = False
        if obj is not None and not kind.foreign(obj):
            managed = waits_for_quota(kind, obj, self._look_up, config)
        return ParentView(
            key=at.key,
            obj=obj,
            workloads=tuple(self._parent_workloads(kind, at)),
            pods=tuple(cache.job_caches.pods_of(kind, at)),
            related=tuple(cache.job_caches.related_to(kind, at)),
            managed=managed,
            manages_all=config.manages_all(self._namespace_labels(at.key.namespace)),
            classes=cache.classes(),
            gates=config.gates,
            labels_to_copy=config.labels_to_copy,
            annotations_to_copy=config.annotations_to_copy,
            max_replicas=config.max_replicas,
        )

    def _parent_workloads(self, kind: PodParent, at: JobKey) -> list[StoredWorkload]:
        """Return the Workloads that an object owns, and those that have one of its names."""
        cache, obj = self._cache, self._cache.job(at)
        found = {each.key: each.value for each in cache.workloads_owned_by(at)}
        for name in kind.workload_names(obj, self._config.gates) if obj is not None else ():
            cached = cache.workload(Key(at.key.namespace, name))
            if cached is not None:
                found[cached.key] = cached.value
        return [each for each in found.values() if each is not None]

    def _look_up(self, kind: GroupKind, key: Key) -> Json | None:
        if kind == NAMESPACE:
            found = self._cache.namespaces.get(key)
            return found.json if found is not None else None
        return self._owner(kind, key)

    def _workload_keys(self, at: JobKey) -> list[Key]:
        """Return the existing Workloads that the pass may write."""
        job = self._cache.job(at)
        named = prebuilt_name(job, self._config.gates) if job is not None else ""
        own = [each.key for each in self._workloads_of(at)]
        return [*own, Key(at.key.namespace, named)] if named else own

    def _without_repeated_event(
        self, at: JobKey, view: JobPassInput, effects: tuple[Effect, ...]
    ) -> tuple[Effect, ...]:
        """Remove the event that a Workload is finished if it was already recorded.

        A Workload finishes in two passes: the first sets the condition, the second removes the
        finalizer. The event comes last, so that it is recorded once, after all writes of the first
        pass have succeeded.
        """
        if view.job is None or any(isinstance(each, Create) for each in effects):
            self._finished.pop(at, None)
        events = tuple(each for each in effects if _is_finished_event(each))
        others = tuple(each for each in effects if not _is_finished_event(each))
        return others if self._finished.get(at) == _uid(view.job) else (*others, *events)

    def _note_finished(self, at: JobKey, job: Json | None, effects: Sequence[Effect]) -> None:
        """Remember that the event was recorded: all effects have been sent."""
        if any(_is_finished_event(each) for each in effects):
            self._finished[at] = _uid(job)

    def view(self, at: JobKey) -> JobPassInput:
        """Collect the inputs of a pass."""
        cache, key = self._cache, at.key
        job, kind = cache.job(at), self._config.kind(at.kind)
        assert kind is not None, "only jobs of enabled kinds are reconciled"
        if job is not None:
            job = resolved(kind, job, cache.find)
        labels = self._namespace_labels(key.namespace)
        above, too_deep, nesting = None, False, ""
        try:
            if job is not None and kind.ancestors:
                above = ancestor_of(job, self._owner, self._workloads_of, self._config, labels)
        except NestingError as error:
            too_deep, nesting = isinstance(error, NestingTooDeep), str(error)
        return JobPassInput(
            key=key,
            kind=kind,
            job=job,
            workloads=tuple(self._released(kind, job, self._workloads_of(at))),
            prebuilt=self._prebuilt(key, job),
            namespace=labels,
            local_queue_labels=self._local_queue_labels(key.namespace, job),
            ancestor=above,
            nested_too_deep=too_deep,
            nesting=nesting,
            occupied=self._occupied(at) if self._occupied is not None else None,
            dispatching=self._dispatching(),
            flavors=cache.flavor_objects(),
            classes=cache.classes(),
            config=self._config,
        )

    def _dispatching(self) -> frozenset[str]:
        if not self._config.gates.on(Gate.MultiKueue):
            return frozenset()
        checks = (each.value for each in self._cache.checks.values())
        found = (each for each in checks if each and each.spec.controller_name == MULTIKUEUE)
        return frozenset(each.metadata.name for each in found)

    def _namespace_labels(self, name: str) -> Json | None:
        """Return the labels of a namespace; None if it does not exist."""
        found = self._cache.namespaces.get(Key("", name))
        return found.json["metadata"].get("labels") or {} if found else None

    def _local_queue_labels(self, namespace: str, job: Json | None) -> dict[str, str]:
        name = queue_name(job) if job is not None else ""
        found = self._cache.local_queues.get(Key(namespace, name)) if name else None
        return string_map(found.json["metadata"].get("labels")) if found is not None else {}

    def _workloads_of(self, job: JobKey) -> list[StoredWorkload]:
        """Return the Workloads that a job controls, or the one with the name of a group."""
        return [each.value for each in self._cache.workloads_of(job) if each.value is not None]

    def _released(
        self, kind: JobKind, job: Json | None, workloads: list[StoredWorkload]
    ) -> list[StoredWorkload]:
        """Return the Workloads of a job; of one that is gone, only those that end with it."""
        if job is not None or not isinstance(kind, ComposableJob):
            return workloads
        return [each for each in workloads if kind.owns(each, self._config.gates)]

    def _prebuilt(self, key: Key, job: Json | None) -> StoredWorkload | None:
        name = prebuilt_name(job, self._config.gates) if job is not None else ""
        return self._cache.stored_workload(Key(key.namespace, name)) if name else None

    def _owner(self, kind: GroupKind, key: Key) -> Json | None:
        return self._cache.job(JobKey(kind, key))


def _uid(job: Json | None) -> str:
    return text(child(job or {}, "metadata").get("uid"))


def _is_finished_event(effect: Effect) -> bool:
    return isinstance(effect, Event) and effect.reason == FINISHED
