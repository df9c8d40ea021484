# SPDX-License-Identifier: Apache-2.0
"""The suite of the quota metrics of a ClusterQueue."""

from __future__ import annotations

import math
from collections.abc import Iterator

from conformance.case import Json, Run, same
from conformance.registry import suite
from conformance.world import cluster_queue
from kuota.api.base import Key
from kuota.api.quantity import units
from kuota.engine.amounts import Amounts, FlavorResource
from kuota.engine.engine import Engine
from kuota.engine.facts import ObjectStored
from kuota.engine.model import Reservation, Workload
from kuota.metrics.config import MetricsConfig
from kuota.metrics.metric import Requirement
from kuota.metrics.metrics import Metrics

METRICS = {
    "nominalDPs": "kueue_cluster_queue_nominal_quota",
    "borrowingDPs": "kueue_cluster_queue_borrowing_limit",
    "lendingDPs": "kueue_cluster_queue_lending_limit",
    "usageDPs": "kueue_cluster_queue_resource_reservation",
}


@suite("controller/core-TestRecordResourceMetrics")
def published(run: Run) -> None:
    engine = Engine()
    metrics = Metrics(engine, MetricsConfig(met=frozenset({Requirement.RESOURCES})))
    for queue, wanted in (
        (run.inputs["queue"], run.expected["wantMetrics"]),
        (run.inputs.get("updatedQueue"), run.expected["wantUpdatedMetrics"]),
    ):
        if not queue:
            same(wanted, None)
        else:
            engine.apply(ObjectStored(value=cluster_queue(queue)), run.now)
            engine.apply(ObjectStored(value=_holding(queue)), run.now)
            same(_expected(wanted), _shown(metrics))


def _holding(queue: Json) -> Workload:
    """A workload that holds what the status says is reserved."""
    usage: Amounts = {
        FlavorResource(flavor["name"], each["name"]): units(each["total"], each["name"])
        for flavor in queue["status"].get("flavorsReservation") or ()
        for each in flavor["resources"]
    }
    held = Reservation(cluster_queue=queue["metadata"]["name"], pod_sets=(), usage=usage)
    return Workload(key=Key("", "holder"), reservation=held)


def _expected(wanted: Json) -> Json:
    return {
        name: [_point(each["labels"], float(each["value"])) for each in wanted.get(name) or ()]
        for name in METRICS
    }


def _shown(metrics: Metrics) -> Json:
    """No limit is a number that is not shown as such in JSON."""
    return {
        name: [_point(labels, value) for labels, value in _samples(metrics, metric)]
        for name, metric in METRICS.items()
    }


def _samples(metrics: Metrics, name: str) -> Iterator[tuple[dict[str, str], float]]:
    for family in metrics.collected().collect():
        for sample in family.samples:
            if sample.name == name:
                yield sample.labels, sample.value


def _point(labels: dict[str, str], value: float) -> Json:
    return {"labels": dict(labels), "value": "unlimited" if math.isinf(value) else value}
