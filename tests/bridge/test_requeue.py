# SPDX-License-Identifier: Apache-2.0
"""Requeue delays, execution time, and the effect of an eviction on both."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import convert

from bridge.objects import NOON, admission, at, check, condition, reserved, workload
from kuota.api.backoff import Backoff
from kuota.api.workload import AdmissionCheckState, RequeueState, Workload
from kuota.bridge.lifecycle_reserved import backed_off, delayed, retry_at
from kuota.bridge.lifetime import (
    CompletedEviction,
    eviction_end,
    execution_s,
    remaining_s,
    waited_s,
)

T0 = datetime.fromtimestamp(NOON, UTC)
MINUTE = Backoff(base=60, cap=3600)


def after(seconds: float) -> datetime:
    return T0 + timedelta(seconds=seconds)


def states(*records: dict[str, Any]) -> list[AdmissionCheckState]:
    return convert(list(records), list[AdmissionCheckState])


def test_the_most_patient_check_in_retry_sets_the_time() -> None:
    found = retry_at(
        states(
            check("a", "Retry", requeueAfterSeconds=60),
            check("b", "Retry", requeueAfterSeconds=60) | {"lastTransitionTime": at(30)},
            check("c", "Ready", requeueAfterSeconds=600),
        )
    )
    assert found == after(90)


@pytest.mark.parametrize(
    "listed",
    [
        [],
        [check("a", "Retry")],
        [check("a", "Retry", requeueAfterSeconds=60) | {"lastTransitionTime": None}],
    ],
)
def test_checks_that_name_no_time_ask_for_none(listed: list[dict[str, Any]]) -> None:
    assert retry_at(states(*listed)) is None


def test_a_first_delay_counts_only_when_it_is_a_failed_start() -> None:
    assert delayed(None, after(5)) == RequeueState(requeue_at=after(5))
    assert delayed(None, after(5), counted=True) == RequeueState(count=1, requeue_at=after(5))


@given(st.integers(0, 100), st.integers(0, 100), st.booleans(), st.integers(0, 5))
def test_the_time_only_ever_moves_later(old: int, new: int, counted: bool, count: int) -> None:
    found = delayed(RequeueState(count=count, requeue_at=after(old)), after(new), counted=counted)
    assert found == RequeueState(count=count + counted, requeue_at=after(max(old, new)))


def test_the_wait_doubles_with_each_failed_start_up_to_its_cap() -> None:
    state: RequeueState | None = None
    waits = []
    for _ in range(8):
        state = backed_off(state, MINUTE, NOON)
        assert state.requeue_at is not None
        waits.append((state.requeue_at - T0).total_seconds())
    assert waits == [60, 120, 240, 480, 960, 1920, 3600, 3600]
    assert state is not None
    assert state.count == 8


def test_jitter_lengthens_the_wait_by_its_part() -> None:
    assert backed_off(None, MINUTE, NOON, jitter=0.5).requeue_at == after(90)


def test_execution_time_is_known_once_it_finished_while_admitted() -> None:
    ran = [condition("Admitted", since=10), condition("Finished", since=70)]
    past = {"accumulatedPastExecutionTimeSeconds": 5}
    assert execution_s(workload(conditions=ran)) == 60
    assert execution_s(workload(conditions=ran, status=past)) == 65
    assert execution_s(workload(conditions=ran[:1])) is None
    assert execution_s(workload(conditions=[condition("Admitted", False), ran[1]])) is None


def test_what_remains_of_the_execution_time_can_be_negative() -> None:
    obj = workload(
        conditions=[condition("Admitted")],
        status={"accumulatedPastExecutionTimeSeconds": 10},
        maximumExecutionTimeSeconds=60,
    )
    assert remaining_s(obj, NOON + 20) == 30
    assert remaining_s(obj, NOON + 80) == -30
    assert remaining_s(workload(conditions=[condition("Admitted")]), NOON) is None
    assert remaining_s(workload(maximumExecutionTimeSeconds=60), NOON) is None


def test_waiting_counts_from_the_last_time_it_was_put_back() -> None:
    assert waited_s(workload(created=5), NOON + 25) == 20
    back = workload(created=5, conditions=[condition("Requeued", False, since=15)])
    assert waited_s(back, NOON + 25) == 10
    assert waited_s(workload(created=50), NOON) == 0


EVICTED = condition("Evicted", True, "Preempted", since=10)


def test_an_eviction_ends_when_the_workload_waits_again() -> None:
    old, new = reserved("train", EVICTED), workload(conditions=[EVICTED])
    wanted = CompletedEviction(cluster_queue="gpus", reason="Preempted", took_s=30)
    assert eviction_end(old, new, NOON + 40) == wanted


@pytest.mark.parametrize(
    ("old", "new"),
    [
        pytest.param(None, workload(conditions=[EVICTED]), id="never seen before"),
        pytest.param(reserved(), reserved("train", EVICTED), id="still holds its quota"),
        pytest.param(reserved(), workload(), id="not evicted"),
        pytest.param(workload(), workload(conditions=[EVICTED]), id="had no quota"),
        pytest.param(
            workload(conditions=[condition("QuotaReserved")]),
            workload(conditions=[EVICTED], status={"admission": admission()}),
            id="its ClusterQueue is unknown",
        ),
    ],
)
def test_other_changes_end_no_eviction(old: Workload | None, new: Workload) -> None:
    assert eviction_end(old, new, NOON + 40) is None


def test_an_eviction_is_counted_for_the_queue_that_had_it() -> None:
    new = workload(conditions=[EVICTED], status={"admission": admission("other")})
    found = eviction_end(reserved(), new, NOON + 10)
    assert found is not None
    assert (found.cluster_queue, found.took_s) == ("gpus", 0)
