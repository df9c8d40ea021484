# SPDX-License-Identifier: Apache-2.0
"""Gauges of ClusterQueues and cohorts: pending and admitted workloads, quota, usage, shares."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping

from kuota.api.base import Key
from kuota.bridge.queue_status import admitted, reserved
from kuota.engine.activity import InactiveReason
from kuota.engine.amounts import Amounts, add_into
from kuota.engine.fairness import share
from kuota.engine.snapshot import Queue
from kuota.engine.tree import QuotaNode

from .metric import CLUSTER_QUEUE, COHORT, WORKLOAD
from .readings import ACTIVE, GaugeReadings, PendingCounts, in_units
from .series import Labels

_STATUSES = ("pending", ACTIVE, "terminating")


def read_cluster_queues(readings: GaugeReadings, waiting: Mapping[str, PendingCounts]) -> None:
    """Read all ClusterQueues."""
    for name, queue in readings.engine.state.queues.items():
        custom = readings.custom.values(CLUSTER_QUEUE, Key("", name))
        _read_use(readings, queue, custom)
        _read_status(readings, name, custom)
        _read_place(readings, queue.node, custom)
        _read_quota(readings, queue, custom)
        _read_pending(readings, name, waiting[name], custom)
    _read_finished(readings)


def _read_pending(
    readings: GaugeReadings, name: str, counts: PendingCounts, custom: Labels
) -> None:
    if readings.custom.names(WORKLOAD):
        for (status, own), count in counts.labels.items():
            readings.put("kueue_pending_workloads", count, (name, status), (*custom, *own))
    else:
        readings.put_each("kueue_pending_workloads", counts.counts, (name,), custom)
    kinds = {status: float(len(found)) for status, found in counts.classes.items()}
    readings.put_each("kueue_pending_scheduling_hashes", kinds, (name,), custom)
    for resource, amount in counts.requests.items():
        value = in_units(amount, resource)
        readings.put("kueue_cluster_queue_resource_pending", value, (name, resource), custom)


def _read_use(readings: GaugeReadings, queue: Queue, custom: Labels) -> None:
    held = queue.running.total().count
    readings.put("kueue_reserving_active_workloads", held, (queue.name,), custom)
    counts: Counter[Labels] = Counter()
    if readings.custom.names(WORKLOAD):
        for each in queue.running.values():
            if each.workload.admitted and not each.assumed:
                counts[readings.custom.values(WORKLOAD, each.key)] += 1
    else:
        counts[()] = queue.running.total(admitted=True).count
    for own, count in counts.items():
        name = "kueue_admitted_active_workloads"
        readings.put(name, count, (queue.name,), (*custom, *own))


def _read_status(readings: GaugeReadings, name: str, custom: Labels) -> None:
    obstacles = readings.engine.state.obstacles.get(name, ())
    status = ACTIVE if not obstacles else "pending"
    if any(each.reason is InactiveReason.TERMINATING for each in obstacles):
        status = "terminating"
    values = {each: float(each == status) for each in _STATUSES}
    readings.put_each("kueue_cluster_queue_status", values, (name,), custom)


def _read_place(readings: GaugeReadings, node: QuotaNode, custom: Labels) -> None:
    parent, root = cohorts_above(node)
    readings.put("kueue_cluster_queue_info", 1, (node.name, parent, root), custom)
    if readings.shows("kueue_cluster_queue_weighted_share"):
        value = share_of(node)
        readings.put("kueue_cluster_queue_weighted_share", value, (node.name, parent), custom)


def _read_quota(readings: GaugeReadings, queue: Queue, custom: Labels) -> None:
    prefix = "kueue_cluster_queue_"
    if not readings.shows(f"{prefix}nominal_quota"):
        return
    at = (queue.spec.cohort, queue.name)
    for group in queue.spec.groups:
        for column, quota in group.quotas.items():
            labels, resource = (*at, column.flavor, column.resource), column.resource
            for name, amount in (
                ("nominal_quota", quota.nominal),
                ("borrowing_limit", quota.borrowing_limit),
                ("lending_limit", quota.lending_limit),
            ):
                readings.put(f"{prefix}{name}", in_units(amount, resource), labels, custom)
    for name, use in (("reservation", reserved(queue)), ("usage", admitted(queue))):
        for each in use.columns:
            column = each.column
            value = in_units(each.total, column.resource)
            labels = (*at, column.flavor, column.resource)
            readings.put(f"{prefix}resource_{name}", value, labels, custom)


def _read_finished(readings: GaugeReadings) -> None:
    """Count finished workloads that still exist, by queue.

    Variants count with their parent.
    """
    state = readings.engine.state
    counts: Counter[str] = Counter()
    for each in state.workloads.values():
        if each.finished and not each.parent_uid:
            counts[state.queue_of(each)] += 1
    for name in state.queues:
        custom = readings.custom.values(CLUSTER_QUEUE, Key("", name))
        readings.put("kueue_finished_workloads", counts[name], (name,), custom)


def cohorts_above(node: QuotaNode) -> tuple[str, str]:
    """Return the parent cohort and the root cohort of a node; "" if there is none."""
    if node.parent is None:
        return "", "" if node.is_queue else node.name
    return node.parent.name, "" if node.cyclic else node.root.name


def share_of(node: QuotaNode) -> float:
    """Return the fair share for metrics: exact, or NaN if it is infinite."""
    if node.cyclic:
        return 0.0
    found = share(node)
    return math.nan if found.infinite else found.weighted


def read_cohorts(readings: GaugeReadings) -> None:
    """Read all cohorts, including those without a Cohort object.

    Except for those in a cycle, and those that are withdrawn.
    """
    for name, node in readings.engine.state.tree.cohorts.items():
        if node.cyclic or name in readings.withdrawn:
            continue
        custom = readings.custom.values(COHORT, Key("", name))
        readings.put("kueue_cohort_info", 1, (name, *cohorts_above(node)), custom)
        if readings.shows("kueue_cohort_weighted_share"):
            readings.put("kueue_cohort_weighted_share", share_of(node), (name,), custom)
        if readings.shows("kueue_cohort_subtree_quota"):
            _read_subtree(readings, node, custom)


def _read_subtree(readings: GaugeReadings, node: QuotaNode, custom: Labels) -> None:
    """Read quota and usage of the subtree. As in Kueue, an empty subtree has no series."""
    reserved: Amounts = {}
    admitted: Counter[Labels] = Counter()
    for name in sorted(node.leaf_names):
        queue = readings.engine.state.queues[name]
        own = readings.custom.values(CLUSTER_QUEUE, Key("", name))
        admitted[own] += queue.running.total(admitted=True).count
        add_into(reserved, queue.running.total().amounts)
    quota = {column: cell.subtree for column, cell in node.cells.items()}
    for name, amounts in (("quota", quota), ("resource_reservations", reserved)):
        for column, amount in amounts.items():
            if amount > 0:
                labels = (node.name, column.flavor, column.resource)
                value = in_units(amount, column.resource)
                readings.put(f"kueue_cohort_subtree_{name}", value, labels, custom)
    for own, count in admitted.items():
        name = "kueue_cohort_subtree_admitted_active_workloads"
        readings.put(name, count, (node.name,), own)
