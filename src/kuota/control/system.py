# SPDX-License-Identifier: Apache-2.0
"""All controllers: starts informers, driver and reconcilers, and stops them cleanly."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from functools import partial
from typing import Any

from msgspec.structs import replace

from kuota.api.base import Key
from kuota.api.config.shapes import Configuration
from kuota.api.gates import Gate, Gates
from kuota.bridge.jobs.ancestor import GroupKind
from kuota.bridge.jobs.kind import JobKey
from kuota.bridge.lifecycle_view import LifecycleConfig, following_all, lifecycle_config
from kuota.bridge.settings import charges_devices, policy
from kuota.engine.domains import NodeKnowledge
from kuota.engine.engine import Engine
from kuota.engine.policy import Policy
from kuota.failures import tolerated
from kuota.kube.client import Client
from kuota.kube.clock import Clock, steady
from kuota.kube.events import EventRecorder, Recorder
from kuota.kube.resources import CLUSTER_QUEUES, LOCAL_QUEUES, PODS, WORKLOADS, Resource
from kuota.kube.workqueue import WorkQueue, serve

from .checks.controllers import CheckControllers
from .checks.multikueue.cluster_connections import MakeClient
from .checks.registry import PLUGINS
from .cluster_cache import ClusterCache, followed
from .decision_log import DecisionLog
from .deferred_events import DeferredEvents
from .definitions import Definitions
from .driver import Driver
from .effects import EffectSender
from .facts import FactSource
from .node_facts import NodeFacts
from .node_labels import NodeLabels
from .node_pod_informers import POD
from .observer import Instrument, uninstrumented
from .parts import ALL, WRITING, Part, Parts
from .pending_reports import PendingReports
from .pod_controllers import PodControllers
from .reconcile_job import JobReconciler, Occupied
from .reconcile_queue import ObjectRef, QueueReconciler
from .reconcile_variants import VariantReconciler
from .reconcile_workload import PriorityClassReconciler, WorkloadReconciler
from .recovery import PodRecovery
from .triggers import Triggers

CONTROLLER = "kueue.x-k8s.io/kuota"
"""The name under which events are recorded."""

JOB_WORKERS = 8
WORKLOAD_WORKERS = 8
QUEUE_WORKERS = 2

FLUSH_BATCH_S = 1.0
"""Changes of queues within this time after a flush are flushed together."""
LEAST_SAMPLE_S = 1.0
"""The shortest interval between two samples of LocalQueue usage."""


class System:
    """Kueue's controllers on one client, restricted to `parts`.

    The engine receives facts regardless of the parts. Without the scheduler it makes no decisions
    but still knows the pending and running workloads. `instrument` wraps every reconciler; set it
    before `run`. `lifecycle` replaces the lifecycle of the configuration. With `occupied`, a Job is
    charged as long as that reports processes. Otherwise the status of the Job decides.
    `worker_clients` replaces how MultiKueue connects to worker clusters.
    """

    def __init__(
        self,
        client: Client,
        *,
        recorder: Recorder | None = None,
        config: Configuration | None = None,
        gates: Gates | None = None,
        clock: Clock | None = None,
        parts: Parts = ALL,
        lifecycle: LifecycleConfig | None = None,
        occupied: Occupied | None = None,
        worker_clients: MakeClient | None = None,
    ) -> None:
        self.clock = steady(clock)
        self.parts, self._occupied = parts, occupied
        self.instrument: Instrument = uninstrumented
        self._working, gates = list[asyncio.Task[None]](), gates or Gates()
        self._events: EventRecorder | None = None
        if recorder is None:
            recorder = self._events = EventRecorder(client, CONTROLLER, clock=self.clock)
        self.engine = _engine(policy(config, gates))
        lifecycle = lifecycle or following_all(lifecycle_config(config, gates))
        self.cache = _cache(client, self.clock, lifecycle, charges_devices(config, gates))
        self.sender = EffectSender(client, self.cache, recorder)
        self.lifecycle = replace(lifecycle, defers_readiness=Part.SCHEDULER in parts)
        self.reports = self._pending_reports()
        self.driver = Driver(self.engine, self.cache, client, self.sender, self.clock, self.reports)
        self._recovery = self._pod_recovery(client, recorder)
        self._variants = self._variant_reconciler()
        self._make_work_queues()
        self.node_labels = NodeLabels(self.cache, self._node_labels_changed)
        kit = client, self.cache, self.sender, self.clock, gates
        self._pods = PodControllers(*kit, parts)
        self.checks = CheckControllers(*kit, PLUGINS, config=config, worker_clients=worker_clients)
        self._definitions = self._followed_definitions(client)
        self._queue_reconciler = self._status_reconciler()
        self._facts = self._fact_source(recorder, config, gates)
        self._node_facts = NodeFacts(self.cache, self.driver.apply, gates)
        self._workload_reconciler = self._lifecycle_reconciler()
        self._triggers = self._enqueuing()

    def _fact_source(
        self, recorder: Recorder, config: Configuration | None, gates: Gates
    ) -> FactSource:
        facts = partial(FactSource, charges_inactive=self._occupied is not None)
        return facts(self.cache, self.driver.apply, recorder, config, gates)

    def _make_work_queues(self) -> None:
        self._workloads: WorkQueue[Key] = WorkQueue(self.clock)
        self._classes: WorkQueue[Key] = WorkQueue(self.clock)
        self._jobs: WorkQueue[JobKey] = WorkQueue(self.clock)
        self._queues: WorkQueue[ObjectRef] = WorkQueue(self.clock)

    def _lifecycle_reconciler(self) -> WorkloadReconciler:
        return WorkloadReconciler(self.cache, self.engine, self.sender, self.clock, self.lifecycle)

    def _enqueuing(self) -> Triggers:
        return Triggers(
            self.cache,
            self.engine,
            self._workloads,
            self._jobs,
            self._classes,
            self._mark,
            self._workload_reconciler.due_in_s,
        )

    def _pod_recovery(self, client: Client, recorder: Recorder) -> PodRecovery | None:
        recovers = self.lifecycle.gates.on(Gate.FailureRecoveryPolicy)
        return PodRecovery(client, self.cache, recorder, self.clock) if recovers else None

    def _pending_reports(self) -> PendingReports:
        readiness = Part.JOBS in self.parts and self.lifecycle.timeout_s is not None
        return PendingReports(self.engine, self.cache, self.sender, self.clock, readiness=readiness)

    def _followed_definitions(self, client: Client) -> Definitions:
        watched = (*self.cache.informers(), *self.checks.informers())
        return Definitions(client, self.clock, watched, self.sender.recorder)

    def _status_reconciler(self) -> QueueReconciler:
        cache, engine, labels = self.cache, self.engine, self.node_labels
        return QueueReconciler(cache, engine, self.sender, self.clock, labels)

    def _variant_reconciler(self) -> VariantReconciler | None:
        if not self.lifecycle.gates.on(Gate.ConcurrentAdmission):
            return None
        return VariantReconciler(self.cache, self.engine, self.sender, self.clock, self.lifecycle)

    def deferred_events(self) -> DeferredEvents:
        """Return a recorder for other controllers in this process.

        Its events yield to decisions.
        """
        return DeferredEvents(self.sender.recorder, self.clock, self._busy)

    def _busy(self) -> bool:
        return self.driver.busy() or len(self.reports) > 0

    def pods_ended(self, job: JobKey) -> None:
        """Reconcile the job after some of its pods have ended. See `occupied`."""
        self._jobs.add(job)

    @property
    def synced(self) -> bool:
        """Whether every informer has synced."""
        return self.cache.synced

    async def run(self, leading: Callable[[], Awaitable[None]] | None = None) -> None:
        """Watch from now on, and decide and write once `leading` returns. Runs until cancelled.

        Without `leading` there is no previous leader whose last writes must be known first.
        """
        self._facts.follow()
        self._node_facts.follow()
        if Part.JOBS in self.parts and POD in self.cache.jobs:
            self.cache.pods.need()
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(followed(self.cache, self._unwatched()))
                group.create_task(self._definitions.run())
                group.create_task(self._node_facts.run())
                if self.parts & {Part.CORE, Part.WEBHOOKS}:
                    group.create_task(self.node_labels.run())
                await self.cache.ready()
                if leading is not None:
                    await leading()
                    # The last admissions of the previous leader must be known before the first
                    # decision.
                    await self.cache.workloads.caught_up()
                self._begin(group)
        finally:
            self._close()

    async def finish(self) -> None:
        """Start nothing more, and return when everything in progress is written, events included.

        Watches continue: cancel `run` afterwards.
        """
        self._close()
        await self.driver.finish()
        if self._working:
            await asyncio.wait(self._working)
        if self._events is not None:
            await self._events.flush()

    def _unwatched(self) -> set[Resource]:
        """Return the kinds of jobs if another process reconciles them.

        Pods are watched only if something needs them.
        """
        jobs = {each.resource for each in self.cache.job_informers()}
        return set() if Part.JOBS in self.parts else jobs - {PODS}

    def _begin(self, group: asyncio.TaskGroup) -> None:
        """Process all existing objects and every later change."""
        if not self.parts & WRITING:
            return
        if Part.CORE in self.parts:
            # Without CORE nothing takes keys from these work queues.
            self.driver.on_affected = self._triggers.enqueue_affected
        else:
            for queue in (self._workloads, self._classes, self._queues):
                queue.close()
        if Part.JOBS not in self.parts:
            self._jobs.close()
        self._triggers.follow()
        if self._variants is not None and Part.CORE in self.parts:
            self._variants.follow()
        if self._events is not None:
            group.create_task(self._events.run())
        if Part.SCHEDULER in self.parts:
            self._log_decisions()
            self.cache.workloads.observe(tolerated("pending reports", self.reports.observed))
            group.create_task(self.driver.run())
            group.create_task(self._sample())
        if self._recovery is not None and Part.CORE in self.parts:
            group.create_task(self._recovery.run())
        self._pods.follow(group)
        self._working = [group.create_task(each) for each in self._served()]

    def _log_decisions(self) -> None:
        log = DecisionLog(self.clock)
        self.driver.cycle_observers.append(tolerated("decision log", log.cycle))
        self.cache.workloads.observe(tolerated("decision log", log.changed))

    def _served(self) -> list[Coroutine[Any, Any, None]]:
        cache, sender, clock, instrument = self.cache, self.sender, self.clock, self.instrument
        found: list[Coroutine[Any, Any, None]] = []
        if Part.JOBS in self.parts:
            jobs = JobReconciler(cache, sender, clock, self.lifecycle, self._occupied)
            found.append(self._serve_jobs(jobs))
        if Part.CORE in self.parts:
            classes = PriorityClassReconciler(cache, sender)
            queues = self._queue_reconciler
            passes = instrument("workload", self._workload_reconciler.reconcile)
            found.append(serve(self._workloads, passes, WORKLOAD_WORKERS, self._stuck(WORKLOADS)))
            found.append(
                serve(self._classes, instrument("workloadpriorityclass", classes.reconcile))
            )
            passed = instrument("queues", queues.reconcile)
            found.append(serve(self._queues, passed, QUEUE_WORKERS, self._stuck_queue))
            found.append(self.checks.run(instrument))
        if self._variants is not None and Part.CORE in self.parts:
            passes = instrument("concurrentadmission", self._variants.reconcile)
            stuck = self._stuck(WORKLOADS)
            found.append(serve(self._variants.queue, passes, WORKLOAD_WORKERS, stuck))
        return [*found, *self._pods.served(instrument)]

    def _stuck(self, resource: Resource) -> Callable[[Key, Exception], None]:
        return lambda key, error: self._stuck_queue((resource, key), error)

    def _stuck_queue(self, name: ObjectRef, error: Exception) -> None:
        resource, key = name
        self.sender.record_internal_error(resource.kind, key, "Reconciling it", error)

    async def _serve_jobs(self, reconciler: JobReconciler) -> None:
        passes = self.instrument("job", reconciler.reconcile)
        async with asyncio.TaskGroup() as group:
            kinds = self.cache.job_caches.kinds()
            waiting = [group.create_task(self._add_known(each, reconciler)) for each in kinds]
            await serve(self._jobs, passes, JOB_WORKERS, self._stuck_job)
            for each in waiting:
                # The server may never serve this kind.
                each.cancel()

    async def _add_known(self, kind: GroupKind, reconciler: JobReconciler) -> None:
        """Reconcile the jobs of all Workloads once the jobs of this kind are known.

        A job that is not visible is not deleted: while its kind is unknown, neither the job nor its
        Workloads are changed. Passes that began before are repeated.
        """
        for informer in self.cache.job_caches.required(kind):
            await informer.synced.wait()
        for job in self.cache.owning_jobs(kind):
            self._jobs.add(job)
        for job in reconciler.take_postponed(kind):
            self._jobs.add(job)

    def _stuck_job(self, job: JobKey, error: Exception) -> None:
        kind = self.lifecycle.registry.kind(job.kind)
        self.sender.record_internal_error(kind.name, job.key, "Reconciling it", error)

    def _close(self) -> None:
        for queue in (self._workloads, self._jobs, self._classes, self._queues):
            queue.close()
        if self._recovery is not None:
            self._recovery.close()
        if self._variants is not None:
            self._variants.queue.close()
        self._pods.close()
        self.checks.close()

    def depths(self) -> dict[str, int]:
        """Return the number of keys in each work queue."""
        found = {
            "workload": len(self._workloads),
            "job": len(self._jobs),
            "workloadpriorityclass": len(self._classes),
            "queues": len(self._queues),
        }
        if self._variants is not None:
            found["concurrentadmission"] = len(self._variants.queue)
        return found | self._pods.depths() | self.checks.depths()

    async def _sample(self) -> None:
        """Decay the usage of LocalQueues, if admission fair sharing is enabled."""
        while True:
            next_s = self.engine.sample(self.driver.now())
            if next_s is None:
                return
            for key in list(self.cache.local_queues.keys()):
                self._mark((LOCAL_QUEUES, key), True)
            self.driver.wake()
            await self.clock.sleep(max(next_s, LEAST_SAMPLE_S))

    def _node_labels_changed(self) -> None:
        """Enqueue the queues whose flavors use a Topology."""
        state = self.engine.state
        for topology in state.topologies:
            for name in sorted(state.using_topology(topology)):
                self._mark((CLUSTER_QUEUES, Key("", name)), False)
                for key in self.engine.queues.local_queues_of(name):
                    self._mark((LOCAL_QUEUES, key), False)

    def _mark(self, name: ObjectRef, counters_only: bool) -> None:
        reconciler = self._queue_reconciler
        if counters_only and self._queues.scheduled(name) and not reconciler.deleting(name):
            return
        self._queues.add_after(name, reconciler.due_in_s(name, counters_only=counters_only))


def _engine(rules: Policy) -> Engine:
    return Engine(rules, flush_batch_s=FLUSH_BATCH_S, nodes=NodeKnowledge.AWAITED)


def _cache(
    client: Client, clock: Clock, lifecycle: LifecycleConfig, with_devices: bool
) -> ClusterCache:
    kinds = lifecycle.kinds()
    external, gates = lifecycle.external, lifecycle.gates
    return ClusterCache(client, clock, kinds, external, gates=gates, with_devices=with_devices)
