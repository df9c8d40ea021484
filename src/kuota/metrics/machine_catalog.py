# SPDX-License-Identifier: Apache-2.0
"""The metrics of the server and the runner of one machine, and of the clients of its server."""

from __future__ import annotations

from .metric import SHORT, by_name, counter, gauge, histogram

REQUESTS = "apiserver_request_total"
DURATION = "apiserver_request_duration_seconds"
OBJECTS = "apiserver_storage_objects"
BYTES = "apiserver_storage_size_bytes"
WATCHERS = "apiserver_registered_watchers"
SESSIONS = "kuota_streaming_sessions"
PODS = "kuota_runner_pods"
DEVICES = "kuota_runner_devices"
ALLOCATED = "kuota_runner_devices_allocated"

MACHINE_METRICS = by_name(
    counter(REQUESTS, "verb resource code", "Requests by HTTP method, resource and status"),
    histogram(SHORT, DURATION, "verb resource", "Seconds until the response began"),
    gauge(OBJECTS, "resource", "Number of stored objects"),
    gauge(BYTES, "", "Size of the store with its log, in bytes"),
    gauge(WATCHERS, "", "Number of open watches, including those of the controllers"),
    gauge(SESSIONS, "", "Number of open sessions of exec, attach and port-forward"),
    gauge(PODS, "node", "Number of pods that the runner works on"),
    gauge(DEVICES, "resource", "Number of devices of this machine"),
    gauge(ALLOCATED, "resource", "Number of devices that are allocated to pods"),
)
"""Metrics of the server, its store and the runner."""

CONNECTIONS = "kuota_http_connections"
CLOSED = "kuota_http_connections_closed_total"
REJECTED = "apiserver_flowcontrol_rejected_requests_total"
EXECUTING = "apiserver_flowcontrol_current_executing_requests"
WAITING = "apiserver_flowcontrol_current_inqueue_requests"
STREAMS = "kuota_streams"
ENDED = "kuota_streams_ended_total"
EXPIRED = "kuota_watches_expired_total"
BUFFERED = "kuota_watch_buffered_bytes"
LOG = "kuota_change_log_bytes"

TRAFFIC_METRICS = by_name(
    gauge(CONNECTIONS, "state", "Number of open connections, by whether they authenticated"),
    counter(CLOSED, "reason", "Connections that a limit closed or rejected"),
    counter(REJECTED, "reason", "Requests that were rejected with status 429"),
    gauge(EXECUTING, "", "Number of requests in progress"),
    gauge(WAITING, "", "Number of requests that wait for their turn"),
    gauge(STREAMS, "", "Number of open watches and logs of clients"),
    counter(ENDED, "reason", "Watches and logs that the server ended"),
    counter(EXPIRED, "", "Watches that ended with status 410 because they fell behind"),
    gauge(BUFFERED, "", "Size of the changes that watches have not read yet, in bytes"),
    gauge(LOG, "", "Size of the log of changes, in bytes"),
)
"""Metrics of the server's clients."""
