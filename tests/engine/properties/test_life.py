# SPDX-License-Identifier: Apache-2.0
"""Invariants after every step of any history: quota, usage, and no lost workload."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from hypothesis import given

from engine.properties.lives import Do, Life, Step, lives
from engine.properties.witness import CheckedSimulation
from engine.strategies import SOUND, calm


def played(life: Life) -> Iterator[tuple[CheckedSimulation, Step]]:
    """The witness after each step."""
    witness = CheckedSimulation(life.policy, life.cluster)
    for step in life.steps:
        witness.do(step)
        yield witness, step


@pytest.mark.slow
@given(lives(SOUND))
@calm(80)
def test_every_node_has_the_quota_and_the_usage_of_the_definition(life: Life) -> None:
    for witness, _ in played(life):
        witness.check_numbers()


@pytest.mark.slow
@given(lives(SOUND))
@calm(80)
def test_everyone_is_charged_or_pending_in_one_place_or_held_out_for_a_reason(life: Life) -> None:
    for witness, _ in played(life):
        witness.check_nobody_is_lost()


@pytest.mark.slow
@given(lives(SOUND))
@calm(80)
def test_no_cycle_takes_more_than_quotas_and_limits_allow(life: Life) -> None:
    """In this world victims leave with the decision, so no room counts that they have yet to give.

    A node that was over its limit before, because quota was cut under running work, may stay so but
    not get worse.
    """
    witness = CheckedSimulation(life.policy, life.cluster)
    for step in life.steps:
        before = witness.definition()
        witness.do(Do.CYCLE if step is Do.SETTLE else step)
        if isinstance(step, Do):
            assert [] == witness.definition().overdrawn(before)


@pytest.mark.slow
@given(lives(SOUND))
@calm(80)
def test_whoever_waits_when_the_world_is_at_rest_was_reported_why(life: Life) -> None:
    for witness, step in played(life):
        if step is Do.SETTLE and not witness.restless:
            witness.check_who_waits_knows_why()
