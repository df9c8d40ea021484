# SPDX-License-Identifier: Apache-2.0
"""The observed state of the objects on a stage."""

from __future__ import annotations

from control.fake_api import FakeApi
from kuota.api.base import Json
from kuota.dashboard.models.rows import workload_row
from kuota.dashboard.shapes import WorkloadRow
from kuota.engine.policy import Policy
from kuota.kube.resources import (
    CLUSTER_QUEUES,
    COHORTS,
    LOCAL_QUEUES,
    NODES,
    PODS,
    RESOURCE_FLAVORS,
    TOPOLOGIES,
    WORKLOAD_PRIORITY_CLASSES,
    WORKLOADS,
)
from kuota.view.observed import ObservedState

FOLLOWED = (
    *(TOPOLOGIES, RESOURCE_FLAVORS, COHORTS, CLUSTER_QUEUES, LOCAL_QUEUES),
    *(WORKLOAD_PRIORITY_CLASSES, NODES, PODS, WORKLOADS),
)


def objects_of(api: FakeApi) -> list[Json]:
    """All objects that the dashboard follows, with their kinds."""
    return [
        {"apiVersion": each.api_version, "kind": each.kind} | obj
        for each in FOLLOWED
        for obj in api.all(each)
    ]


def observed_of(api: FakeApi, policy: Policy | None = None) -> ObservedState:
    return ObservedState.of(objects_of(api), policy)


def rows_of(observed: ObservedState) -> list[WorkloadRow]:
    return [workload_row(each, observed) for each in observed.workloads.values()]


def pending_rows(observed: ObservedState, cluster_queue: str) -> list[WorkloadRow]:
    """The pending workloads of a ClusterQueue, in the order in which the browser shows them."""
    rows = [
        each for each in rows_of(observed) if each.order and each.cluster_queue == cluster_queue
    ]
    return sorted(rows, key=lambda each: each.order)
