# SPDX-License-Identifier: Apache-2.0
"""Admission fair sharing: usage, decay by half-life, penalties and their settlement."""

from __future__ import annotations

from math import inf
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kuota.api.base import Key
from kuota.engine.consumed_usage import ConsumedSample, ConsumedUsage, alpha, requested
from kuota.engine.model import PodSet, Reservation, Workload
from kuota.engine.policy import AdmissionFairSharing
from kuota.engine.usage_tracker import penalty_applies, penalty_lapses

NOW = 1000.0
LQ, OTHER = Key("team", "lq"), Key("team", "other")
JOB = Key("team", "job")
CORE = 10**9
RESERVED = Reservation(cluster_queue="cq", pod_sets=(), usage={})


def usage_of(half_life_s: float = 600.0, **weights: float) -> ConsumedUsage:
    policy = AdmissionFairSharing(half_life_s=half_life_s, resource_weights=weights)
    return ConsumedUsage(policy)


def test_alpha_is_half_after_one_half_life() -> None:
    assert alpha(600.0, 600.0) == 0.5
    assert alpha(300.0, 600.0) == pytest.approx(0.292893, abs=1e-6)
    assert alpha(0.0, 600.0) == 0.0
    assert alpha(600.0, 0.0) == 0.0


def test_decay_mixes_the_past_with_what_is_used_now_and_cuts_to_nano() -> None:
    usage = usage_of()
    usage.restore(LQ, {"cpu": 2 * CORE}, NOW)
    usage.decay(LQ, {"cpu": 4000}, NOW + 300)
    assert usage.consumed(LQ) == {"cpu": 2_585_786_437}
    assert usage.updated(LQ) == NOW + 300


def test_a_penalty_counts_at_once_and_is_settled_once() -> None:
    usage = usage_of()
    usage.push(LQ, JOB, {"cpu": 4000})
    assert usage.usage(LQ) == pytest.approx(1.171572, abs=1e-6)
    assert usage.consumed(LQ) == {}
    usage.apply_penalty(LQ, JOB, {"cpu": 4000}, NOW)
    usage.apply_penalty(LQ, JOB, {"cpu": 4000}, NOW)
    assert usage.consumed(LQ) == {"cpu": 1_171_572_875}
    assert usage.usage(LQ) == pytest.approx(1.171572, abs=1e-6)


def test_pushing_again_replaces_the_penalty_and_dropping_forgets_it() -> None:
    usage = usage_of()
    usage.push(LQ, JOB, {"cpu": 4000})
    usage.push(LQ, JOB, {"cpu": 8000})
    assert usage.usage(LQ) == pytest.approx(2.343145, abs=1e-6)
    usage.drop(LQ, JOB)
    usage.drop(LQ, JOB)
    usage.drop(OTHER, JOB)
    assert usage.usage(LQ) == 0.0


def test_units_are_natural_so_that_memory_drowns_cores_unless_weighed() -> None:
    consumed = {"cpu": 4 * CORE, "memory": 2**30 * CORE}
    plain, weighed = usage_of(), usage_of(memory=0.0, cpu=3.0)
    for usage in (plain, weighed):
        usage.restore(LQ, consumed, NOW)
    assert plain.usage(LQ) == 2**30 + 4
    assert weighed.usage(LQ) == 12.0


def test_the_weight_of_a_local_queue_divides_and_none_at_all_is_last() -> None:
    usage = usage_of()
    usage.restore(LQ, {"cpu": 6 * CORE}, NOW)
    assert usage.usage(LQ) == 6.0
    usage.set_weight(LQ, 2.0)
    assert usage.usage(LQ) == 3.0
    usage.set_weight(LQ, 0.0)
    assert usage.usage(LQ) == inf
    assert usage.usage(OTHER) == 0.0


def test_without_half_life_nothing_is_kept_and_penalties_are_nothing() -> None:
    usage = usage_of(half_life_s=0.0)
    usage.restore(LQ, {"cpu": CORE}, NOW)
    usage.push(LQ, JOB, {"cpu": 4000})
    assert usage.usage(LQ) == 1.0
    usage.apply_penalty(LQ, JOB, {"cpu": 4000}, NOW + 60)
    assert usage.usage(LQ) == 0.0
    usage.sample(LQ, {"cpu": 4000}, NOW + 60)
    assert ConsumedSample({}, NOW + 60) == usage.sampled(LQ)


def test_a_clock_that_goes_back_neither_decays_nor_is_taken_for_the_last_update() -> None:
    usage = usage_of()
    usage.restore(LQ, {"cpu": 8 * CORE}, NOW)
    usage.decay(LQ, {"cpu": 1000}, NOW - 500)
    assert usage.consumed(LQ) == {"cpu": 8 * CORE}
    assert usage.updated(LQ) == NOW


def test_history_is_restored_once_on_top_of_what_was_settled_meanwhile() -> None:
    usage = usage_of(half_life_s=300.0)
    usage.push(LQ, JOB, {"cpu": 4000})
    usage.apply_penalty(LQ, JOB, {}, NOW)
    usage.restore(LQ, {"cpu": 8 * CORE}, NOW + 300)
    usage.restore(LQ, {"cpu": 8 * CORE}, NOW + 300)
    usage.decay(LQ, {"cpu": 4000}, NOW + 300)
    assert usage.consumed(LQ) == {"cpu": 7 * CORE}


def test_decay_is_due_after_the_interval_or_while_a_penalty_is_pending() -> None:
    usage = usage_of()
    assert usage.due(LQ, NOW)
    usage.decay(LQ, {}, NOW)
    assert not usage.due(LQ, NOW + 299)
    assert usage.due(LQ, NOW + 300)
    usage.push(LQ, JOB, {"cpu": 1000})
    assert usage.due(LQ, NOW)


def test_a_restored_queue_is_due_at_once_but_one_that_was_settled_is_not() -> None:
    usage = usage_of()
    usage.restore(LQ, {"cpu": CORE}, NOW)
    assert usage.due(LQ, NOW)
    usage.sample(LQ, {}, NOW)
    assert not usage.due(LQ, NOW)
    usage.push(OTHER, JOB, {"cpu": 1000})
    usage.apply_penalty(OTHER, JOB, {}, NOW)
    usage.restore(OTHER, {"cpu": CORE}, NOW)
    assert not usage.due(OTHER, NOW)


def test_a_settled_penalty_is_not_sampled_before_its_time() -> None:
    usage = usage_of()
    usage.sample(LQ, {"cpu": 0}, NOW)
    usage.push(LQ, JOB, {"cpu": 4000})
    usage.apply_penalty(LQ, JOB, {"cpu": 4000}, NOW + 1)
    assert ConsumedSample({"cpu": 0}, NOW) == usage.sampled(LQ)


def test_a_closed_account_is_empty_when_it_opens_again() -> None:
    usage = usage_of()
    usage.set_weight(LQ, 5.0)
    usage.restore(LQ, {"cpu": CORE}, NOW)
    usage.close(LQ)
    assert (usage.usage(LQ), usage.consumed(LQ), usage.updated(LQ)) == (0.0, {}, None)


@given(st.integers(0, 10**6), st.floats(1.0, 10_000.0))
def test_what_is_not_used_any_more_decays_to_nothing(milli: int, step_s: float) -> None:
    usage = usage_of(half_life_s=60.0)
    usage.restore(LQ, {"cpu": milli * 10**6}, 0.0)
    before = usage.usage(LQ)
    usage.decay(LQ, {}, step_s)
    assert usage.usage(LQ) <= before
    usage.decay(LQ, {}, step_s + 60.0 * 64)
    assert usage.consumed(LQ) == {"cpu": 0}


def test_a_workload_is_charged_for_all_its_pod_sets_but_only_for_what_is_declared() -> None:
    pod_sets = tuple(
        PodSet(name=name, count=1, pods=1, requests=requests)
        for name, requests in (("a", {"cpu": 1000, "fpga": 1}), ("b", {"cpu": 500}))
    )
    workload = Workload(key=JOB, pod_sets=pod_sets)
    assert requested(workload) == {"cpu": 1500, "fpga": 1}
    assert requested(workload, ["cpu", "memory"]) == {"cpu": 1500}


@pytest.mark.parametrize(
    ("before", "after", "settles", "lapses"),
    [
        ({}, {"reservation": RESERVED}, False, False),
        ({}, {"reservation": RESERVED, "admitted": True}, True, False),
        ({"admitted": True}, {"reservation": RESERVED, "admitted": True}, False, False),
        ({}, {"reservation": RESERVED, "admitted": True, "active": False}, False, False),
        ({"reservation": RESERVED}, {"active": False}, False, True),
        ({"reservation": RESERVED}, {}, False, False),
        ({"reservation": RESERVED}, {"finished": True}, False, True),
        ({}, {"queue": "other"}, False, True),
    ],
)
def test_admission_settles_a_penalty_and_what_rules_it_out_drops_it(
    before: dict[str, Any], after: dict[str, Any], settles: bool, lapses: bool
) -> None:
    workload = Workload(key=JOB, queue="lq")
    old = msgspec.structs.replace(workload, **before)
    new = msgspec.structs.replace(workload, **after)
    assert settles == penalty_applies(old, new)
    assert lapses == penalty_lapses(old, new)


def test_deleting_a_workload_drops_its_penalty() -> None:
    assert penalty_lapses(Workload(key=JOB), None)
