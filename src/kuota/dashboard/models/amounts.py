# SPDX-License-Identifier: Apache-2.0
"""Amounts of resources, as text and as numbers for charts. Pure."""

from __future__ import annotations

from functools import lru_cache

from kuota.api.quantity import QuantityError, as_float
from kuota.api.rules.report import integer
from kuota.view.topology import amount_text

from ..shapes import Amount

_UNLIMITED = float(2**63 - 1)


@lru_cache(maxsize=4096)
def amount(words: str) -> Amount:
    """Return a quantity with its value. One that is unlimited has a very large value."""
    try:
        return Amount(text=words, value=as_float(words))
    except QuantityError:
        return Amount(text=words, value=_UNLIMITED)


def node_amount(units: int, resource: str) -> Amount:
    """Return an amount in the engine's units, as nodes and domains show it."""
    return amount(amount_text(units, resource))


def percent(used: float, total: float) -> int:
    """Return the used part of the total, from 0 to 100."""
    return min(100, max(0, round(100 * used / total))) if total else 0


def number(value: object) -> int:
    """Return an integer of an object; 0 if it is absent or something else."""
    return integer(value) or 0
