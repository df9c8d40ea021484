# SPDX-License-Identifier: Apache-2.0
"""The control plane of one machine: store, API server, controllers, and the runner of Jobs."""

from __future__ import annotations

import asyncio
import os
import re
import socket
import ssl
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from contextlib import AsyncExitStack
from datetime import UTC, datetime
from functools import partial
from time import time
from typing import Any

import msgspec

from kuota import __version__
from kuota.api.base import Json
from kuota.api.config.shapes import Configuration
from kuota.api.config.shapes import Metrics as MetricsSettings
from kuota.api.gates import Gate, Gates
from kuota.bridge.jobs.registry import JOB
from kuota.bridge.lifecycle_view import lifecycle_config
from kuota.bridge.settings import policy
from kuota.connections import Connections, raise_descriptor_limit
from kuota.control.cached_object import CachedObject
from kuota.control.observer import WorldObjects, attach_dispatch_observer, attach_observer
from kuota.control.system import System
from kuota.control.world import World
from kuota.dashboard.http import PREFIX
from kuota.failures import retried
from kuota.history.address import SqliteFile
from kuota.history.idle_recorder import IdleRecorder
from kuota.history.quota_recorder import QuotaRecorder
from kuota.history.quotas import QuotaKind
from kuota.history.recorder import Recorder
from kuota.kube.client import Client
from kuota.kube.informer import Informer
from kuota.listening import CannotListen
from kuota.log_file import keep_rotated
from kuota.memory import calm_collector, keep_trimmed
from kuota.metrics.config import metrics_config
from kuota.metrics.metrics import Metrics
from kuota.metrics.runtime import Runtime
from kuota.runner.cgroups import PODS_PIDS, delegated
from kuota.runner.inventory import machine
from kuota.runner.isolation import available, isolation
from kuota.runner.log_archive import LogArchive
from kuota.runner.nodes import NodePlan, check
from kuota.runner.pod_home import PodHome
from kuota.runner.pod_informer import shared_informer
from kuota.runner.pod_worker import PodWorker
from kuota.runner.proc import start_ticks
from kuota.runner.run_as import RunAsPolicy
from kuota.runner.runner import Runner
from kuota.runner.settings import RunnerSettings
from kuota.runner.usage import UsageSampler
from kuota.server.api import ApiServer
from kuota.server.expiry import keep_compacted, keep_expiring
from kuota.server.fairness import SYSTEM_SHARE, Turns
from kuota.server.http import HttpServer, server_context
from kuota.server.object_quota import NamespaceLimits
from kuota.server.pod_policy import PodPolicy, pod_policy_hook
from kuota.server.pods import LogOptions
from kuota.server.store import Durability, Store
from kuota.server.streaming.sessions import SessionLimits
from kuota.server.tokens import TokenFile, admin_token
from kuota.steady_time import SHARED
from kuota.view.idle import IdlePolicy
from kuota.visibility.api import VisibilityApi
from kuota.visibility.explanation import ExplanationApi
from kuota.visibility.remote_pods import RemotePodsApi

from . import kubeconfig, resource_metrics
from .advice import adviser
from .backups import Backups, keep_backed_up
from .clock_file import ClockFile
from .dashboard import machine_dashboard
from .extensions import ExplanationExtension, VisibilityExtension
from .history_extension import HistoryExtension
from .job_hook import job_hook
from .local import SYSTEM, local_client
from .machine_devices import MachineDevices, serve_devices
from .machine_metrics import MachineFamilies, MetricsExtension
from .machine_nodes import MachineNodes, TopologyOptions, machine_nodes, publish
from .pod_deletion import MAX_GRACE_S
from .pod_logs import ArchivedLogs, pod_log
from .pod_processes import MachineProcesses
from .quota_enforcement import QuotaEnforcement
from .resource_metrics import ResourceMetrics, measured
from .separation import limits
from .state_dir import RunningInstance, StateDir
from .traffic_metrics import TrafficFamilies
from .unsupported_kinds import report_unsupported

_COMPLETE = Configuration(metrics=MetricsSettings(enable_cluster_queue_resources=True))
"""Without a configuration file all metrics are published: one machine has few queues."""


class ExternalListener(msgspec.Struct, frozen=True):
    """An address for other machines, and the admin's certificate for it."""

    host: str
    port: int
    tls: ssl.SSLContext


class UpOptions(msgspec.Struct, frozen=True, kw_only=True):
    """Options of the control plane.

    Port 0 selects the port of the previous start, or any free port. Without `nodes`, the only node
    is this machine, unless `topology` divides it. `external_listener` is an address besides
    loopback.

    If the runner is root, pods that name no user run as `run_as`. They run as root only if allowed.
    With `accept_loss`, it starts even if acknowledged objects are missing from the store.

    Everything in a namespace of a team needs quota, unless `allow_unqueued` is set. A pod gets at
    most `max_grace_s` to end.
    """

    port: int = 0
    external_listener: ExternalListener | None = None
    pretend_gpus: int = 0
    allow_root: bool = False
    accept_loss: bool = False
    run_as: int | None = None
    pod_pids_limit: int = PODS_PIDS
    allow_unqueued: bool = False
    max_grace_s: int = MAX_GRACE_S
    nodes: tuple[NodePlan, ...] = ()
    topology: TopologyOptions = TopologyOptions()
    config: Configuration | None = None
    gates: Gates = Gates()
    max_objects_per_namespace: int = 100_000
    idle: IdlePolicy = IdlePolicy()
    dashboard_actions: bool = False


class Installation:
    """Runs until cancelled. Jobs keep running when it ends, and the next start adopts them."""

    def __init__(self, state_dir: StateDir, options: UpOptions) -> None:
        self._state_dir = state_dir
        self._options = options
        self._http: HttpServer | None = None
        self._runner: Runner | None = None
        self._sessions = SessionLimits()
        self._isolation = isolation(str(state_dir.root), available())
        self._cgroups = delegated(cpuset=bool(options.topology))

    async def run(self, ready: Callable[[int], None]) -> None:
        """Serve. Calls `ready` with the port once all servers respond.

        Raises StoreError, TokenError, NodesError, CannotListen or OSError if it cannot start.
        """
        self._state_dir.prepare()
        clock_file = ClockFile(self._state_dir.clock, SHARED)
        clock_file.resume()
        async with AsyncExitStack() as stack:
            # The API server delays the response to a write until it is on disk, so the store need
            # not sync each write.
            accept_loss = self._options.accept_loss
            path = self._state_dir.store
            store = Store.open(path, Durability.NORMAL, accept_loss=accept_loss)
            stack.callback(store.close)
            quota = self._quota(store)
            api = self._api(store, quota)
            await api.start()
            stack.push_async_callback(api.close)
            nodes = self._nodes()
            await check(local_client(api), nodes.plans)
            port = await self._listen(api, stack)
            async with asyncio.TaskGroup() as group:
                for each in (*self._upkeep(store, clock_file), *self._parts(api, nodes, quota)):
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
        pod_hook = pod_policy_hook(store, self._pod_policy())
        return ApiServer(
            store,
            hooks=(pod_hook, quota.hook, job_hook(store, quota.lifecycle)),
            validators=(quota.rules,),
            advisers=(adviser(store, quota.lifecycle),),
            logs=self._log,
            processes=MachineProcesses(self._worker),
            pods=quota.deletion,
            gates=self._options.gates,
            turns=Turns({SYSTEM.name: SYSTEM_SHARE}),
            limits=NamespaceLimits(self._options.max_objects_per_namespace),
        )

    async def _listen(self, api: ApiServer, stack: AsyncExitStack) -> int:
        state_dir = self._state_dir
        token = admin_token(state_dir.tokens, kubeconfig.token_of(state_dir.kubeconfig))
        connections = Connections(raise_descriptor_limit())
        tokens = TokenFile(state_dir.tokens)
        self._http = http = HttpServer(api, tokens, self._sessions, connections)
        stack.push_async_callback(http.close)
        scheduling = policy(self._options.config, self._options.gates)
        history = SqliteFile(str(state_dir.history))
        dashboard = machine_dashboard(
            api, scheduling, history, actions=self._options.dashboard_actions
        )
        stack.push_async_callback(dashboard.feed.close)
        http.mount(PREFIX, dashboard.dashboard.answer)
        port = await self._listen_here(http)
        external_listener = self._options.external_listener
        if external_listener is not None:
            await http.listen(external_listener.host, external_listener.port, external_listener.tls)
        await http.listen_unix(state_dir.socket)
        authority = (state_dir.tls / "server.crt").read_bytes()
        kubeconfig.write(state_dir.kubeconfig, f"https://127.0.0.1:{port}", token, authority)
        pid, run_as = os.getpid(), self._options.run_as
        isolation = self._isolation.mode
        state_dir.announce(
            RunningInstance(
                pid, start_ticks(pid), port, __version__, run_as, isolation, limits(self._cgroups)
            )
        )
        stack.callback(state_dir.retire)
        return port

    async def _listen_here(self, http: HttpServer) -> int:
        """Listen on loopback, on the port of existing kubeconfigs if it is free."""
        context = server_context(self._state_dir.tls, datetime.now(UTC))
        wanted = self._options.port or kubeconfig.port_of(self._state_dir.kubeconfig)
        try:
            return await http.listen(port=wanted, tls=context)
        except CannotListen:
            if self._options.port:
                raise
            return await http.listen(tls=context)

    def _parts(
        self, api: ApiServer, nodes: MachineNodes, quota: QuotaEnforcement
    ) -> Sequence[Coroutine[None, None, None]]:
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
        report_unsupported(system.world.jobs, quota.lifecycle, events)
        runner = Runner(
            client,
            system.world.jobs[JOB.group_kind],
            shared_informer(system.world.pods),
            nodes.plans,
            self._runner_settings(),
            recorder=events,
            cgroups=self._cgroups,
            may_create=quota.may_create,
            others=system.world.jobs,
            look_up=system.world.find,
        )
        self._runner = runner
        metrics = self._serve_state(api, system, runner)
        sampler = self._sampler(api, nodes, runner)
        devices = MachineDevices(runner, sampler, system.world)
        measured_by, record = metrics.own.measured, IdleRecorder(self._history_file).record
        idle = serve_devices(api, devices, self._options.idle, events, measured_by, record)
        upkeep = (
            retried("measuring usage", sampler.run),
            *self._recorders(api, client, system.world),
            retried("watching devices", idle.run),
            retried("sampling metrics", metrics.keep_sampling),
            self._publishing(client, nodes, system),
        )
        return (runner.run(), system.run(), events.run(), quota.run(), *upkeep)

    def _publishing(
        self, client: Client, nodes: MachineNodes, system: System
    ) -> Coroutine[None, None, None]:
        topology = partial(publish, client, nodes.topology, system.clock)
        return retried("publishing the topology", topology)

    def _sampler(self, api: ApiServer, nodes: MachineNodes, runner: Runner) -> UsageSampler:
        """Serve the usage of pods and Nodes, which the sampler measures."""
        sampler = UsageSampler(lambda: measured(runner.workers()))
        names = [each.name for each in nodes.plans]
        api.extensions.append(ResourceMetrics(sampler, runner.workers, names, api.kinds))
        for kind in resource_metrics.KINDS:
            api.kinds.add(kind)
        return sampler

    def _serve_state(self, api: ApiServer, system: System, runner: Runner) -> Metrics:
        """Serve what the store does not contain: the state of the engine and of the runner."""
        api.extensions.append(ArchivedLogs(LogArchive(str(self._state_dir.root))))
        objects = WorldObjects(system.world)
        explanations = ExplanationApi(system.engine, objects)
        remote = system.checks.multikueue
        pods = None if remote is None else RemotePodsApi(remote.pods)
        api.extensions.append(ExplanationExtension(explanations, api.roles, remote=pods))
        if self._options.gates.on(Gate.VisibilityOnDemand):
            api.extensions.append(VisibilityExtension(VisibilityApi(system.engine, objects)))
        return self._serve_metrics(api, system, runner)

    @property
    def _history_file(self) -> SqliteFile:
        return SqliteFile(str(self._state_dir.history))

    def _recorders(
        self, api: ApiServer, client: Client, world: World
    ) -> tuple[Coroutine[None, None, None], Coroutine[None, None, None]]:
        """Serve the history, and return what records it: jobs, and how quotas change."""
        file = self._history_file
        api.extensions.append(HistoryExtension(file, SHARED.now))
        informers: dict[QuotaKind, Informer[CachedObject[Any]]] = {
            QuotaKind.CLUSTER_QUEUE: world.cluster_queues,
            QuotaKind.COHORT: world.cohorts,
            QuotaKind.LOCAL_QUEUE: world.local_queues,
        }
        quotas = QuotaRecorder(informers, lambda each: each.json, file)
        return (
            retried("recording the history", Recorder(client, file).run),
            retried("recording quotas", quotas.run),
        )

    def _serve_metrics(self, api: ApiServer, system: System, runner: Runner) -> Metrics:
        runtime = Runtime(system.clock)
        system.instrument = runtime.instrument
        wanted = metrics_config(self._options.config or _COMPLETE, self._options.gates)
        metrics = Metrics(system.engine, wanted, WorldObjects(system.world), system.clock)
        metrics.show_process(runtime, depths=system.depths)
        attach_observer(metrics, system.driver, system.world, system.clock)
        if system.checks.multikueue is not None:
            attach_dispatch_observer(metrics, system.checks.multikueue.dispatcher)
        families = MachineFamilies(api, runner, self._sessions.open.total)
        metrics.registry.register(families)
        if self._http is not None:
            metrics.registry.register(TrafficFamilies(api, self._http))
        api.on_response = families.responded
        api.extensions.append(MetricsExtension(metrics, api.roles))
        return metrics

    def _nodes(self) -> MachineNodes:
        found = machine(str(self._state_dir.root), pretend_gpus=self._options.pretend_gpus)
        self._isolation = self._isolation.closing(found.gpus.files)
        if self._options.nodes:
            return MachineNodes(self._options.nodes)
        return machine_nodes(node_name(socket.gethostname()), found, self._options.topology)

    def _runner_settings(self) -> RunnerSettings:
        options = self._options
        policy = RunAsPolicy(os.geteuid(), options.allow_root, options.run_as)
        return RunnerSettings(
            state_dir=str(self._state_dir.root),
            run_as=policy,
            isolation=self._isolation,
            pod_pids_limit=options.pod_pids_limit,
            max_grace_s=options.max_grace_s,
        )

    def _pod_policy(self) -> PodPolicy:
        state_dir = os.path.realpath(self._state_dir.root)
        return PodPolicy(state_dir=state_dir, users=os.geteuid() == 0)

    def _worker(self, uid: str) -> PodWorker | None:
        return self._runner.worker(uid) if self._runner is not None else None

    def _log(self, pod: Json, options: LogOptions) -> AsyncIterator[bytes]:
        home = PodHome(self._runner_settings().pods_dir, pod["metadata"]["uid"])
        return pod_log(home, options)


def node_name(host: str) -> str:
    """A valid name for this machine's Node. Not every host name is a valid object name."""
    parts = [re.sub(r"[^a-z0-9-]+", "-", part).strip("-") for part in host.lower().split(".")]
    return ".".join(filter(None, parts))[:253].strip("-.") or "localhost"
