# SPDX-License-Identifier: Apache-2.0
"""The canonical text of an object does not depend on the order of its fields, nor does its cost."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from kuota.api.canonical_json import canonical_json


def ordered(count: int) -> dict[str, Any]:
    """Fields in ascending order, followed by a smaller one."""
    return {f"k{at:07}": {"b": at, "a": [at]} for at in range(count)} | {"a": 0}


@pytest.mark.parametrize("count", [3, 2000])
def test_equal_objects_have_equal_texts(count: int) -> None:
    obj = ordered(count)
    turned = dict(reversed(obj.items()))
    assert canonical_json(obj) == canonical_json(turned)
    assert canonical_json(obj).startswith(b'{"a":0,"k0000000":{"a":[0],"b":0}')
    assert obj == msgspec.json.decode(canonical_json(obj))


def test_no_order_of_fields_takes_quadratic_time() -> None:
    # Quadratic time would take minutes.
    assert canonical_json(dict.fromkeys(ordered(300_000))).startswith(b'{"a":null')
