# SPDX-License-Identifier: Apache-2.0
"""Durations in the syntax of Go."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kuota.api.config import Duration


@pytest.mark.parametrize(
    ("written", "printed"),
    [
        ("0", "0s"),
        ("1m", "1m0s"),
        ("100s", "1m40s"),
        ("1h", "1h0m0s"),
        ("1.5h", "1h30m0s"),
        ("1500ms", "1.5s"),
        ("1h0.25s", "1h0m0.25s"),
        ("1500us", "1.5ms"),
        ("2µs", "2µs"),
        ("-1ns", "-1ns"),
        ("+5s", "5s"),
        (".5s", "500ms"),
    ],
)
def test_a_duration_is_printed_as_go_prints_it(written: str, printed: str) -> None:
    assert str(Duration.parse(written)) == printed


@pytest.mark.parametrize("text", ["", "5", "s", ".s", "1 s", "1d", "1e3s", "5m-3s", "9999999h"])
def test_anything_else_is_not_a_duration(text: str) -> None:
    with pytest.raises(ValueError, match="duration"):
        Duration.parse(text)


def test_seconds_are_a_float() -> None:
    assert Duration.parse("1m0.5s").seconds == 60.5


@settings(max_examples=100)
@given(st.integers(-(2**62), 2**62))
def test_what_is_printed_reads_back_as_the_same_duration(ns: int) -> None:
    assert Duration.parse(str(Duration(ns))) == ns
