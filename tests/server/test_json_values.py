# SPDX-License-Identifier: Apache-2.0
"""The values of JSON are counted without decoding it."""

from __future__ import annotations

import json

import pytest

from kuota.api.status import StatusError
from kuota.server.bodies import check_json_values, values_in


@pytest.mark.parametrize(
    ("text", "count"),
    [
        (b'{"a": [], "b": { }, "c": [1, 2, [3]]}', 3 + 3 + 1),
        (b'["a,b", "\\\\", "\\"[{,", {"k,": "{"}]', 4 + 1),
        (b'{"a":[{},{},[ ]]}', 1 + 3),
        (b"1", 0),
        (b'"[,,,"', 0),
    ],
)
def test_values_of_json_are_counted_as_text(text: bytes, count: int) -> None:
    assert count == values_in(json.loads(text), 100)
    if count:
        check_json_values(text, count)
        with pytest.raises(StatusError):
            check_json_values(text, count - 1)


def test_unterminated_texts_are_counted_in_linear_time() -> None:
    # Each quotation mark began another search for the end, which would take hours.
    check_json_values(b'["' + b'\\"' * 1_400_000 + b"," * 10, 20)
