# SPDX-License-Identifier: Apache-2.0
"""Gauges of LocalQueues with their own metrics, and of pending workloads by reason."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from kuota.api.base import Key, condition, is_true
from kuota.api.workload import Workload
from kuota.bridge.queue_status import QueueUsage, admitted, reserved
from kuota.bridge.variants import parent_of
from kuota.engine.model import LocalQueue
from kuota.engine.reasons import WaitReason

from .catalog import PREFIX
from .metric import CLUSTER_QUEUE, LOCAL_QUEUE, WORKLOAD
from .readings import GaugeReadings, PendingCounts, in_units
from .series import Labels

_STATES = ("True", "False", "Unknown")


def read_local_queues(readings: GaugeReadings, waiting: Mapping[Key, PendingCounts]) -> None:
    """Read all LocalQueues with metrics."""
    state = readings.engine.state
    measured = [key for key in state.local_queues if readings.measured(key)]
    if not measured:
        return
    labelled = _labelled(readings)
    finished: Counter[Key] = Counter(
        each.local_queue
        for each in state.workloads.values()
        if each.finished and not each.parent_uid
    )
    for key in measured:
        custom = readings.custom.values(LOCAL_QUEUE, key)
        at = (key.name, key.namespace)
        if state.local_queues[key].stop_policy == "None":
            # As in Kueue, a stopped LocalQueue is not part of the queues.
            readings.put_each(f"{PREFIX}pending_workloads", waiting[key].counts, at, custom)
            readings.put(f"{PREFIX}finished_workloads", finished[key], at, custom)
        _read_use(readings, state.local_queues[key], labelled.get(key, {}), custom)
        _read_status(readings, key, custom)


def _labelled(readings: GaugeReadings) -> dict[Key, Counter[Labels]]:
    """Return admitted workloads by LocalQueue and custom labels, if there are such labels."""
    found: dict[Key, Counter[Labels]] = {}
    state = readings.engine.state
    for name, queue in state.queues.items() if readings.custom.names(WORKLOAD) else ():
        for each in queue.running.values():
            spec = state.local_queues.get(each.workload.local_queue)
            stored = each.workload.admitted and not each.assumed
            if stored and spec is not None and spec.cluster_queue == name:
                labels = readings.custom.values(WORKLOAD, each.key)
                found.setdefault(spec.key, Counter())[labels] += 1
    return found


def _read_use(
    readings: GaugeReadings, spec: LocalQueue, labelled: Mapping[Labels, int], custom: Labels
) -> None:
    """Read the usage in the LocalQueue's ClusterQueue."""
    at = (spec.key.name, spec.key.namespace)
    queue = readings.engine.state.queues.get(spec.cluster_queue)
    holding = reserved(queue, spec.key) if queue is not None else QueueUsage()
    running = admitted(queue, spec.key) if queue is not None else QueueUsage()
    readings.put(f"{PREFIX}reserving_active_workloads", holding.workloads, at, custom)
    if not readings.custom.names(WORKLOAD):
        labelled = {(): running.workloads}
    for own, count in labelled.items():
        readings.put(f"{PREFIX}admitted_active_workloads", count, at, (*custom, *own))
    for name, use in (("reservation", holding), ("usage", running)):
        for each in use.columns:
            value = in_units(each.total, each.column.resource)
            labels = (*at, each.column.flavor, each.column.resource)
            readings.put(f"{PREFIX}resource_{name}", value, labels, custom)


def _read_status(readings: GaugeReadings, key: Key, custom: Labels) -> None:
    engine = readings.engine
    at, spec = (key.name, key.namespace), engine.state.local_queues[key]
    active = str(not engine.state.local_obstacles(key))
    readings.put_each(
        f"{PREFIX}status", {each: float(each == active) for each in _STATES}, at, custom
    )
    consumed = engine.usage_tracker.consumed_usage
    queue = engine.state.queues.get(spec.cluster_queue)
    if consumed is not None and queue is not None and queue.spec.usage_based:
        name, labels = f"{PREFIX}admission_fair_sharing_usage", (*at, spec.cluster_queue)
        readings.put(name, engine.usage_tracker.usage(key), labels, custom)


def read_unadmitted(readings: GaugeReadings) -> None:
    """Count the Workloads that are neither admitted nor finished, by their reasons.

    Variants do not count, because their parent does. Workloads of stopped LocalQueues do not count.
    """
    if not readings.shows("kueue_unadmitted_workloads"):
        return
    counts: Counter[tuple[Key, str, str, str]] = Counter()
    local_queues = readings.engine.state.local_queues
    for each in readings.objects.workloads():
        found = _reasons(each)
        local = Key(each.metadata.namespace, each.spec.queue_name)
        spec = local_queues.get(local)
        queued = spec is not None and spec.stop_policy == "None"
        if found is not None and queued and parent_of(each.metadata) is None:
            counts[local, local_queues[local].cluster_queue, *found] += 1
    shared: Counter[tuple[str, str, str]] = Counter()
    for (local, queue, reason, cause), count in counts.items():
        shared[queue, reason, cause] += count
        if readings.measured(local):
            labels = (local.name, local.namespace, queue, reason, cause)
            custom = readings.custom.values(LOCAL_QUEUE, local)
            readings.put(f"{PREFIX}unadmitted_workloads", count, labels, custom)
    for (queue, reason, cause), count in shared.items():
        custom = readings.custom.values(CLUSTER_QUEUE, Key("", queue))
        readings.put("kueue_unadmitted_workloads", count, (queue, reason, cause), custom)


def _reasons(obj: Workload) -> tuple[str, str] | None:
    """Return why a Workload is not admitted and why it has no quota reservation.

    Returns None if it is admitted, finished or being deleted. A Workload without a QuotaReserved
    condition is pending evaluation.
    """
    conditions = obj.status.conditions
    over = is_true(conditions, "Finished") or obj.metadata.deletion_timestamp is not None
    if over or is_true(conditions, "Admitted"):
        return None
    admitted = condition(conditions, "Admitted")
    reserved = condition(conditions, "QuotaReserved")
    if reserved is None:
        cause = WaitReason.PENDING_EVALUATION.value
    else:
        cause = reserved.reason if reserved.status != "True" else ""
    return admitted.reason if admitted is not None else "NoReservation", cause
