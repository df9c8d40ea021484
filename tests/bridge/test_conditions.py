# SPDX-License-Identifier: Apache-2.0
"""Conditions: what counts as a change, transition times, and the length of messages."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bridge.objects import NOON, at, condition, workload
from kuota.bridge.conditions import MAX_MESSAGE, Conditions, shortened


def conditions(*current: dict[str, str], now: float = 60.0) -> Conditions:
    obj = workload(conditions=list(current))
    return Conditions(obj.status.conditions, NOON + now, obj.metadata.generation)


def test_a_new_condition_holds_from_now_and_speaks_of_this_generation() -> None:
    edited = conditions()
    edited.put("QuotaReserved", True, "QuotaReserved", "in gpus")
    assert edited.json() == [
        {
            "type": "QuotaReserved",
            "status": "True",
            "reason": "QuotaReserved",
            "message": "in gpus",
            "lastTransitionTime": at(60),
            "observedGeneration": 3,
        }
    ]


def test_a_change_of_status_moves_the_time_and_keeps_the_place() -> None:
    edited = conditions(condition("QuotaReserved", False), condition("PodsReady"))
    edited.put("QuotaReserved", True, "QuotaReserved", "")
    assert [each["type"] for each in edited.json()] == ["QuotaReserved", "PodsReady"]
    assert edited.json()[0]["lastTransitionTime"] == at(60)


def test_a_change_of_words_does_not_move_the_time() -> None:
    edited = conditions(condition("QuotaReserved", False, "WaitingForQuota", "2 more needed"))
    edited.put("QuotaReserved", False, "WaitingForQuota", "1 more needed")
    assert edited.changed
    assert edited.json()[0]["lastTransitionTime"] == at(0)


def test_saying_the_same_again_changes_nothing() -> None:
    edited = conditions()
    edited.put("QuotaReserved", False, "WaitingForQuota", "2 more needed")
    again = Conditions(
        workload(conditions=edited.json()).status.conditions, NOON + 90, generation=3
    )
    again.put("QuotaReserved", False, "WaitingForQuota", "2 more needed")
    assert not again.changed


def test_a_true_condition_is_lowered_with_what_it_said_behind_a_prefix() -> None:
    edited = conditions(condition("Evicted", True, "Preempted", "made room"))
    edited.lower("Evicted", "QuotaReserved")
    (lowered,) = edited.json()
    assert (lowered["status"], lowered["reason"]) == ("False", "QuotaReserved")
    assert lowered["message"] == "Previously: made room"


@pytest.mark.parametrize("current", [[], [condition("Evicted", False, "QuotaReserved")]])
def test_what_is_not_true_is_not_lowered(current: list[dict[str, str]]) -> None:
    edited = conditions(*current)
    edited.lower("Evicted", "QuotaReserved")
    assert not edited.changed


def test_the_age_of_a_condition_is_in_whole_seconds() -> None:
    edited = conditions(condition("Admitted", since=50), now=60.9)
    assert edited.age_s("Admitted") == 10
    assert edited.age_s("Finished") == 0


def test_an_empty_message_is_written_since_the_schema_requires_one() -> None:
    edited = conditions(condition("PodsReady"))
    assert edited.json()[0]["message"] == ""


def test_a_message_beyond_the_limit_is_cut_in_the_condition() -> None:
    edited = conditions()
    edited.put("QuotaReserved", False, "WaitingForQuota", "x" * (MAX_MESSAGE + 1))
    message = edited.json()[0]["message"]
    assert len(message) == MAX_MESSAGE
    assert message.endswith("x ...")


@given(st.text(), st.integers(min_value=8, max_value=64))
def test_a_text_is_cut_to_its_limit_in_bytes_and_only_when_it_must(text: str, limit: int) -> None:
    short = shortened(text, limit)
    assert len(short.encode()) <= limit
    assert short == text or short.endswith(" ...")
    assert (short == text) == (len(text.encode()) <= limit)
