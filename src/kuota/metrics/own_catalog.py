# SPDX-License-Identifier: Apache-2.0
"""The metrics that Kueue does not have.

They have the label `replica_role`, as Kueue's metrics do. A team is a namespace; the label is not
called `namespace`, because Prometheus gives that name to the namespace of the scraped pod.
"""

from __future__ import annotations

from functools import partial

from .metric import LONG_WAITS, Metric, by_name, counter, gauge, histogram

_TEAM = "cluster_queue team"
_PLACE = f"{_TEAM} flavor resource"
_gauge, _counter = partial(gauge, custom=()), partial(counter, custom=())

OLDEST_PENDING = "kuota_oldest_pending_age_seconds"
PENDING = "kuota_pending_resource"
RESTART = "kuota_eviction_to_restart_time_seconds"
USED = "kuota_device_seconds_total"
LENT = "kuota_device_lent_seconds_total"
LOST = "kuota_device_lost_seconds_total"
IDLE = "kuota_device_idle_seconds_total"
IDLE_NOW = "kuota_idle_devices"
UTILIZATION = "kuota_workload_device_utilization_percent"

OWN_METRICS = by_name(
    _gauge(
        OLDEST_PENDING,
        _TEAM,
        "Time since the creation or last eviction of the oldest pending workload; 0 without one",
    ),
    _gauge(
        PENDING,
        _PLACE,
        "Resources requested by pending workloads, among those with quota; the flavor is empty if "
        "the queue offers several",
    ),
    histogram(
        LONG_WAITS,
        RESTART,
        "cluster_queue reason",
        "Time from an eviction to the next admission of the workload",
        custom=(),
    ),
    _counter(USED, _PLACE, "Seconds for which admitted workloads held devices, times their number"),
    _counter(
        LENT,
        _PLACE,
        "Device seconds of the queue's quota that other queues used; the team is empty if several "
        "teams share the queue",
    ),
    _counter(
        LOST,
        f"{_PLACE} reason",
        "Device seconds of runs that an eviction ended, by its reason; an upper bound of lost work",
    ),
    _counter(IDLE, f"{_TEAM} resource", "Device seconds in which allocated devices were idle"),
    _gauge(IDLE_NOW, f"{_TEAM} resource", "Number of allocated devices that are idle"),
    _gauge(
        UTILIZATION,
        f"{_TEAM} workload resource",
        "Average utilization of the devices of a workload",
    ),
)
"""All metrics that only Kuota has, by name."""


def bound(metric: Metric) -> str:
    """Return what limits the number of series of a metric, in words."""
    if metric.name == UTILIZATION:
        return "running workloads with readings, at most 500"
    if metric.name == RESTART:
        return "ClusterQueues × reasons of evictions, a closed list"
    if metric.name in (OLDEST_PENDING,):
        return "pairs of ClusterQueue and team with a LocalQueue"
    if metric.name in (IDLE, IDLE_NOW):
        return "pairs of ClusterQueue and team × devices with quota"
    return "pairs of ClusterQueue and team × quotas of the queue; at most 5,000"
