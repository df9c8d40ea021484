# SPDX-License-Identifier: Apache-2.0
"""The metrics of a process, under the usual names of controller-runtime and client-go."""

from __future__ import annotations

from .metric import by_name, counter, gauge, histogram

_TIMES = tuple(
    [0.005, 0.01, 0.025, 0.05]
    + [each / 100 for each in range(10, 50, 5)]
    + [each / 10 for each in range(5, 10)]
    + [1.0, 1.25, 1.5, 1.75, 2.0, 2.5, 3.0, 3.5, 4.0, 4.5]
    + [5.0, 6.0, 7.0, 8.0, 9.0, 10.0, 15.0, 20.0, 25.0, 30.0, 40.0, 50.0, 60.0]
)
REQUESTS = "rest_client_requests_total"
PASSES = "controller_runtime_reconcile_total"
ERRORS = "controller_runtime_reconcile_errors_total"
TOOK = "controller_runtime_reconcile_time_seconds"
DEPTH = "workqueue_depth"
MASTER = "leader_election_master_status"
BUGS = "kuota_internal_errors_total"

RUNTIME_METRICS = by_name(
    counter(REQUESTS, "code host method", "Requests to API servers"),
    counter(PASSES, "controller result", "Reconciliations by result"),
    counter(ERRORS, "controller", "Reconciliations that failed"),
    histogram(_TIMES, TOOK, "controller", "Duration of reconciliations in seconds"),
    gauge(DEPTH, "name", "Number of names in the work queue"),
    gauge(MASTER, "name", "1 while this replica leads"),
    counter(BUGS, "where", "Unexpected errors, by the part of the program that failed"),
)
"""Metrics of every process."""

PROCESS_METRICS = by_name(
    gauge("process_virtual_memory_bytes", "", "Virtual memory size in bytes"),
    gauge("process_resident_memory_bytes", "", "Resident memory size in bytes"),
    gauge("process_start_time_seconds", "", "Start time of the process since the epoch"),
    counter("process_cpu_seconds_total", "", "CPU time of the process in seconds"),
    gauge("process_open_fds", "", "Number of open file descriptors"),
    gauge("process_max_fds", "", "Maximum number of open file descriptors"),
)
"""Metrics of the client library for Prometheus."""
