# SPDX-License-Identifier: Apache-2.0
"""What counts as reading a part of a case."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from conformance.recorder import Inputs, convert, matches, recorded, unread, whole


def left(read: Callable[[Any], Any]) -> list[str]:
    """The paths that are unread after `read`."""
    record = recorded({"a": {"b": 1, "c": [{"d": 2}, {"e": 3}]}, "f": None})
    read(record)
    return [".".join(path) for path in unread(record)]


@pytest.mark.parametrize(
    ("read", "unread_paths"),
    [
        (lambda r: None, ["a", "f"]),
        (lambda r: r["f"], ["a"]),
        (lambda r: r.get("f"), ["a"]),
        (lambda r: "f" in r, ["a", "f"]),
        (lambda r: list(r), ["a", "f"]),
        (lambda r: bool(r["a"]), ["a.b", "a.c", "f"]),
        (lambda r: r["a"]["c"][0]["d"], ["a.b", "a.c.1.e", "f"]),
        (lambda r: [each.get("d") for each in r["a"]["c"]], ["a.b", "a.c.1.e", "f"]),
        (lambda r: dict(r), ["a.b", "a.c"]),
        (lambda r: {**r}, ["a.b", "a.c"]),
        (lambda r: r | {}, ["a.b", "a.c"]),
        (lambda r: {} | r, ["a.b", "a.c"]),
        (lambda r: list(r.values()), ["a.b", "a.c"]),
        (lambda r: r.copy(), ["a.b", "a.c"]),
        (lambda r: whole(r["a"]), ["f"]),
        (copy.deepcopy, []),
        (lambda r: convert(r, dict[str, Any]), []),
        (lambda r: msgspec.convert(r, dict[str, Any]), ["a", "f"]),
    ],
)
def test_only_what_is_looked_at_is_read(
    read: Callable[[Any], Any], unread_paths: list[str]
) -> None:
    assert left(read) == unread_paths


def test_the_whole_of_a_record_is_plain_json() -> None:
    plain = whole(recorded({"a": [{"b": 1}]}))
    assert plain == {"a": [{"b": 1}]}
    assert (type(plain), type(plain["a"]), type(plain["a"][0])) == (dict, list, dict)


def test_an_input_that_is_absent_reads_as_an_empty_value() -> None:
    inputs = Inputs({"a": [1]})
    assert (inputs["nodes"], inputs.get("nodes"), list(inputs["a"])) == ({}, None, [1])
    assert [*inputs["nodes"], *inputs["nodes"].items()] == []
    assert list(unread(inputs)) == []


@pytest.mark.parametrize(
    ("path", "pattern", "matched"),
    [
        ("inputs.a", "inputs.a", True),
        ("inputs.a.b", "inputs.a", True),
        ("inputs.a", "inputs.a.b", False),
        ("inputs.a.0.c", "inputs.a.*.c", True),
        ("inputs.a.c", "inputs.a.*.c", False),
        ("expected.a.0.b.message", "expected.**.message", True),
        ("expected.message", "expected.**.message", True),
        ("inputs.message", "expected.**.message", False),
    ],
)
def test_a_pattern_covers_a_path_and_what_lies_below_it(
    path: str, pattern: str, matched: bool
) -> None:
    assert matches(tuple(path.split(".")), tuple(pattern.split("."))) is matched
