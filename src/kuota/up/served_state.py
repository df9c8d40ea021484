# SPDX-License-Identifier: Apache-2.0
"""Serves what the store does not contain: state of the engine and the runner, and the history."""

from __future__ import annotations

from collections.abc import Coroutine
from typing import Any

from kuota.api.config.shapes import Configuration
from kuota.api.config.shapes import Metrics as MetricsSettings
from kuota.api.gates import Gate
from kuota.control.cached_object import CachedObject
from kuota.control.cluster_cache import ClusterCache
from kuota.control.observer import CacheReader, attach_dispatch_observer, attach_observer
from kuota.control.system import System
from kuota.failures import retried
from kuota.history.address import SqliteFile
from kuota.history.quota_recorder import QuotaRecorder
from kuota.history.quotas import QuotaKind
from kuota.history.recorder import HistoryRecorder
from kuota.kube.client import Client
from kuota.kube.informer import Informer
from kuota.metrics.config import metrics_config
from kuota.metrics.metrics import Metrics
from kuota.metrics.runtime import Runtime
from kuota.runner.log_archive import LogArchive
from kuota.runner.runner import Runner
from kuota.runner.usage import UsageSampler
from kuota.server.api import ApiServer
from kuota.steady_time import SHARED
from kuota.visibility.api import VisibilityApi
from kuota.visibility.explanation import ExplanationApi
from kuota.visibility.remote_pods import RemotePodsApi

from . import resource_metrics
from .endpoints import Endpoints
from .extensions import ExplanationExtension, VisibilityExtension
from .history_extension import HistoryExtension
from .machine_metrics import MachineFamilies, MetricsExtension
from .machine_nodes import MachineNodes
from .options import UpOptions
from .pod_logs import ArchivedLogs
from .resource_metrics import ResourceMetrics, measured
from .state_dir import StateDir
from .traffic_metrics import TrafficFamilies

_COMPLETE = Configuration(metrics=MetricsSettings(enable_cluster_queue_resources=True))
"""Without a configuration file all metrics are published: one machine has few queues."""


def serve_usage(api: ApiServer, nodes: MachineNodes, runner: Runner) -> UsageSampler:
    """Serve the usage of pods and Nodes, which the returned sampler measures."""
    sampler = UsageSampler(lambda: measured(runner.workers()))
    names = [each.name for each in nodes.plans]
    api.extensions.append(ResourceMetrics(sampler, runner.workers, names, api.kinds))
    for kind in resource_metrics.KINDS:
        api.kinds.add(kind)
    return sampler


def serve_engine(api: ApiServer, system: System, state_dir: StateDir, options: UpOptions) -> None:
    """Serve explanations and positions of pending workloads, and logs of earlier runs."""
    api.extensions.append(ArchivedLogs(LogArchive(str(state_dir.root))))
    objects = CacheReader(system.cache)
    explanations = ExplanationApi(system.engine, objects, objects.workload_priorities)
    remote = system.checks.multikueue
    pods = None if remote is None else RemotePodsApi(remote.pods)
    api.extensions.append(ExplanationExtension(explanations, api.roles, remote=pods))
    if options.gates.on(Gate.VisibilityOnDemand):
        api.extensions.append(VisibilityExtension(VisibilityApi(system.engine, objects)))


def serve_metrics(
    api: ApiServer, system: System, runner: Runner, endpoints: Endpoints, options: UpOptions
) -> Metrics:
    """Serve the metrics of all parts, and return those of the engine."""
    runtime = Runtime(system.clock)
    system.instrument = runtime.instrument
    wanted = metrics_config(options.config or _COMPLETE, options.gates)
    metrics = Metrics(system.engine, wanted, CacheReader(system.cache), system.clock)
    metrics.show_process(runtime, depths=system.depths)
    attach_observer(metrics, system.driver, system.cache, system.clock)
    if system.checks.multikueue is not None:
        attach_dispatch_observer(metrics, system.checks.multikueue.dispatcher)
        system.checks.multikueue.count_requests = runtime.transport
    families = MachineFamilies(api, runner, endpoints.sessions.open.total)
    metrics.registry.register(families)
    metrics.registry.register(TrafficFamilies(api, endpoints.http))
    api.on_response = families.responded
    api.extensions.append(MetricsExtension(metrics, api.roles))
    return metrics


def serve_history(
    api: ApiServer, client: Client, cache: ClusterCache, file: SqliteFile
) -> tuple[Coroutine[None, None, None], ...]:
    """Serve the history, and return the tasks that record it: jobs, and how quotas change."""
    api.extensions.append(HistoryExtension(file, SHARED.now, api.roles))
    informers: dict[QuotaKind, Informer[CachedObject[Any]]] = {
        QuotaKind.CLUSTER_QUEUE: cache.cluster_queues,
        QuotaKind.COHORT: cache.cohorts,
        QuotaKind.LOCAL_QUEUE: cache.local_queues,
    }
    quotas = QuotaRecorder(informers, lambda each: each.json, file)
    return (
        retried("recording the history", HistoryRecorder(client, file).run),
        retried("recording quotas", quotas.run),
    )
