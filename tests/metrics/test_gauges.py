# SPDX-License-Identifier: Apache-2.0
"""Gauges are computed from the engine's state when they are read."""

from __future__ import annotations

import math
from collections.abc import Iterable
from datetime import UTC, datetime

import msgspec
import pytest
from msgspec.structs import replace

from build import cohort, flavor, job, local_queue, namespace, queue, running
from kuota.api.base import Condition, Json, Key
from kuota.api.gates import Gates
from kuota.api.workload import Workload
from kuota.engine.engine import Engine
from kuota.engine.facts import EngineObject, ObjectDeleted, ObjectStored
from kuota.engine.model import ClusterQueue, Quota
from kuota.engine.policy import AdmissionFairSharing, Policy
from kuota.metrics.config import UNTRACKED, MetricsConfig
from kuota.metrics.metrics import Metrics
from metrics.shown import Scrape, asked

EVERYTHING = {"metrics": {"enableClusterQueueResources": True}, "fairSharing": {}}


class FakeObjects:
    """Objects for metrics to look up."""

    def __init__(self, labels: dict[tuple[str, str], dict[str, str]] | None = None) -> None:
        self._labels = labels or {}
        self.stored: list[Workload] = []

    def metadata(self, kind: str, key: Key) -> Json:
        found = self._labels.get((kind, key.name), {})
        return {"labels": found, "annotations": found}

    def workloads(self) -> Iterable[Workload]:
        return self.stored


def engine(*values: EngineObject, policy: Policy | None = None) -> Engine:
    made = Engine(policy)
    for each in (namespace(), flavor(), *values):
        made.apply(ObjectStored(value=each), 0.0)
    return made


def shown(
    made: Engine, metrics_config: MetricsConfig | None = None, fakes: FakeObjects | None = None
) -> Scrape:
    return Scrape(Metrics(made, metrics_config or asked(EVERYTHING), fakes or FakeObjects()))


def test_pending_workloads_are_active_until_they_are_inadmissible() -> None:
    made = engine(queue("a", gpu=2), local_queue("a"))
    for name, gpu in (("one", 3), ("two", 3), ("three", 1), ("four", 1)):
        made.apply(ObjectStored(value=job(name, queue="a", gpu=gpu)), 0.0)
    made.cycle(1.0)
    made.cycle(2.0)
    made.apply(ObjectStored(value=running(job("three", queue="a", gpu=1), "a", 2.0)), 2.0)
    seen = shown(made)
    for status, count in (("active", 1), ("inadmissible", 2)):
        assert count == seen("pending_workloads", cluster_queue="a", status=status)
        assert count == seen("local_queue_pending_workloads", name="a", status=status)
    assert {"active": 1, "inadmissible": 1} == {
        labels["status"]: value for labels, value in seen.all("pending_scheduling_hashes")
    }
    assert 7 == seen("cluster_queue_resource_pending", cluster_queue="a", resource="gpu")


def test_all_that_wait_in_an_inactive_queue_are_inadmissible() -> None:
    made = engine(queue("a", gpu=2, stop_policy="Hold"), local_queue("a"), job("j", queue="a"))
    seen = shown(made)
    assert 0 == seen("pending_workloads", cluster_queue="a", status="active")
    assert 1 == seen("pending_workloads", cluster_queue="a", status="inadmissible")
    assert 1 == seen("local_queue_pending_workloads", name="a", status="inadmissible")
    assert 1 == seen("cluster_queue_status", cluster_queue="a", status="pending")
    assert 0 == seen("cluster_queue_status", cluster_queue="a", status="active")
    assert 1 == seen("local_queue_status", name="a", active="False")


def test_quota_and_its_use_are_shown_in_the_units_of_people() -> None:
    made = engine(
        queue("a", {"cpu": Quota(4000, borrowing_limit=1500), "spot/gpu": 2}, cohort="all"),
        flavor("spot"),
        local_queue("a"),
        running(job("up", queue="a", cpu=2500), "a", 1.0),
        msgspec.structs.replace(running(job("new", queue="a", cpu=500), "a", 1.0), admitted=False),
    )
    seen = shown(made)
    at = {"cluster_queue": "a", "cohort": "all", "flavor": "default", "resource": "cpu"}
    assert 4 == seen("cluster_queue_nominal_quota", **at)
    assert 1.5 == seen("cluster_queue_borrowing_limit", **at)
    assert math.inf == seen("cluster_queue_lending_limit", **at)
    assert 3 == seen("cluster_queue_resource_reservation", **at)
    assert 2.5 == seen("cluster_queue_resource_usage", **at)
    assert 0 == seen("cluster_queue_resource_usage", cluster_queue="a", resource="gpu")
    assert 2 == seen("reserving_active_workloads", cluster_queue="a")
    assert 1 == seen("admitted_active_workloads", cluster_queue="a")
    assert 3 == seen("local_queue_resource_reservation", name="a", resource="cpu")
    assert 2.5 == seen("local_queue_resource_usage", name="a", resource="cpu")
    assert 1 == seen("local_queue_admitted_active_workloads", name="a")


def test_a_borrower_without_weight_has_no_share_that_is_a_number() -> None:
    made = engine(
        queue("a", gpu=2, cohort="left", weight=0.0),
        queue("b", gpu=2, cohort="left"),
        cohort("left", parent="top"),
        local_queue("a"),
        running(job("j", queue="a", gpu=3), "a", 1.0),
        policy=Policy(fair_sharing=()),
    )
    seen = shown(made)
    assert math.isnan(seen("cluster_queue_weighted_share", cluster_queue="a", cohort="left") or 0)
    assert 0 == seen("cluster_queue_weighted_share", cluster_queue="b")
    assert 0 == seen("cohort_weighted_share", cohort="left")


def test_cohorts_show_their_place_and_all_that_is_below_them() -> None:
    made = engine(
        queue("a", gpu=2, cohort="left"),
        queue("b", gpu=3, cohort="top"),
        cohort("left", parent="top", gpu=1),
        local_queue("a"),
        running(job("j", queue="a", gpu=2), "a", 1.0),
    )
    seen = shown(made)
    assert 1 == seen(
        "cluster_queue_info", cluster_queue="a", parent_cohort="left", root_cohort="top"
    )
    assert 1 == seen("cohort_info", cohort="left", parent_cohort="top", root_cohort="top")
    assert 1 == seen("cohort_info", cohort="top", parent_cohort="", root_cohort="top")
    assert 3 == seen("cohort_subtree_quota", cohort="left", resource="gpu")
    assert 6 == seen("cohort_subtree_quota", cohort="top", resource="gpu")
    assert 2 == seen("cohort_subtree_resource_reservations", cohort="top", resource="gpu")
    assert 1 == seen("cohort_subtree_admitted_active_workloads", cohort="top")


def test_cohorts_show_no_amounts_of_nothing_and_what_is_held_beyond_their_quota() -> None:
    made = engine(
        flavor("spot"),
        queue("a", {"default/gpu": 2, "spot/gpu": 0}, cohort="top"),
        local_queue("a"),
        running(job("j", queue="a", gpu=1), "a", 1.0, flavor="spot"),
    )
    seen = shown(made)
    at = {"cohort": "top", "resource": "gpu"}
    assert [(at | {"flavor": "default"}, 2)] == seen.all("cohort_subtree_quota")
    held = [(at | {"flavor": "spot"}, 1)]
    assert held == seen.all("cohort_subtree_resource_reservations")


def test_cohorts_that_close_a_loop_are_not_shown() -> None:
    made = engine(queue("a", gpu=1, cohort="x"), cohort("x", parent="y"), cohort("y", parent="x"))
    seen = shown(made)
    assert [] == seen.all("cohort_info") == seen.all("cohort_subtree_quota")
    assert 1 == seen("cluster_queue_info", parent_cohort="x", root_cohort="")


def test_what_a_local_queue_has_used_is_shown_where_it_decides() -> None:
    policy = Policy(
        admission_fair_sharing=AdmissionFairSharing(half_life_s=100.0, sampling_s=100.0),
        gates=Gates.of({"AdmissionFairSharing": True}, check=False),
    )
    made = engine(
        queue("a", gpu=2, usage_based=True),
        queue("b", gpu=2),
        local_queue("a"),
        local_queue("b"),
        job("j", queue="a", gpu=2),
        policy=policy,
    )
    made.cycle(1.0)
    found = shown(made).all("local_queue_admission_fair_sharing_usage")
    assert [({"name": "a", "namespace": "default", "cluster_queue": "a"}, 1.0)] == found


def test_why_workloads_are_not_admitted_is_counted_by_queue_and_reason() -> None:
    made, fakes = engine(queue("a", gpu=1), local_queue("a")), FakeObjects()
    fakes.stored = [_waiting("x", "WaitingForQuota"), _waiting("y", "WaitingForQuota")]
    fakes.stored += [_waiting("z", "ExceedsMaxQuota"), _waiting("fresh", "")]
    seen = shown(made, fakes=fakes)
    why = {"reason": "NoReservation", "underlying_cause": "WaitingForQuota"}
    assert 2 == seen("unadmitted_workloads", cluster_queue="a", **why)
    assert 2 == seen("local_queue_unadmitted_workloads", name="a", cluster_queue="a", **why)
    assert 1 == seen("unadmitted_workloads", underlying_cause="ExceedsMaxQuota")
    fresh = {"reason": "NoReservation", "underlying_cause": "PendingEvaluation"}
    assert 1 == seen("unadmitted_workloads", cluster_queue="a", **fresh)
    off = asked(EVERYTHING, {"UnadmittedWorkloadsObservability": False})
    assert [] == shown(made, off, fakes).all("unadmitted_workloads")


def test_who_waits_for_checks_has_no_underlying_cause() -> None:
    made, fakes = engine(queue("a", gpu=1), local_queue("a")), FakeObjects()
    conditions = [
        Condition(type="QuotaReserved", status="True", reason="QuotaReserved"),
        Condition(type="Admitted", status="False", reason="UnsatisfiedAdmissionChecks"),
    ]
    waits = _waiting("x", "")
    fakes.stored = [replace(waits, status=replace(waits.status, conditions=conditions))]
    why = {"reason": "UnsatisfiedAdmissionChecks", "underlying_cause": ""}
    assert 1 == shown(made, fakes=fakes)("unadmitted_workloads", cluster_queue="a", **why)


def test_who_is_deleted_or_waits_in_a_stopped_queue_is_not_counted() -> None:
    made, fakes = engine(queue("a", gpu=1), local_queue("a", stop_policy="Hold")), FakeObjects()
    fakes.stored = [_waiting("x", "Suspended")]
    assert [] == shown(made, fakes=fakes).all("unadmitted_workloads")
    made.apply(ObjectStored(value=local_queue("a")), 1.0)
    assert 1 == len(shown(made, fakes=fakes).all("unadmitted_workloads"))
    (waits,) = fakes.stored
    leaving = replace(waits.metadata, deletion_timestamp=datetime(2026, 1, 2, tzinfo=UTC))
    fakes.stored = [replace(waits, metadata=leaving)]
    assert [] == shown(made, fakes=fakes).all("unadmitted_workloads")


def test_who_waits_for_a_cluster_queue_that_does_not_exist_is_counted_by_its_name() -> None:
    made, fakes = engine(local_queue("a")), FakeObjects()
    fakes.stored = [_waiting("x", "Misconfigured")]
    seen = shown(made, fakes=fakes)
    assert 1 == seen("unadmitted_workloads", cluster_queue="a", underlying_cause="Misconfigured")


def _waiting(name: str, reason: str) -> Workload:
    conditions = [
        {"type": "QuotaReserved", "status": "False", "reason": reason},
        {"type": "Admitted", "status": "False", "reason": "NoReservation"},
    ]
    obj: Json = {
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"queueName": "a"},
        "status": {"conditions": conditions if reason else []},
    }
    return msgspec.convert(obj, Workload)


@pytest.mark.parametrize(
    ("config", "gates", "name"),
    [
        ({}, {}, "cluster_queue_nominal_quota"),
        ({}, {}, "cluster_queue_resource_pending"),
        ({"fairSharing": {}}, {}, "cluster_queue_weighted_share"),
        (EVERYTHING, {"MetricsForCohorts": False}, "cluster_queue_info"),
        (EVERYTHING, {"SchedulingEquivalenceHashing": False}, "pending_scheduling_hashes"),
        ({"metrics": {"localQueueMetrics": {}}}, {}, "local_queue_pending_workloads"),
        (EVERYTHING, {"LocalQueueMetrics": False}, "local_queue_pending_workloads"),
    ],
)
def test_a_metric_that_is_not_enabled_is_not_exposed(
    config: Json, gates: dict[str, bool], name: str
) -> None:
    made = engine(queue("a", gpu=1, cohort="c"), local_queue("a"), job("j", queue="a", gpu=1))
    assert shown(made).all(name)
    assert [] == shown(made, asked(config, gates)).all(name)


def test_only_local_queues_that_are_selected_have_metrics() -> None:
    made = engine(queue("a", gpu=1), local_queue("a"), local_queue("b", "a"))
    chosen = {"enable": True, "localQueueSelector": {"matchLabels": {"tier": "gold"}}}
    fakes = FakeObjects({("LocalQueue", "b"): {"tier": "gold"}})
    seen = shown(made, asked({"metrics": {"localQueueMetrics": chosen}}), fakes)
    assert {"b"} == {labels["name"] for labels, _ in seen.all("local_queue_pending_workloads")}


def test_custom_labels_follow_queues_and_workloads() -> None:
    labels = [
        {"name": "team", "sourceLabelKey": "acme.io/team"},
        {"name": "site", "sourceKind": "Cohort"},
        {"name": "kind", "sourceKind": "Workload", "trackedValues": ["train", "infer"]},
    ]
    made = engine(queue("a", gpu=4, cohort="c"), local_queue("a"))
    for name in ("x", "y", "z"):
        made.apply(ObjectStored(value=job(name, queue="a", gpu=1)), 0.0)
    fakes = FakeObjects(
        {
            ("ClusterQueue", "a"): {"acme.io/team": "red"},
            ("Cohort", "c"): {"site": "north"},
            ("Workload", "x"): {"kind": "train"},
            ("Workload", "y"): {"kind": "fun"},
        }
    )
    metrics_config = asked({"metrics": {"customLabels": labels}}, {"CustomMetricLabels": True})
    seen = shown(made, metrics_config, fakes)
    found = {each["custom_kind"]: value for each, value in seen.all("pending_workloads")}
    assert {"train": 1, UNTRACKED: 1, "": 1} == found
    assert 0 == seen("reserving_active_workloads", cluster_queue="a", custom_team="red")
    assert 1 == seen("cohort_info", cohort="c", custom_site="north")
    off = asked({"metrics": {"customLabels": labels}})
    assert not any("custom_team" in each.labels for each in shown(made, off, fakes).samples)


def test_a_queue_that_is_gone_is_not_shown() -> None:
    made = engine(queue("a", gpu=1), local_queue("a"))
    made.apply(ObjectDeleted(kind=ClusterQueue, key=Key("", "a")), 1.0)
    found = [each for each in shown(made).samples if each.labels.get("cluster_queue") == "a"]
    assert [] == found
