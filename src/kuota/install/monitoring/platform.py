# SPDX-License-Identifier: Apache-2.0
"""The dashboard of admins: all queues, the scheduler, and the server of one machine."""

from __future__ import annotations

from .table import JOB, GrafanaDashboard, PanelRow, Unit, Variable, panel

_QUEUE = 'cluster_queue=~"$cluster_queue"'
_RATE = "[$__rate_interval]"
_NEEDS_RESOURCES = "On a cluster this requires metrics.enableClusterQueueResources."


def _quantile(share: float, metric: str, by: str, matchers: str = "") -> str:
    inner = f"sum by (le, {by}) (rate({metric}_bucket{{{matchers}}}{_RATE}))"
    return f"histogram_quantile({share}, {inner})"


_OVERVIEW = PanelRow(
    "Overview",
    (
        panel("Pending workloads", f"sum(kueue_pending_workloads{{{_QUEUE}}})", stat=True),
        panel("Admitted workloads", f"sum(kueue_admitted_active_workloads{{{_QUEUE}}})", stat=True),
        panel(
            "Oldest pending workload",
            f"max(kuota_oldest_pending_age_seconds{{{_QUEUE}}})",
            unit=Unit.SECONDS,
            stat=True,
        ),
        panel("Idle devices", f"sum(kuota_idle_devices{{{_QUEUE}}})", stat=True),
    ),
)

_QUOTA = PanelRow(
    "Quota",
    (
        panel(
            "Used share of nominal quota",
            (
                "sum by (cluster_queue, flavor, resource) "
                f"(kueue_cluster_queue_resource_usage{{{_QUEUE}}}) / "
                "sum by (cluster_queue, flavor, resource) "
                f"(kueue_cluster_queue_nominal_quota{{{_QUEUE}}})",
                "{{cluster_queue}} {{flavor}} {{resource}}",
            ),
            unit=Unit.RATIO,
            about=f"More than 100 % is borrowed. {_NEEDS_RESOURCES}",
        ),
        panel(
            "Nominal quota",
            (
                "sum by (cluster_queue, flavor, resource) "
                f"(kueue_cluster_queue_nominal_quota{{{_QUEUE}}})",
                "{{cluster_queue}} {{flavor}} {{resource}}",
            ),
            about=_NEEDS_RESOURCES,
        ),
        panel(
            "Devices in use",
            (
                "sum by (cluster_queue, resource) "
                f"(rate(kuota_device_seconds_total{{{_QUEUE}}}{_RATE}))",
                "{{cluster_queue}} {{resource}}",
            ),
            about="The number of devices that admitted workloads hold, on average.",
        ),
        panel(
            "Devices lent to other queues",
            (
                "sum by (cluster_queue, resource) "
                f"(rate(kuota_device_lent_seconds_total{{{_QUEUE}}}{_RATE}))",
                "{{cluster_queue}} {{resource}}",
            ),
        ),
    ),
)

_WAITING = PanelRow(
    "Waiting",
    (
        panel(
            "Pending workloads",
            (
                f"sum by (cluster_queue, status) (kueue_pending_workloads{{{_QUEUE}}})",
                "{{cluster_queue}} {{status}}",
            ),
        ),
        panel(
            "Age of the oldest pending workload",
            (
                f"max by (cluster_queue) (kuota_oldest_pending_age_seconds{{{_QUEUE}}})",
                "{{cluster_queue}}",
            ),
            unit=Unit.SECONDS,
        ),
        panel(
            "Pending amounts",
            (
                f"sum by (cluster_queue, resource) (kuota_pending_resource{{{_QUEUE}}})",
                "{{cluster_queue}} {{resource}}",
            ),
            about="What pending workloads request.",
        ),
        panel(
            "Time to admission (p95)",
            (
                _quantile(0.95, "kueue_admission_wait_time_seconds", "cluster_queue", _QUEUE),
                "{{cluster_queue}}",
            ),
            unit=Unit.SECONDS,
        ),
        panel(
            "Admissions",
            (
                f"sum by (cluster_queue) (rate(kueue_admitted_workloads_total{{{_QUEUE}}}{_RATE}))",
                "{{cluster_queue}}",
            ),
            unit=Unit.PER_SECOND,
        ),
    ),
)

_PREEMPTION = PanelRow(
    "Evictions",
    (
        panel(
            "Evictions by reason",
            (
                "sum by (cluster_queue, reason) "
                f"(increase(kueue_evicted_workloads_total{{{_QUEUE}}}[$__range]))",
                "{{cluster_queue}} {{reason}}",
            ),
        ),
        panel(
            "Preemptions by the queue that preempted",
            (
                "sum by (preempting_cluster_queue, reason) "
                "(increase(kueue_preempted_workloads_total[$__range]))",
                "{{preempting_cluster_queue}} {{reason}}",
            ),
        ),
        panel(
            "Time from eviction to restart (p95)",
            (
                "histogram_quantile(0.95, sum by (le, cluster_queue) (increase("
                f"kuota_eviction_to_restart_time_seconds_bucket{{{_QUEUE}}}[$__range])))",
                "{{cluster_queue}}",
            ),
            unit=Unit.SECONDS,
        ),
        panel(
            "Device hours lost to evictions",
            (
                "sum by (cluster_queue, reason) "
                f"(increase(kuota_device_lost_seconds_total{{{_QUEUE}}}[$__range])) / 3600",
                "{{cluster_queue}} {{reason}}",
            ),
            unit=Unit.HOURS,
            about="Of runs that an eviction ended. Jobs that write checkpoints lose less.",
        ),
    ),
)

_CONTROLLER = PanelRow(
    "Controller",
    (
        panel(
            "Scheduling cycles",
            (f"sum by (result) (rate(kueue_admission_attempts_total{_RATE}))", "{{result}}"),
            unit=Unit.PER_SECOND,
        ),
        panel(
            "Duration of a cycle (p99)",
            (_quantile(0.99, "kueue_admission_attempt_duration_seconds", "result"), "{{result}}"),
            unit=Unit.SECONDS,
        ),
        panel(
            "Reconciliations",
            (
                f"sum by (controller, result) (rate(controller_runtime_reconcile_total{_RATE}))",
                "{{controller}} {{result}}",
            ),
            unit=Unit.PER_SECOND,
        ),
        panel("Work queues", ("sum by (name) (workqueue_depth)", "{{name}}")),
        panel("Internal errors", "sum(kuota_internal_errors_total) or vector(0)"),
        panel("Memory", "max(process_resident_memory_bytes)", unit=Unit.BYTES),
        panel("CPU", f"sum(rate(process_cpu_seconds_total{_RATE}))"),
    ),
)

_MACHINE = PanelRow(
    "Server of one machine",
    (
        panel(
            "Requests",
            (
                f"sum by (verb, code) (rate(apiserver_request_total{_RATE}))",
                "{{verb}} {{code}}",
            ),
            unit=Unit.PER_SECOND,
        ),
        panel(
            "Latency (p99)",
            (_quantile(0.99, "apiserver_request_duration_seconds", "verb"), "{{verb}}"),
            unit=Unit.SECONDS,
        ),
        panel(
            "Stored objects",
            ("sum by (resource) (apiserver_storage_objects)", "{{resource}}"),
        ),
        panel("Size of the store", "sum(apiserver_storage_size_bytes)", unit=Unit.BYTES),
        panel(
            "Devices",
            ("sum by (resource) (kuota_runner_devices_allocated)", "allocated {{resource}}"),
            ("sum by (resource) (kuota_runner_devices)", "{{resource}}"),
        ),
        panel("Pods", ("sum by (node) (kuota_runner_pods)", "{{node}}")),
        panel(
            "Connections and watches",
            ("sum by (state) (kuota_http_connections)", "{{state}}"),
            ("sum(apiserver_registered_watchers)", "watches"),
        ),
    ),
)

PLATFORM = GrafanaDashboard(
    uid="kuota-platform",
    title="Kuota / Platform",
    about="Quota, waiting, evictions and the controller, for admins.",
    variables=(
        JOB,
        Variable("cluster_queue", "cluster_queue", "kueue_cluster_queue_status"),
    ),
    rows=(_OVERVIEW, _QUOTA, _WAITING, _PREEMPTION, _CONTROLLER, _MACHINE),
)
