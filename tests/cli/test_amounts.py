# SPDX-License-Identifier: Apache-2.0
"""Options that are numbers or durations."""

from __future__ import annotations

import click
import pytest
from click.testing import CliRunner

from kuota.cli.amounts import Seconds
from kuota.cli.main import main


@pytest.mark.parametrize(
    ("given", "expected"),
    [("0", 0), ("90", 90), ("90s", 90), ("30m", 1800), ("1h30m", 5400), ("2d", 172_800)],
)
def test_a_duration_is_seconds_or_has_units(given: str, expected: int) -> None:
    assert expected == Seconds().convert(given, None, None)


@pytest.mark.parametrize("given", ["", "m", "5 m", "1.5h", "-1", "5x", "5m3", "1e3", "٣"])
def test_other_text_is_no_duration(given: str) -> None:
    with pytest.raises(click.BadParameter, match="is not a duration"):
        Seconds().convert(given, None, None)


def test_a_duration_has_a_minimum() -> None:
    with pytest.raises(click.BadParameter, match="the minimum is 1 s"):
        Seconds(1).convert("0s", None, None)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["run", "--gpus", "1.5", "--", "x"], "'1.5' is not a valid integer"),
        (["run", "--time-limit", "soon", "--", "x"], "'soon' is not a duration"),
        (["logs", "--since", "x", "pod"], "'x' is not a duration"),
        (["up", "--idle-below", "much"], "'much' is not a valid number"),
    ],
)
def test_messages_name_what_is_expected(arguments: list[str], message: str) -> None:
    result = CliRunner().invoke(main, arguments)
    assert 2 == result.exit_code
    assert message in result.output
