# SPDX-License-Identifier: Apache-2.0
"""All metrics of one controller: counters, and gauges that are read at every scrape.

Nothing is computed in advance. Gauges are read from the engine at a scrape, and series of deleted
queues are then dropped.
"""

from __future__ import annotations

import platform
from collections.abc import Callable, Mapping

from prometheus_client import CollectorRegistry, ProcessCollector

from kuota import __version__
from kuota.api.base import Key
from kuota.api.workload import Workload
from kuota.engine.decisions import Admit, CycleResult, Preempt
from kuota.engine.engine import Engine
from kuota.kube.clock import Clock, steady

from .catalog import METRICS
from .changes import Changes
from .config import CustomLabels, MetricsConfig, NoObjects, StoredObjects, measured
from .families import CollectedFamilies, Families, RuntimeFamilies
from .metric import COHORT, LOCAL_QUEUE, owner_of
from .own_metrics import OwnMetrics
from .runtime import Runtime
from .series import Series
from .withdrawn_cohorts import WithdrawnCohorts


def build_labels() -> tuple[str, ...]:
    """git_version, git_commit, build_date, go_version, compiler, platform."""
    machine = f"{platform.system()}/{platform.machine()}".lower()
    language = f"python{platform.python_version()}"
    return f"v{__version__}", "", "", language, platform.python_implementation(), machine


LEADER = "leader"
FOLLOWER = "follower"
STANDALONE = "standalone"
SAMPLE_S = 10.0
"""How often amounts are sampled that change without an event."""


class Metrics:
    """The metrics of a controller. `role` is the replica's role, and may change at any time.

    Call all methods on the engine's event loop. `registry` accepts further collectors.
    """

    def __init__(
        self,
        engine: Engine,
        metrics_config: MetricsConfig | None = None,
        objects: StoredObjects | None = None,
        clock: Clock | None = None,
    ) -> None:
        metrics_config, objects = metrics_config or MetricsConfig(), objects or NoObjects()
        self.role = STANDALONE
        self._custom = CustomLabels(metrics_config.labels, objects)
        shown = {name: each for name, each in METRICS.items() if metrics_config.shows(each)}
        self._series = Series(shown, self._custom)
        self._withdrawn = WithdrawnCohorts(engine)
        self._changes = Changes(
            self._series, engine, self._custom, measured(metrics_config, objects), self._withdrawn
        )
        self._series.put("kueue_build_info", 1, *build_labels())
        self.registry = CollectorRegistry()
        self.registry.register(
            Families(
                self._series,
                engine,
                objects,
                self._custom,
                metrics_config,
                lambda: self.role,
                self._withdrawn,
            )
        )
        self._clock = steady(clock)
        self.own = OwnMetrics(
            engine,
            lambda: {"replica_role": self.role},
            lambda: self.role != FOLLOWER,
            lambda: self._clock.now().timestamp(),
        )
        self.registry.register(self.own)

    async def keep_sampling(self) -> None:
        """Sample what changes without an event, until cancelled."""
        while True:
            self.own.sample()
            await self._clock.sleep(SAMPLE_S)

    def show_process(
        self,
        runtime: Runtime,
        *,
        lease: str = "",
        depths: Callable[[], Mapping[str, int]] = dict,
    ) -> None:
        """Add the metrics of the process: the counters of `runtime`, CPU and memory."""
        self.registry.register(RuntimeFamilies(runtime, lambda: self.role == LEADER, lease, depths))
        ProcessCollector(registry=self.registry)

    def collected(self) -> CollectedFamilies:
        """Return all metrics as of now, to be encoded by the caller."""
        return CollectedFamilies(list(self.registry.collect()))

    def cycle(self, outcome: CycleResult, took_s: float) -> None:
        """Count one cycle. A cycle without heads does not count."""
        if not outcome.decisions:
            return
        admitted = any(isinstance(each, Admit) for each in outcome.decisions)
        result = "success" if admitted else "inadmissible"
        series = self._series
        series.add("kueue_admission_attempts_total", result)
        series.observe("kueue_admission_attempt_duration_seconds", took_s, result)
        for decision in outcome.decisions:
            queue = decision.cluster_queue
            skipped = outcome.skipped_preemptions.get(queue, 0)
            series.put("kueue_admission_cycle_preemption_skips", skipped, queue)
            if isinstance(decision, Preempt):
                for victim in decision.victims:
                    if not victim.leaving:
                        self._changes.preempting(victim.workload.key, queue)
        for (queue, result), count in outcome.recomputations.items():
            series.add("kueue_preemption_target_recomputations_total", queue, result, by=count)

    def changed(self, old: Workload | None, new: Workload | None, now: float) -> None:
        """Count a change of a Workload. Only the leader counts."""
        self.own.changed(old, new, now)
        if new is None:
            if old is not None:
                self._changes.gone(old.key)
        elif old is not None and self.role != FOLLOWER:
            self._changes.seen(old, new, now)

    def removed(self, kind: str, key: Key) -> None:
        """Forget a queue or cohort, so that a new one with the same name starts from zero.

        As in Kueue, a deleted Cohort that ClusterQueues still name is shown again after the next
        change of such a queue, or its next admission.
        """
        self._series.keep(lambda metric, labels: owner_of(metric, labels) != (kind, key))
        if kind == COHORT:
            self._withdrawn.withdraw(key.name)

    def cohort_specified(self, name: str) -> None:
        """Show a cohort again: its object, or the spec of a queue that names it, has changed."""
        self._withdrawn.show(name)

    def ungated(self, workload: Workload, gate: str, took_s: float, *, in_group: bool) -> None:
        """Observe the time from an admission to the removal of a pod's scheduling gate."""
        admission = workload.status.admission
        queue = admission.cluster_queue if admission is not None else ""
        name = "kueue_pod_scheduling_gate_removal_seconds"
        self._series.observe(name, max(0.0, took_s), gate, queue, str(in_group).lower())

    def dispatched(self, cluster_queue: str, cluster: str) -> None:
        """Count a Workload that was copied to a worker cluster."""
        self._series.add("multikueue_workloads_dispatched_total", cluster_queue, cluster)

    def admitted_elsewhere(self, cluster_queue: str, cluster: str) -> None:
        """Count a Workload that a worker cluster admitted."""
        self._series.add("multikueue_workloads_admitted_total", cluster_queue, cluster)

    def created(self, workload: Workload, job_kind: str, took_s: float) -> None:
        """Observe the time from a job's creation to that of its Workload."""
        local = Key(workload.metadata.namespace, workload.spec.queue_name)
        labels = self._custom.values(LOCAL_QUEUE, local)
        name = "kueue_workload_creation_latency_seconds"
        self._series.observe(name, max(0.0, took_s), job_kind, *labels)
