# SPDX-License-Identifier: Apache-2.0
"""Every metric that a process of Kuota can publish, and the labels of its samples."""

from __future__ import annotations

from collections.abc import Mapping

from .catalog import METRICS
from .machine_catalog import MACHINE_METRICS, TRAFFIC_METRICS
from .metric import Metric, MetricType
from .own_catalog import OWN_METRICS
from .runtime_catalog import PROCESS_METRICS, RUNTIME_METRICS

ROLE = "replica_role"
WITH_ROLE = frozenset(name for name, each in {**METRICS, **OWN_METRICS}.items() if each.role)
"""Metrics whose samples have the label `replica_role`."""
ALL_METRICS: Mapping[str, Metric] = {
    **METRICS,
    **OWN_METRICS,
    **RUNTIME_METRICS,
    **PROCESS_METRICS,
    **MACHINE_METRICS,
    **TRAFFIC_METRICS,
}


def samples() -> dict[str, frozenset[str]]:
    """Return the names of all samples, each with its labels, without custom labels."""
    found = {}
    for name, metric in ALL_METRICS.items():
        labels = frozenset(metric.labels) | ({ROLE} if name in WITH_ROLE else frozenset())
        if metric.kind is not MetricType.HISTOGRAM:
            found[name] = labels
        else:
            found[f"{name}_bucket"] = labels | {"le"}
            found[f"{name}_sum"] = found[f"{name}_count"] = labels
    return found
