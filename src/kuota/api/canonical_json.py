# SPDX-License-Identifier: Apache-2.0
"""JSON with sorted fields, in a time that no order of the fields makes quadratic.

The sort of msgspec takes quadratic time for some orders: 60,000 fields in ascending order followed
by a smaller one take seconds. Clients choose the fields of objects and their order.
"""

from __future__ import annotations

from typing import Any

import msgspec

_LARGE = 16 << 10
"""Texts below this size have so few fields that every order is sorted in milliseconds."""
_plain = msgspec.json.Encoder()
_sorting = msgspec.json.Encoder(order="deterministic")


def canonical_json(value: Any) -> bytes:
    """The JSON text of a value. Equal objects have equal texts, whatever the order of fields."""
    text = _plain.encode(value)
    if len(text) < _LARGE:
        return _sorting.encode(value)
    return _plain.encode(_sorted(msgspec.json.decode(text)))


def _sorted(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _sorted(value[name]) for name in sorted(value)}
    return [_sorted(each) for each in value] if isinstance(value, list) else value
