# SPDX-License-Identifier: Apache-2.0
"""The control plane of one machine: store, API server, controllers, and the runner of Jobs."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from contextlib import AsyncExitStack
from functools import partial
from time import time

from kuota.api.base import Json
from kuota.bridge.jobs.registry import JOB
from kuota.bridge.lifecycle_view import lifecycle_config
from kuota.control.system import System
from kuota.failures import retried
from kuota.history.address import SqliteFile
from kuota.history.idle_recorder import IdleRecorder
from kuota.kube.client import Client
from kuota.kube.events import Recorder
from kuota.log_file import keep_rotated
from kuota.memory import calm_collector, keep_trimmed
from kuota.runner.nodes import check
from kuota.runner.pod_home import PodHome
from kuota.runner.pod_informer import shared_informer
from kuota.runner.pod_worker import PodWorker
from kuota.runner.runner import Runner
from kuota.runner.settings import RunnerSettings
from kuota.server.api import ApiServer
from kuota.server.expiry import keep_compacted, keep_expiring
from kuota.server.fairness import SYSTEM_SHARE, FairQueue
from kuota.server.object_quota import NamespaceLimits
from kuota.server.pod_policy import PodPolicy, pod_policy_hook
from kuota.server.pods import LogOptions
from kuota.server.store import Durability, Store
from kuota.server.tokens import TokenFile, admin_token
from kuota.steady_time import SHARED

from . import kubeconfig
from .advice import adviser
from .backups import Backups, keep_backed_up
from .clock_file import ClockFile
from .device_claims import claimed_devices
from .endpoints import Endpoints
from .host import Host, detected, runner_settings
from .job_hook import job_hook
from .local import SYSTEM, local_client
from .machine_devices import MachineDevices, serve_devices
from .machine_nodes import publish
from .options import UpOptions
from .pod_logs import pod_log
from .pod_processes import MachineProcesses
from .quota_enforcement import QuotaEnforcement
from .served_state import serve_engine, serve_history, serve_metrics, serve_usage
from .state_dir import StateDir
from .unsupported_kinds import report_unsupported


class Installation:
    """Runs until cancelled. Jobs keep running when it ends, and the next start adopts them."""

    def __init__(self, state_dir: StateDir, options: UpOptions) -> None:
        self._state_dir = state_dir
        self._options = options
        self._runner: Runner | None = None

    async def run(self, ready: Callable[[int], None]) -> None:
        """Serve. Calls `ready` with the port once all servers respond.

        Raises StoreError, TokenError, NodesError, CannotListen or OSError if it cannot start.
        """
        state_dir, options = self._state_dir, self._options
        state_dir.prepare()
        clock_file = ClockFile(state_dir.clock, SHARED)
        clock_file.resume()
        async with AsyncExitStack() as stack:
            # The API server delays the response to a write until it is on disk, so the store need
            # not sync each write.
            durability = Durability.NORMAL
            store = Store.open(state_dir.store, durability, accept_loss=options.accept_loss)
            stack.callback(store.close)
            token = admin_token(state_dir.tokens, kubeconfig.token_of(state_dir.kubeconfig))
            quota = self._quota(store)
            api = self._api(store, quota)
            await api.start()
            stack.push_async_callback(api.close)
            host = detected(state_dir, options)
            await check(local_client(api), host.nodes.plans)
            stack.enter_context(claimed_devices(host.nodes.plans))
            endpoints = Endpoints(api, state_dir, options)
            port = await endpoints.open(token, host, stack)
            parts = self.parts(api, host, quota, endpoints)
            async with asyncio.TaskGroup() as group:
                for each in (*self._upkeep(store, clock_file), *parts):
                    group.create_task(each)
                calm_collector()
                ready(port)

    def _upkeep(self, store: Store, clock_file: ClockFile) -> Sequence[Coroutine[None, None, None]]:
        """The tasks that maintain the files and the memory of the control plane."""
        backups = Backups(self._state_dir.backups)
        return (
            keep_rotated(self._state_dir.log),
            keep_trimmed(),
            retried("compaction", lambda: keep_compacted(store)),
            retried("expiry of events", lambda: keep_expiring(store)),
            retried("clock", clock_file.keep_saved),
            retried("backups", lambda: keep_backed_up(store, backups, time)),
        )

    def _quota(self, store: Store) -> QuotaEnforcement:
        options = self._options
        return QuotaEnforcement(
            store,
            lifecycle_config(options.config, options.gates),
            allow_unqueued=options.allow_unqueued,
            max_grace_s=options.max_grace_s,
        )

    def _api(self, store: Store, quota: QuotaEnforcement) -> ApiServer:
        root = os.path.realpath(self._state_dir.root)
        pod_policy = PodPolicy(state_dir=root, users=os.geteuid() == 0)
        return ApiServer(
            store,
            tokens=TokenFile(self._state_dir.tokens),
            hooks=(
                pod_policy_hook(store, pod_policy),
                quota.hook,
                job_hook(store, quota.lifecycle),
            ),
            validators=(quota.rules,),
            advisers=(adviser(store, quota.lifecycle),),
            logs=self._log,
            processes=MachineProcesses(self._worker),
            pods=quota.deletion,
            gates=self._options.gates,
            fair_queue=FairQueue({SYSTEM.name: SYSTEM_SHARE}),
            limits=NamespaceLimits(self._options.max_objects_per_namespace),
        )

    def parts(
        self, api: ApiServer, host: Host, quota: QuotaEnforcement, endpoints: Endpoints
    ) -> Sequence[Coroutine[None, None, None]]:
        """Assemble controllers and runner, and return the tasks that run them."""
        client = local_client(api)
        system = System(
            client,
            config=self._options.config,
            gates=self._options.gates,
            lifecycle=quota.lifecycle,
            occupied=quota.occupied,
        )
        quota.follow(system)
        events = system.deferred_events()
        report_unsupported(system.cache.jobs, quota.lifecycle, events)
        self._runner = runner = self._new_runner(client, host, quota, system, events)
        serve_engine(api, system, self._state_dir, self._options)
        metrics = serve_metrics(api, system, runner, endpoints, self._options)
        sampler = serve_usage(api, host.nodes, runner)
        devices = MachineDevices(runner, sampler, system.cache)
        history = SqliteFile(str(self._state_dir.history))
        measured_by, record = metrics.own.measured, IdleRecorder(history).record
        idle = serve_devices(api, devices, self._options.idle, events, measured_by, record)
        topology = partial(publish, client, host.nodes.topology, system.clock)
        return (
            *(runner.run(), system.run(), events.run(), quota.run()),
            *serve_history(api, client, system.cache, history),
            retried("measuring usage", sampler.run),
            retried("watching devices", idle.run),
            retried("sampling metrics", metrics.keep_sampling),
            retried("publishing the topology", topology),
        )

    def _new_runner(
        self,
        client: Client,
        host: Host,
        quota: QuotaEnforcement,
        system: System,
        events: Recorder,
    ) -> Runner:
        return Runner(
            client,
            system.cache.jobs[JOB.group_kind],
            shared_informer(system.cache.pods),
            host.nodes.plans,
            runner_settings(self._state_dir, self._options, host),
            recorder=events,
            cgroups=host.cgroups,
            may_create=quota.may_create,
            others=system.cache.jobs,
            look_up=system.cache.find,
        )

    def _worker(self, uid: str) -> PodWorker | None:
        return self._runner.worker(uid) if self._runner is not None else None

    def _log(self, pod: Json, options: LogOptions) -> AsyncIterator[bytes]:
        home = PodHome(
            RunnerSettings(state_dir=str(self._state_dir.root)).pods_dir, pod["metadata"]["uid"]
        )
        return pod_log(home, options)
