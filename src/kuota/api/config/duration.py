# SPDX-License-Identifier: Apache-2.0
"""Parses and formats durations as Kubernetes does ("1m0s", "1h30m", "100ms")."""

from __future__ import annotations

import re
from fractions import Fraction

MICROSECOND = 1_000
MILLISECOND = 1_000_000
SECOND = 1_000_000_000
MINUTE = 60 * SECOND
HOUR = 60 * MINUTE

_UNITS = {
    "ns": 1,
    "us": MICROSECOND,
    "µs": MICROSECOND,
    "μs": MICROSECOND,
    "ms": MILLISECOND,
    "s": SECOND,
    "m": MINUTE,
    "h": HOUR,
}
_PART = re.compile(r"([0-9]+\.?[0-9]*|\.[0-9]+)(ns|us|µs|μs|ms|s|m|h)")
_WHOLE = re.compile(rf"([-+]?)(0|(?:{_PART.pattern})+)")
_LIMIT = 2**63


class Duration(int):
    """A duration in whole nanoseconds, which may be negative. `str()` formats it as Go does."""

    @classmethod
    def parse(cls, text: str) -> Duration:
        """Parse a duration in Go's syntax. Raises ValueError for any other text, including ""."""
        whole = _WHOLE.fullmatch(text)
        if not whole:
            raise ValueError(f"{text!r} is not a duration such as 30s, 5m or 1h30m")
        parts = _PART.findall(whole[2])
        total = sum(int(Fraction(number.rstrip(".")) * _UNITS[unit]) for number, unit in parts)
        if not -_LIMIT <= total < _LIMIT:
            raise ValueError(f"{text!r} is longer than a duration can be (about 292 years)")
        return cls(-total if whole[1] == "-" else total)

    @property
    def seconds(self) -> float:
        return self / SECOND

    def __str__(self) -> str:
        size = abs(self)
        sign = "-" if self < 0 else ""
        if size < SECOND:
            return sign + _below_a_second(size)
        hours, rest = divmod(size, HOUR)
        minutes, rest = divmod(rest, MINUTE)
        text = f"{_decimal(rest, SECOND)}s"
        if hours or minutes:
            text = f"{minutes}m{text}"
        return sign + (f"{hours}h{text}" if hours else text)

    def __repr__(self) -> str:
        return f"Duration({self})"


def _below_a_second(size: int) -> str:
    if size == 0:
        return "0s"
    for unit, scale in (("ms", MILLISECOND), ("µs", MICROSECOND)):
        if size >= scale:
            return f"{_decimal(size, scale)}{unit}"
    return f"{size}ns"


def _decimal(size: int, scale: int) -> str:
    """Return `size / scale` without trailing zeros. The result is exact for powers of ten."""
    whole, part = divmod(size, scale)
    digits = str(part).zfill(len(str(scale)) - 1).rstrip("0") if part else ""
    return f"{whole}.{digits}" if digits else str(whole)
