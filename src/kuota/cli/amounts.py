# SPDX-License-Identifier: Apache-2.0
"""Types of options for numbers and durations, whose messages name what is expected."""

from __future__ import annotations

import re
from typing import Any

import click

_PART = re.compile(r"([0-9]{1,9})([smhd])")
_DURATION = re.compile(rf"[0-9]{{1,9}}|({_PART.pattern})+")
_UNIT_S = {"s": 1, "m": 60, "h": 3600, "d": 86_400}


class Integer(click.IntRange):
    """An integer of a range."""

    name = "integer"


class Number(click.FloatRange):
    """A number of a range."""

    name = "number"


class Seconds(click.ParamType[int]):
    """A number of seconds, or a duration such as 90s, 30m, 2h or 1h30m. It is at least `least`."""

    name = "duration"

    def __init__(self, least: int = 0) -> None:
        self._least = least

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        if isinstance(value, int):
            return value
        if _DURATION.fullmatch(value) is None:
            self.fail(
                f"'{value}' is not a duration; write seconds, or for example 90s, 30m or 1h30m",
                param,
                ctx,
            )
        parts = _PART.findall(value)
        total = sum(int(n) * _UNIT_S[unit] for n, unit in parts) if parts else int(value)
        if total < self._least:
            self.fail(f"'{value}' is too short; the minimum is {self._least} s", param, ctx)
        return total
