# SPDX-License-Identifier: Apache-2.0
"""All of MultiKueue: assembles its reconcilers and runs them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from contextlib import suppress
from functools import partial
from typing import Any

from kuota.api.base import Json, Key
from kuota.api.config.defaults import ALL_AT_ONCE, default_configuration
from kuota.api.config.shapes import Configuration, MultiKueue
from kuota.api.gates import Gate, Gates
from kuota.api.kueue import AdmissionCheck
from kuota.control.cluster_cache import ClusterCache
from kuota.control.effects import EffectSender
from kuota.control.observer import Instrument, uninstrumented
from kuota.kube.client import Client
from kuota.kube.clock import Clock, within
from kuota.kube.config import Connection
from kuota.kube.resources import NAMESPACES

from ..controller import Activity
from .activity import check_activity
from .check_changes import CheckChanges
from .cluster_connection import SYSTEM_NAMESPACE, WatchOptions
from .cluster_connections import ClusterConnections, MakeClient
from .clusters import CONTROLLER as CLUSTERS
from .clusters import ClusterReconciler
from .collector import GarbageCollector
from .dispatcher import CONTROLLER as WORKLOADS
from .dispatcher import Dispatcher
from .external import ExternalJobs
from .group import LOST_S, STEP_SIZE, MultiKueueSettings
from .groups import Groups
from .objects import MultiKueueObjects
from .origin_conflicts import OriginConflicts
from .profile import configured
from .quota_writer import CONTROLLER as QUEUES
from .quota_writer import QuotaWriter
from .remote import RemoteClusters, Resources
from .remote_pods import RemotePods
from .worker_client import CountRequests, uncounted, worker_client

FINISH_S = 0.2
"""How long passes may take to finish their writes when the process ends.

A worker that does not respond must not delay the end. The next process continues its passes.
"""


class MultiKueueController:
    """The controllers of MultiKueue, which watch only what others do not.

    `on_check` is called with the key of each check whose activity may have changed. `make` returns
    the client of a worker cluster, by default one that connects to it and whose requests are
    counted by `count_requests`; set that before `run`.
    """

    def __init__(
        self,
        client: Client,
        cache: ClusterCache,
        sender: EffectSender,
        clock: Clock,
        on_check: Callable[[Key], None],
        config: Configuration | None = None,
        gates: Gates | None = None,
        make: MakeClient | None = None,
    ) -> None:
        gates, config = gates or Gates(), config or default_configuration()
        multi = config.multi_kueue or MultiKueue()
        self._cache, self._clock, self._closed = cache, clock, asyncio.Event()
        self._passes: list[asyncio.Task[None]] = []
        self._external = ExternalJobs(client, clock, cache, multi)
        kinds = self._kinds()
        origin, namespace = multi.origin, config.namespace or ""
        profiles = gates.on(Gate.MultiKueueClusterProfile)
        automated = gates.on(Gate.MultiKueueManagerQuotaAutomation)
        self.objects = MultiKueueObjects(client, clock, namespace, profiles=profiles)
        self._multi, self._gates, self.clusters = multi, gates, RemoteClusters()
        providers, recorder = configured(multi), sender.recorder
        self._cluster_reconciler = ClusterReconciler(
            client, clock, recorder, gates, self.objects, providers
        )
        self.count_requests: CountRequests = uncounted
        options = WatchOptions(kinds=kinds, origin=origin, with_queues=automated)
        make = make or partial(self._worker_client, client.may_write)
        self._connections = self._make_connections(make, options, clock)
        self._conflicts = self._found_conflicts(origin)
        self._changes = CheckChanges(cache, self.objects, on_check)
        self._collector = GarbageCollector(
            self.clusters, kinds, origin, self._workload, self.identity, clock
        )
        self.pods = RemotePods(cache, self.clusters, self._settings, clock)
        self.dispatcher = self._dispatcher(sender, clock)
        self._gc_interval_s = multi.gc_interval / 1e9 if multi.gc_interval is not None else 60.0
        kit = cache, sender, clock, self.objects, self.clusters
        self._quota = QuotaWriter(*kit) if automated else None

    def _worker_client(
        self, may_write: Callable[[], bool] | None, name: str, connection: Connection
    ) -> Client:
        count = self.count_requests
        return worker_client(connection, self._clock, may_write, name=name, count=count)

    def _make_connections(
        self, make: MakeClient, options: WatchOptions, clock: Clock
    ) -> ClusterConnections:
        reconciler = self._cluster_reconciler
        reconciler.connections = ClusterConnections(
            self.clusters,
            make,
            options,
            clock,
            reconciler.changed,
            self.identity,
            self.objects.share_config,
            self._runs_jobs,
        )
        return reconciler.connections

    def _runs_jobs(self, cluster: str) -> bool:
        """Whether unfinished Workloads record this cluster."""
        stored = (each.value for each in self._cache.workloads.values())
        return any(
            each.obj.status.cluster_name == cluster and not each.true("Finished")
            for each in stored
            if each is not None
        )

    def _found_conflicts(self, origin: str) -> OriginConflicts:
        reconciler = self._cluster_reconciler
        found = OriginConflicts(self.clusters, origin, self.identity, reconciler.changed)
        reconciler.conflict = found.state
        return found

    def _kinds(self) -> Resources:
        """Return the kinds of jobs that may be dispatched."""
        return {**_dispatched(self._cache), **self._external.kinds}

    def identity(self) -> str:
        """Return the identity of this cluster; "" if it is unknown."""
        found = self._cache.json(NAMESPACES, SYSTEM_NAMESPACE)
        return str(found["metadata"].get("uid") or "") if found is not None else ""

    def _dispatcher(self, sender: EffectSender, clock: Clock) -> Dispatcher:
        cache, objects, clusters = self._cache, self.objects, self.clusters
        groups = Groups(cache, objects, clusters, self._settings, self._external)
        found = Dispatcher(cache, sender, clock, objects, clusters, groups)
        found.has_log_readers = self.pods.has_log_readers
        return found

    def _settings(self) -> MultiKueueSettings:
        multi, gates = self._multi, self._gates
        steps = multi.incremental_dispatcher_config
        configured = gates.on(Gate.MultiKueueIncrementalDispatcherConfig)
        timeout = multi.worker_lost_timeout
        return MultiKueueSettings(
            origin=multi.origin,
            manager=self.identity(),
            worker_lost_timeout_s=timeout / 1e9 if timeout is not None else LOST_S,
            dispatcher=multi.dispatcher_name or ALL_AT_ONCE,
            step_size=(steps.step_size if steps and configured else None) or STEP_SIZE,
            gates=gates,
        )

    def activity(self, check: AdmissionCheck) -> Activity | None:
        """Return whether a check can be used; None while its configuration is unknown."""
        objects = self.objects
        if not (objects.clusters.settled.is_set() and objects.configs.settled.is_set()):
            return None
        return check_activity(check, objects.config_map(), objects.cluster_map())

    async def run(self, instrument: Instrument = uninstrumented) -> None:
        """Watch and reconcile until closed. The objects of `cache` must have been synced.

        Passes in progress may finish their writes, for a limited time.
        """
        async with asyncio.TaskGroup() as group:
            work = self._work(instrument)
            tasks = [group.create_task(each) for each in (work, self._closed.wait())]
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            with suppress(TimeoutError):
                await within(self._clock, FINISH_S, self._passes_ended())
            for each in tasks:
                each.cancel()

    async def _passes_ended(self) -> None:
        if self._passes:
            await asyncio.wait(self._passes)

    async def _work(self, instrument: Instrument) -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(self.objects.run())
            group.create_task(self._external.run())
            await self.objects.ready()
            group.create_task(self._connections.run())
            self._conflicts.follow()
            self._cluster_reconciler.follow()
            self._changes.follow()
            self.dispatcher.follow()
            if self._quota is not None:
                self._quota.follow()
            group.create_task(self._collector.run(self._gc_interval_s))
            self._passes = [group.create_task(each) for each in self._loops(instrument)]

    def _loops(self, instrument: Instrument) -> list[Coroutine[Any, Any, None]]:
        """Return the loops that end when their work queues are closed."""
        found = [self._cluster_reconciler.run(instrument), self.dispatcher.run(instrument)]
        return found if self._quota is None else [*found, self._quota.run(instrument)]

    def close(self) -> None:
        """Start nothing more, and let `run` return."""
        self._closed.set()
        self._cluster_reconciler.queue.close()
        self.dispatcher.queue.close()
        if self._quota is not None:
            self._quota.queue.close()

    def depths(self) -> dict[str, int]:
        """Return the number of keys in each work queue."""
        found = {
            CLUSTERS: len(self._cluster_reconciler.queue),
            WORKLOADS: len(self.dispatcher.queue),
        }
        return found if self._quota is None else {**found, QUEUES: len(self._quota.queue)}

    def _workload(self, key: Key) -> Json | None:
        found = self._cache.workload(key)
        return found.json if found is not None else None


def _dispatched(cache: ClusterCache) -> Resources:
    """Return the kinds whose objects are copied to other clusters."""
    found = {each.group_kind for kind in cache.job_kinds if (each := kind.dispatch()) is not None}
    return {kind: each.resource for kind, each in cache.jobs.items() if kind in found}
