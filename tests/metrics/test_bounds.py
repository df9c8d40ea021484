# SPDX-License-Identifier: Apache-2.0
"""The number of series is limited, and a scrape costs as much as what changed."""

from __future__ import annotations

from datetime import UTC, datetime
from types import SimpleNamespace
from typing import cast

import pytest

from build import job, local_queue, queue
from kuota.api.base import Condition, Key, ObjectMeta
from kuota.api.workload import (
    Admission,
    PodSet,
    PodSetAssignment,
    Workload,
    WorkloadSpec,
    WorkloadStatus,
)
from kuota.engine.engine import Engine
from kuota.metrics import device_time, own_metrics
from kuota.metrics.device_time import OTHER, DeviceTime
from kuota.metrics.metrics import Metrics
from kuota.metrics.own_catalog import OWN_METRICS, UTILIZATION, bound
from kuota.metrics.pending_index import PendingIndex
from kuota.view.idle import DeviceHolder, HeldDevice
from metrics.shown import Scrape
from metrics.test_gauges import engine as engine_with


def admitted(team: str, flavor: str = "f") -> Workload:
    true = Condition(
        type="Admitted", status="True", last_transition_time=datetime.fromtimestamp(0, UTC)
    )
    held = PodSetAssignment(
        name="main", flavors={"gpu": flavor}, resource_usage={"gpu": "1"}, count=1
    )
    return Workload(
        metadata=ObjectMeta(name="w", namespace=team, uid=f"{team}-{flavor}"),
        spec=WorkloadSpec(pod_sets=[PodSet(name="main", count=1)]),
        status=WorkloadStatus(
            conditions=[true],
            admission=Admission(cluster_queue="cq", pod_set_assignments=[held]),
        ),
    )


def test_teams_beyond_the_limit_share_one_series(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(device_time, "MOST_PLACES", 3)
    devices = DeviceTime()
    for number in range(10):
        devices.changed(None, admitted(f"team-{number}"), 0.0)
    used = {place.team: seconds for place, seconds in devices.used(10.0)}
    assert {"team-0": 10, "team-1": 10, "team-2": 10, OTHER: 70} == used


def test_the_utilization_of_at_most_so_many_workloads_is_shown(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(own_metrics, "MOST_WORKLOADS", 2)
    metrics = Metrics(engine_with(queue("a", gpu=2), local_queue("a")))
    team = local_queue("a").key.namespace
    held = [
        HeldDevice(f"GPU-{at}", "gpu", DeviceHolder(team, f"p{at}", f"u{at}", f"w{at}", "a"), 50.0)
        for at in range(9)
    ]
    metrics.own.measured(held, (), ())
    assert 2 == len(Scrape(metrics).all(UTILIZATION))
    metrics.own.measured(held[:1], (), ())
    assert 1 == len(Scrape(metrics).all(UTILIZATION))


def test_a_reading_looks_up_only_workloads_that_changed() -> None:
    engine = engine_with(queue("a", gpu=2), local_queue("a"))
    looked_up: list[Key] = []

    def workload(key: Key) -> object:
        looked_up.append(key)
        return job(key.name, queue="a", gpu=3)

    fake = SimpleNamespace(state=engine.state, queues=SimpleNamespace(workload=workload))
    index = PendingIndex(cast(Engine, fake))
    keys = [Key("default", f"w{at}") for at in range(100)]
    for key in keys:
        index.touch(key)
    index.refresh()
    assert 100 == len(looked_up)
    index.refresh()
    assert 100 == len(looked_up)
    index.touch(keys[0])
    index.refresh()
    assert 101 == len(looked_up)


def test_the_heap_of_waiting_times_does_not_grow_with_the_number_of_changes() -> None:
    engine = engine_with(queue("a", gpu=2), local_queue("a"))
    local = local_queue("a").key
    index = PendingIndex(engine)
    known = {"w": job("w", queue="a", gpu=3, created=0.0)}
    fake = SimpleNamespace(
        state=engine.state, queues=SimpleNamespace(workload=lambda key: known.get(key.name))
    )
    index = PendingIndex(cast(Engine, fake))
    for at in range(1000):
        known["w"] = job("w", queue="a", gpu=3, created=float(at))
        index.touch(Key(local.namespace, "w"))
        index.refresh()
    (held,) = index._queues.values()
    assert len(held._heap) <= 70
    assert 999.0 == index.of(local)[0]


def test_every_metric_states_its_bound() -> None:
    for each in OWN_METRICS.values():
        assert bound(each)
        assert "workload" not in each.labels or UTILIZATION == each.name
