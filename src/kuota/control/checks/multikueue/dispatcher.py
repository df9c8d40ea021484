# SPDX-License-Identifier: Apache-2.0
"""Reconciles dispatched Workloads with their copies, using `rules`.

A pass reads caches only. Its writes go to all clusters at once, and those that a slow cluster has
not answered continue without it (`remote_requests`). Nothing but the start of rounds of the
incremental dispatcher is kept in memory: after a restart, every pass continues from the objects.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TypeVar

from kuota.api.base import Json, Key, true_condition
from kuota.api.kueue import AdmissionCheck, MultiKueueConfig
from kuota.bridge.draft import StoredWorkload
from kuota.bridge.effects import Effect, Event
from kuota.bridge.jobs.ancestor import GroupKind
from kuota.bridge.jobs.dispatch import OWNER_GVK, ForeignObject
from kuota.bridge.jobs.kind import JobKey, key_of
from kuota.control.cached_object import CachedObject
from kuota.control.cluster_cache import ClusterCache
from kuota.control.effects import EffectSender
from kuota.control.observer import Instrument
from kuota.control.workload_indexes import CHECK
from kuota.kube.clock import Clock
from kuota.kube.errors import Conflict, Forbidden, Invalid, KubeError, NotFound
from kuota.kube.resources import WORKLOADS
from kuota.kube.workqueue import RetryLater, WorkQueue, serve

from .copies import owned
from .group import GroupResult, WorkloadGroup
from .group_pass import EVENT
from .groups import Groups
from .objects import MultiKueueObjects
from .references import is_multikueue, lists_others, refers_elsewhere
from .remote import RemoteChange, RemoteClusters
from .remote_requests import RemoteRequests, RemoteResults
from .remote_sender import MissingInWorkerCluster, RemoteSender
from .rules import reconcile_group

CONTROLLER = "multikueue_workload"
"""The name of the loop in metrics, as in Kueue."""
WORKERS = 32
"""Passes at a time. Most of a pass is waiting for clusters."""

READER_CHECK_S, MAX_READER_WAIT_S = 1.0, 10.0
"""How often a finished Workload is checked for readers of logs, and for how long at most."""

REPEAT_S = 1.0
"""The time until a pass continues after a write to the manager's API server without a response.

The response enqueues the Workload at once. There is none if the Workload was deleted.
"""

_LASTING = (ForeignObject, Invalid, Forbidden, MissingInWorkerCluster)
"""Failures that somebody has to correct."""

Reported = Callable[[str, str], None]
"""Called with a ClusterQueue and a cluster."""

T = TypeVar("T")


class Dispatcher:
    """Observes all objects that concern dispatched Workloads, and runs their passes."""

    def __init__(
        self,
        cache: ClusterCache,
        sender: EffectSender,
        clock: Clock,
        objects: MultiKueueObjects,
        clusters: RemoteClusters,
        groups: Groups,
    ) -> None:
        self._cache, self._sender, self._clock = cache, sender, clock
        self._objects, self._clusters, self._groups = objects, clusters, groups
        self.queue: WorkQueue[Key] = WorkQueue(clock)
        self._known: set[Key] = set()
        self._deleted: dict[Key, StoredWorkload] = {}
        self._rounds: dict[Key, float] = {}
        self._failures: dict[Key, dict[str, str]] = {}
        self._last_notes: dict[Key, str] = {}
        self._confirmed: dict[Key, str] = {}
        self._requests = RemoteRequests(self.queue.add)
        self.has_log_readers: Callable[[Key], bool] = lambda _: False
        """Whether a user still reads the logs of a Workload in its cluster."""
        self.on_dispatched: list[Reported] = []
        self.on_admitted: list[Reported] = []

    def follow(self) -> None:
        """Enqueue Workloads from now on, beginning with all existing ones."""
        self._clusters.observe(self._remote)
        self._clusters.observe_connections(self._connection)
        self._cache.workloads.observe(self._workload)
        self._cache.checks.observe(self._check)
        self._objects.configs.observe(self._config)
        for kind, informer in self._cache.jobs.items():
            informer.observe(partial(self._job, kind))

    async def run(self, instrument: Instrument) -> None:
        """Reconcile until closed, and return when all requests to clusters have ended."""
        async with asyncio.TaskGroup() as self._requests.group:
            await serve(self.queue, instrument(CONTROLLER, self.reconcile), WORKERS, self._stuck)

    async def reconcile(self, key: Key) -> float | None:
        """Run one pass over a Workload. Returns the seconds until the next one, if any.

        Raises RetryLater, and what writes to the manager's API server raise.
        """
        now = self._clock.now().timestamp()
        group = self._group(key, now, confirmed=self._confirmed.pop(key, ""))
        if group is None:
            return None
        if self._waits_for_log_readers(group, now):
            return READER_CHECK_S
        plan = reconcile_group(group, now)
        if plan.confirm:
            return await self._confirm(key, group, plan.confirm)
        await self._send_here(key, plan.first)
        if plan.repeat:
            return REPEAT_S
        if plan.nominated:
            self._rounds[key] = now
        outcome = await self._send_all(key, group, plan)
        if not (outcome.failed.keys() | outcome.busy) & set(plan.needs):
            await self._send_here(key, plan.last)
        self._record_outcome(key, group, plan, outcome)
        return plan.requeue_after_s

    async def _confirm(self, key: Key, group: WorkloadGroup, cluster: str) -> float | None:
        """Read the jobs of a cluster, and run another pass once they are known."""

        def confirmed(_: str) -> None:
            self._confirmed[key] = cluster

        read = partial(self._read_jobs, cluster, group)
        outcome = await self._requests.run(key, {cluster: read}, confirmed)
        for each in outcome.failed.values():
            raise each
        return None if outcome.busy else await self.reconcile(key)

    def _waits_for_log_readers(self, group: WorkloadGroup, now: float) -> bool:
        """Whether the copies of a finished Workload stay a moment longer, for readers of logs."""
        end = true_condition(group.local.obj.status.conditions, "Finished")
        since = end.last_transition_time if end is not None else None
        if group.deleted or since is None or not self.has_log_readers(group.local.key):
            return False
        return now - since.timestamp() < MAX_READER_WAIT_S

    async def _read_jobs(self, name: str, group: WorkloadGroup) -> None:
        """Read the copies of the job from a cluster into its cache. Raises RetryLater."""
        cluster, dispatch = self._clusters.get(name), group.dispatch
        if cluster is None or dispatch is None:
            raise RetryLater(f"cluster {name} is gone")
        resource = self._cache.resources[dispatch.name]
        for job in group.jobs:
            try:
                found = await cluster.client.get(resource, key_of(job))
            except NotFound:
                continue
            except KubeError as error:
                raise RetryLater(f"cluster {name}: {error}") from error
            if owned(found, group.settings):
                cluster.wrote(dispatch.group_kind, found)

    def _group(self, key: Key, now: float, confirmed: str = "") -> WorkloadGroup | None:
        cached = self._cache.workload(key)
        gone = cached is None
        stored = self._deleted.get(key) if cached is None else cached.value
        if stored is None:
            self._forget(key)
            return None
        group = self._groups.group(
            stored,
            now,
            deleted=gone or stored.deleting,
            confirmed=confirmed,
            round_started=self._rounds.get(key),
            failures=self._failures.get(key, {}),
        )
        if group is None and gone and key not in self._groups.index:
            self._forget(key)
        return group

    async def _send_all(self, key: Key, group: WorkloadGroup, plan: GroupResult) -> RemoteResults:
        """Write to all clusters at the same time."""
        admission = group.local.obj.status.admission
        queue = admission.cluster_queue if admission else ""

        def done(cluster: str) -> None:
            if cluster in plan.dispatched:
                self._report(self.on_dispatched, queue, cluster)

        calls = {name: partial(self._send, name, each) for name, each in plan.remote.items()}
        return await self._requests.run(key, calls, done)

    async def _send(self, name: str, effects: Sequence[Effect]) -> None:
        cluster = self._clusters.get(name)
        if cluster is None:
            raise RetryLater(f"cluster {name} is gone")
        origin, recorder = self._groups.settings().origin, self._sender.recorder
        resources = self._cache.resources
        await RemoteSender(cluster, resources, origin, recorder).send(effects)

    def _record_outcome(
        self, key: Key, group: WorkloadGroup, plan: GroupResult, outcome: RemoteResults
    ) -> None:
        """Record what a pass did. Raises RetryLater if it has to be repeated."""
        admission, failed = group.local.obj.status.admission, outcome.failed
        if plan.admitted and plan.admitted not in (failed.keys() | outcome.busy):
            queue = admission.cluster_queue if admission else ""
            self._report(self.on_admitted, queue, plan.admitted)
        gone = group.deleted and self._cache.workload(key) is None
        if gone and not failed and not self._requests.busy(key):
            self._forget(key)
        self._remember_failures(key, failed)
        self._record_faults(key, plan)
        for each in failed.values():
            if isinstance(each, Conflict):
                raise each
        if failed:
            raise RetryLater("; ".join(f"cluster {name}: {why}" for name, why in failed.items()))
        if plan.fault:
            raise RetryLater(plan.fault)

    def _record_faults(self, key: Key, plan: GroupResult) -> None:
        """Record an event about what somebody has to correct."""
        faults = [f"cluster {name}: {why}" for name, why in self._failures.get(key, {}).items()]
        note = "; ".join(filter(None, [plan.fault, *faults]))
        if note and self._last_notes.get(key) != note:
            self._last_notes[key] = note
            self._sender.record(Event.about(key, EVENT, note, warning=True))

    def _remember_failures(self, key: Key, failed: Mapping[str, Exception]) -> None:
        """Keep failures for the next pass, which writes them into the message of the check."""
        lasting = {name: str(why) for name, why in failed.items() if isinstance(why, _LASTING)}
        unexpected = [
            why
            for why in failed.values()
            if not isinstance(why, (*_LASTING, KubeError, RetryLater))
        ]
        if unexpected:
            raise unexpected[0]
        if lasting:
            self._failures[key] = lasting
        elif not failed:
            self._failures.pop(key, None)

    @staticmethod
    def _report(observers: list[Reported], queue: str, cluster: str) -> None:
        for each in observers:
            each(queue, cluster)

    async def _send_here(self, key: Key, effects: Sequence[Effect]) -> None:
        """Write to the manager's cluster, without events that repeat the last one."""
        last_note, found = self._last_notes.get(key), list[Effect]()
        for each in effects:
            if isinstance(each, Event):
                if last_note == each.note:
                    continue
                last_note = each.note
            found.append(each)
        async with self._sender.locks.hold(key):
            await self._sender.send(found)
        if last_note is not None:
            self._last_notes[key] = last_note

    def _forget(self, key: Key) -> None:
        self._known.discard(key)
        self._deleted.pop(key, None)
        self._rounds.pop(key, None)
        self._failures.pop(key, None)
        self._last_notes.pop(key, None)
        self._confirmed.pop(key, None)
        self._requests.forget(key)

    def _workload(
        self, old: CachedObject[StoredWorkload] | None, new: CachedObject[StoredWorkload] | None
    ) -> None:
        cached = new or old
        assert cached is not None
        stored = cached.value
        if stored is None:
            return
        if new is None:
            if cached.key in self._known:
                self._deleted[cached.key] = stored
                self.queue.add(cached.key)
            return
        self._deleted.pop(cached.key, None)
        if not stored.reserved or stored.true("Finished"):
            self._rounds.pop(cached.key, None)
        if self._groups.is_dispatched(stored):
            self._known.add(cached.key)
            self.queue.add(cached.key)
        for each in self._siblings(stored):
            self.queue.add(each)

    def _siblings(self, stored: StoredWorkload) -> set[Key]:
        """Return the other dispatched Workloads of the same job, which wait for one another."""
        meta = stored.obj.metadata
        if not meta.annotations or OWNER_GVK not in meta.annotations:
            return set()
        shared = (
            JobKey(each.group_kind, Key(meta.namespace, each.name))
            for each in meta.owner_references or ()
        )
        keys = {key for job in shared for key in self._groups.sharing(job.kind, job.key)}
        return keys & self._known - {stored.key}

    def _remote(self, change: RemoteChange) -> None:
        for key in self._groups.index.changed(change):
            self._known.add(key)
            self.queue.add(key)

    def _connection(self, name: str) -> None:
        if self._clusters.get(name) is None:
            self._groups.index.forget(name)
        self._add_all()

    def _check(
        self, old: CachedObject[AdmissionCheck] | None, new: CachedObject[AdmissionCheck] | None
    ) -> None:
        before, after = _value(old), _value(new)
        if before is not None and after is not None:
            same_controller = is_multikueue(before) == is_multikueue(after)
            if same_controller and not refers_elsewhere(before, after):
                return
        cached = new or old
        assert cached is not None
        for each in self._cache.workloads.indexed(CHECK, cached.key.name):
            if each.value is not None and self._groups.is_dispatched(each.value):
                self._known.add(each.key)
        self._add_all()

    def _config(
        self,
        old: CachedObject[MultiKueueConfig] | None,
        new: CachedObject[MultiKueueConfig] | None,
    ) -> None:
        before, after = _value(old), _value(new)
        if before is None or after is None or lists_others(before, after):
            self._add_all()

    def _add_all(self) -> None:
        """Enqueue all dispatched Workloads: where they are dispatched to may have changed."""
        for key in self._known:
            self.queue.add(key)

    def _job(self, at: GroupKind, old: Json | None, new: Json | None) -> None:
        """Enqueue the Workloads of a job that was changed or resumed, or that exists now."""
        if new is None or (old is not None and old.get("spec") == new.get("spec")):
            return
        for job in self._cache.job_caches.jobs_of(at, new):
            found = [*self._cache.workloads_of(job), *self._cache.workloads_owned_by(job)]
            for each in found:
                if each.key in self._known:
                    self.queue.add(each.key)

    def _stuck(self, key: Key, error: Exception) -> None:
        self._sender.record_internal_error(WORKLOADS.kind, key, "Dispatching it", error)


def _value(cached: CachedObject[T] | None) -> T | None:
    return cached.value if cached is not None else None
