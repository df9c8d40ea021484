# SPDX-License-Identifier: Apache-2.0
"""The alerts, each with its runbook."""

from __future__ import annotations

from .table import Alert, AlertSeverity

_KUOTA = "and on (job, instance) kueue_build_info"

CONTROL_PLANE = (
    Alert(
        name="KuotaAbsent",
        expression="absent(kueue_build_info)",
        for_="5m",
        severity=AlertSeverity.CRITICAL,
        summary="Prometheus has received no metrics of Kuota for 5 minutes",
        meaning="Kuota does not run, or Prometheus cannot scrape it. While it is down, no job "
        "starts. While the webhooks are down, no job that is queued can be created either.",
        check=(
            "On a cluster: `kubectl -n kueue-system get pods`, and the logs of pods that restart.",
            "On one machine: `kuota status`, and the end of `kuota.log` in the state directory.",
            "In Prometheus: the page *Targets* shows why a scrape fails. 401 and 403 mean a "
            "missing token or role.",
        ),
        action=(
            "Start it again: `kuota up --detach`, or fix what keeps the pods from starting. "
            "Running jobs continue in the meantime.",
            "If only the scrape fails, correct the token: `kuota token create prometheus "
            "--metrics`, or the ClusterRoleBinding to `kueue-metrics-reader`.",
        ),
    ),
    Alert(
        name="KuotaNoLeader",
        expression="max by (job) (leader_election_master_status) == 0 "
        "and on (job) kueue_build_info",
        for_="2m",
        severity=AlertSeverity.CRITICAL,
        summary="No replica of Kuota leads",
        meaning="Replicas run, but none holds the Lease. Nothing is admitted.",
        check=(
            "`kubectl -n kueue-system get lease c1f6bfd2.kueue.x-k8s.io -o yaml` shows the holder, "
            "and when it renewed the Lease.",
            "The logs of the replicas contain failed requests to the API server.",
        ),
        action=(
            "Restore the connection to the API server, or the permissions on Leases.",
            "If the holder no longer exists, wait for the Lease to expire (15 s).",
        ),
    ),
    Alert(
        name="KuotaInternalErrors",
        expression="sum by (where) (increase(kuota_internal_errors_total[15m])) > 0 or "
        "sum by (where) (kuota_internal_errors_total unless "
        "kuota_internal_errors_total offset 15m)",
        for_="0m",
        severity=AlertSeverity.WARNING,
        summary="Unexpected errors in {{ $labels.where }}",
        meaning="A part of the program failed unexpectedly. Kuota isolated the failure and retries "
        "the operation, but each such error is a bug.",
        check=(
            "Search the log for errors of the logger `kuota.failures`. Each has a traceback.",
            "`kubectl get events -A --field-selector reason=InternalError` shows the objects that "
            "keep failing.",
        ),
        action=(
            "Report the error with its stack trace.",
            "Restart the process if the error repeats.",
        ),
    ),
    Alert(
        name="KuotaReconcileErrors",
        expression="sum by (job, instance, controller) "
        f"(rate(controller_runtime_reconcile_errors_total[10m])) > 0.1 {_KUOTA}",
        for_="15m",
        severity=AlertSeverity.WARNING,
        summary="Reconciliations of {{ $labels.controller }} fail",
        meaning="Writes to the API server fail repeatedly, so the states of jobs or queues are "
        "outdated.",
        check=(
            "The log names the object and the response of the API server.",
            "Permissions: `kubectl auth can-i --as=system:serviceaccount:kueue-system:"
            "kueue-controller-manager --list`.",
        ),
        action=(
            "Grant missing permissions, or correct other webhooks that reject the writes.",
            "If one object causes it, correct or delete that object.",
        ),
    ),
    Alert(
        name="KuotaSchedulingSlow",
        expression="histogram_quantile(0.99, sum by (le) "
        "(rate(kueue_admission_attempt_duration_seconds_bucket[10m]))) > 5",
        for_="15m",
        severity=AlertSeverity.WARNING,
        summary="1 % of the scheduling cycles take more than 5 seconds",
        meaning="Decisions are delayed. A cycle normally takes milliseconds.",
        check=(
            "Compare the CPU usage of the process with its limit, and check for throttling.",
            "Check the number of pending workloads, and which queues use topologies and "
            "preemption.",
        ),
        action=("Give the controller more CPU.", "Report it with the sizes of the queues."),
    ),
)

QUEUES = (
    Alert(
        name="KuotaQueueInactive",
        expression='max by (cluster_queue) (kueue_cluster_queue_status{status="pending"}) == 1',
        for_="15m",
        severity=AlertSeverity.WARNING,
        summary="ClusterQueue {{ $labels.cluster_queue }} is inactive",
        meaning="The queue admits nothing: a flavor, topology or admission check is missing, or it "
        "is stopped.",
        check=("`kuota describe cq NAME` shows the obstacle.",),
        action=("Create what is missing, or set `stopPolicy: None`.",),
    ),
    Alert(
        name="KuotaWorkloadWaitsLong",
        expression="max by (cluster_queue, team) (kuota_oldest_pending_age_seconds) > 86400",
        for_="15m",
        severity=AlertSeverity.WARNING,
        summary="A workload of {{ $labels.team }} waits in {{ $labels.cluster_queue }} for more "
        "than a day",
        meaning="A workload cannot be admitted, or the team has too little quota for its demand.",
        check=(
            "`kuota list workloads -n TEAM` shows the order; `kuota describe workload NAME` shows "
            "why it waits and what would help.",
        ),
        action=(
            "If it can never be admitted (it requests more than the quota), tell its owner.",
            "Otherwise raise the quota, or let the queue borrow.",
        ),
    ),
    Alert(
        name="KuotaManyPreemptions",
        expression="sum by (cluster_queue) "
        '(increase(kueue_evicted_workloads_total{reason="Preempted"}[1h])) > 20',
        for_="0m",
        severity=AlertSeverity.WARNING,
        summary="More than 20 preemptions within an hour in {{ $labels.cluster_queue }}",
        meaning="Workloads preempt each other often, and lose work each time.",
        check=(
            "`kuota history -A --since 2h` shows which jobs were preempted.",
            "The panel *Preemptions by the queue that preempted* shows the queues.",
        ),
        action=(
            "Use fewer priorities, or raise the nominal quota of queues that reclaim it daily.",
            "Limit preemption with `withinClusterQueue` and `reclaimWithinCohort`.",
        ),
    ),
    Alert(
        name="KuotaMuchWorkLost",
        expression="sum by (team) (increase(kuota_device_lost_seconds_total[1d])) > 3600 and "
        "sum by (team) (increase(kuota_device_lost_seconds_total[1d])) > "
        "0.2 * sum by (team) (increase(kuota_device_seconds_total[1d]))",
        for_="1h",
        severity=AlertSeverity.WARNING,
        summary="{{ $labels.team }} lost more than 20 % of its device time to evictions",
        meaning="Evictions end runs before they finish. Without checkpoints that work is lost.",
        check=(
            "`kuota usage -A --by team --since 1d` shows the lost hours.",
            "The dashboard of the team shows them by reason.",
        ),
        action=(
            "Write checkpoints more often, and on SIGTERM.",
            "See KuotaManyPreemptions if the reason is Preempted.",
        ),
    ),
    Alert(
        name="KuotaSlowRestarts",
        expression="histogram_quantile(0.95, sum by (le, cluster_queue) "
        "(increase(kuota_eviction_to_restart_time_seconds_bucket[1d]))) > 14400",
        for_="1h",
        severity=AlertSeverity.INFO,
        summary="Evicted workloads of {{ $labels.cluster_queue }} wait more than 4 hours",
        meaning="Preempted work resumes late: the queue depends on borrowed quota.",
        check=("`kuota describe cq NAME` shows nominal quota and usage.",),
        action=("Raise the nominal quota, or let these jobs run when other teams are idle.",),
    ),
    Alert(
        name="KuotaDevicesIdle",
        expression="sum by (team, resource) (kuota_idle_devices) > 0",
        for_="1h",
        severity=AlertSeverity.INFO,
        summary="{{ $labels.team }} holds idle devices of {{ $labels.resource }}",
        meaning="Devices are allocated, but their utilization stays below the threshold.",
        check=(
            "The page *Nodes* of the dashboard shows them, as does `kuota gpus` on one machine.",
            "On a cluster, events name the pods: "
            "`kubectl get events -A --field-selector reason=DeviceIdle`.",
        ),
        action=("Ask the owner to end or repair the job. Notebooks are the usual cause.",),
    ),
)

MACHINE = (
    Alert(
        name="KuotaApiSlow",
        expression="histogram_quantile(0.99, sum by (le, job, instance) (rate("
        f"apiserver_request_duration_seconds_bucket[5m]))) > 1 {_KUOTA}",
        for_="10m",
        severity=AlertSeverity.WARNING,
        summary="1 % of the requests to {{ $labels.instance }} take more than a second",
        meaning="The embedded API server is overloaded, or its disk is slow.",
        check=(
            "The panels *Requests* and *Stored objects* show the load.",
            "`iostat -x 5` shows the latency of the disk.",
        ),
        action=(
            "Find the client that sends the most requests.",
            "Move the state to a faster disk.",
        ),
    ),
    Alert(
        name="KuotaRequestsRejected",
        expression="sum by (job, instance, reason) "
        f"(rate(apiserver_flowcontrol_rejected_requests_total[5m])) > 1 {_KUOTA}",
        for_="10m",
        severity=AlertSeverity.WARNING,
        summary="{{ $labels.instance }} rejects requests: {{ $labels.reason }}",
        meaning="A client exceeds its limits and gets status 429. Others are not affected.",
        check=(
            "The panel *Requests* shows the verbs. Look for scripts that list objects in a loop.",
        ),
        action=("Change the client so that it waits between requests, or uses a watch.",),
    ),
    Alert(
        name="KuotaStoreLarge",
        expression=f"max by (job, instance) (apiserver_storage_size_bytes) > 10e9 {_KUOTA}",
        for_="1h",
        severity=AlertSeverity.WARNING,
        summary="The store of {{ $labels.instance }} is larger than 10 GB",
        meaning="Many or large objects are stored. A start takes longer, and the disk may fill up.",
        check=("The panel *Stored objects* shows which resource has the most objects.",),
        action=(
            "Delete finished Jobs, or set `ttlSecondsAfterFinished` on them.",
            "Lower `--max-objects-per-namespace`.",
        ),
    ),
)

GROUPS = {"kuota-control-plane": CONTROL_PLANE, "kuota-queues": QUEUES, "kuota-machine": MACHINE}
ALERTS = (*CONTROL_PLANE, *QUEUES, *MACHINE)
