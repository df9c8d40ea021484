# SPDX-License-Identifier: Apache-2.0
"""Sampling of the usage of LocalQueues."""

from __future__ import annotations

from msgspec.structs import replace

from build import flavor, job, key, local_queue, queue, running
from kuota.engine.engine import Engine
from kuota.engine.facts import EngineObject, ObjectStored
from kuota.engine.policy import AdmissionFairSharing, Policy

NOW = 1_000_000.0
SETTINGS = AdmissionFairSharing(half_life_s=300.0, sampling_s=300.0)
GPU = 10**9


def engine_with(*values: EngineObject) -> Engine:
    engine = Engine(Policy(admission_fair_sharing=SETTINGS))
    cluster_queue = queue("cq", gpu=8, usage_based=True)
    for each in (flavor(), cluster_queue, local_queue("a", "cq"), local_queue("b", "cq"), *values):
        engine.apply(ObjectStored(value=each), NOW)
    return engine


def consumed(engine: Engine, name: str) -> dict[str, int]:
    usage = engine.usage_tracker.consumed_usage
    assert usage is not None
    return dict(usage.consumed(key(name)))


def test_what_runs_is_half_consumed_after_a_half_life() -> None:
    engine = engine_with(running(job("j", queue="a", gpu=2), "cq", NOW))
    engine.sample(NOW)
    assert engine.sample(NOW + 300) == 300
    assert consumed(engine, "a") == {"gpu": GPU}
    assert consumed(engine, "b") == {"gpu": 0}


def test_amounts_of_several_workloads_and_flavors_are_added_up() -> None:
    engine = engine_with(
        flavor("spot"),
        queue("cq", {"gpu": 8, "spot/gpu": 8}, usage_based=True),
        running(job("j", queue="a", gpu=2), "cq", NOW),
        running(job("k", queue="a", gpu=4), "cq", NOW, "spot"),
    )
    engine.sample(NOW)
    engine.sample(NOW + 300)
    assert consumed(engine, "a") == {"gpu": 3 * GPU}


def test_what_only_holds_quota_is_not_consumed() -> None:
    reserved = replace(running(job("j", queue="a", gpu=2), "cq", NOW), admitted=False)
    engine = engine_with(reserved)
    engine.sample(NOW)
    engine.sample(NOW + 300)
    assert consumed(engine, "a") in ({}, {"gpu": 0})


def test_a_sample_that_is_not_due_changes_nothing() -> None:
    engine = engine_with(running(job("j", queue="a", gpu=2), "cq", NOW))
    engine.sample(NOW)
    engine.sample(NOW + 300)
    before = consumed(engine, "a")
    assert engine.sample(NOW + 400) == 200
    assert consumed(engine, "a") == before


def test_without_admission_fair_sharing_nothing_is_sampled() -> None:
    assert Engine(Policy()).sample(NOW) is None
