# SPDX-License-Identifier: Apache-2.0
"""Which metrics are published, for which LocalQueues, and with which custom labels."""

from __future__ import annotations

from collections.abc import Callable

from kuota.api.base import Key, LabelSelector
from kuota.api.config import local_queue_metrics_enabled, wait_for_pods_ready_enabled
from kuota.api.config.shapes import Configuration, CustomLabel
from kuota.api.gates import Gate, Gates
from kuota.api.match import matches
from kuota.engine.model import Struct

from .custom import Objects
from .metric import LOCAL_QUEUE, Metric, Need

_GATES = {
    Need.COHORTS: Gate.MetricsForCohorts,
    Need.CLASSES: Gate.SchedulingEquivalenceHashing,
    Need.UNADMITTED: Gate.UnadmittedWorkloadsObservability,
    Need.CREATION: Gate.MetricForWorkloadCreationLatency,
}


class Setup(Struct):
    """What is asked for. `selector` None means every LocalQueue."""

    met: frozenset[Need] = frozenset()
    selector: LabelSelector | None = None
    labels: tuple[CustomLabel, ...] = ()

    def shows(self, metric: Metric) -> bool:
        return self.met.issuperset(metric.needs)


def setup(cfg: Configuration | None, gates: Gates) -> Setup:
    """What a configuration asks for; without one, what Kueue's defaults do."""
    cfg = cfg or Configuration()
    local = cfg.metrics.local_queue_metrics
    met = {need for need, gate in _GATES.items() if gates.on(gate)}
    met |= {
        need
        for need, asked in (
            (Need.RESOURCES, cfg.metrics.enable_cluster_queue_resources),
            (Need.LOCAL_QUEUES, local_queue_metrics_enabled(cfg, gates)),
            (Need.FAIR_SHARING, cfg.fair_sharing is not None),
            (Need.PODS_READY, wait_for_pods_ready_enabled(cfg, gates)),
        )
        if asked
    }
    custom = cfg.metrics.custom_labels if gates.on(Gate.CustomMetricLabels) else None
    return Setup(
        met=frozenset(met),
        selector=local.local_queue_selector if local is not None else None,
        labels=tuple(custom or ()),
    )


def measured(setup: Setup, objects: Objects) -> Callable[[Key], bool]:
    """Which LocalQueues have metrics of their own."""
    if Need.LOCAL_QUEUES not in setup.met:
        return lambda key: False
    selector = setup.selector
    if selector is None:
        return lambda key: True
    return lambda key: matches(selector, objects.metadata(LOCAL_QUEUE, key).get("labels") or {})
