# SPDX-License-Identifier: Apache-2.0
"""Compiled schemas: pruning, defaulting and validation."""

from __future__ import annotations

from typing import Any

import pytest

from kuota.api.base import Json
from kuota.api.faults import ErrorType
from kuota.api.structure import Cleaning, Compiler, filled, value_faults
from kuota.api.structure.node import QUANTITY_PATTERN

SCHEMA: Json = {
    "type": "object",
    "properties": {
        "count": {"type": "integer", "default": 3, "minimum": 1},
        "inner": {"type": "object", "default": {}, "properties": {"on": {"type": "boolean"}}},
        "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
        "gone": {"type": "string", "nullable": True},
        "list": {
            "type": "array",
            "items": {"type": "object", "properties": {"a": {"type": "string"}}},
        },
    },
}


NODE = Compiler().node(SCHEMA)


def test_cleaning_drops_what_is_unknown_and_says_where() -> None:
    cleaning = Cleaning()
    value = {
        "count": 2,
        "x": 1,
        "inner": {"on": True, "y": 2},
        "free": {"z": 3},
        "list": [{"b": 1}],
    }
    cleaned = cleaning.clean(value, NODE)
    assert {"count": 2, "inner": {"on": True}, "free": {"z": 3}, "list": [{}]} == cleaned
    assert ["x", "inner.y", "list[0].b"] == [each.path for each in cleaning.unknown]
    assert 1 == value["x"]


def test_cleaning_shares_what_is_fine() -> None:
    value = {"count": 2, "free": {"z": 3}}
    assert Cleaning().clean(value, NODE) is value


def test_null_is_absent_unless_the_schema_allows_it() -> None:
    assert {"gone": None} == Cleaning().clean({"count": None, "gone": None}, NODE)


def test_cleaning_reports_wrong_types_and_takes_whole_floats() -> None:
    cleaning = Cleaning()
    assert {"count": 2} == Cleaning().clean({"count": 2.0}, NODE)
    cleaning.clean({"count": True, "inner": [], "list": {}}, NODE)
    assert ["count", "inner", "list"] == [fault.path for fault in cleaning.mistyped]


def test_defaults_are_filled_in_from_outside_in() -> None:
    assert {"count": 3, "inner": {}} == filled({}, NODE)
    value = {"count": 1, "inner": {"on": True}}
    assert filled(value, NODE) is value


@pytest.mark.parametrize(
    ("schema", "good", "bad"),
    [
        ({"type": "string", "enum": ["a"]}, "a", "b"),
        ({"type": "string", "pattern": "^a+$"}, "aa", "ab"),
        ({"type": "string", "minLength": 1, "maxLength": 2}, "ab", "abc"),
        ({"type": "integer", "minimum": 1, "maximum": 2}, 2, 3),
        ({"type": "array", "minItems": 1}, [1], []),
        (
            {"type": "array", "items": {"type": "string"}, "x-kubernetes-list-type": "set"},
            ["a"],
            ["a", "a"],
        ),
        ({"type": "object", "maxProperties": 1}, {"a": 1}, {"a": 1, "b": 2}),
        ({"anyOf": [{"type": "integer"}, {"type": "string"}]}, 1, []),
        ({"oneOf": [{"required": ["a"]}, {"required": ["b"]}]}, {"a": 1}, {"a": 1, "b": 2}),
        ({"not": {"required": ["a"]}}, {}, {"a": 1}),
        ({"type": "integer", "format": "int32"}, 5, 2**40),
        ({"type": "integer", "minimum": 1, "exclusiveMinimum": True}, 2, 1),
        ({"type": "integer", "maximum": 1, "exclusiveMaximum": True}, 0, 1),
        ({"type": "integer", "multipleOf": 3}, 6, 7),
        ({"type": "string", "pattern": "^a[$]$|^b$"}, "a$", "b\n"),
        ({"type": "string", "format": "date-time"}, "2026-01-02T03:04:05Z", "2026-01-02"),
        ({"allOf": [{"minimum": 1}, {"maximum": 3}]}, 2, 4),
        ({"x-kubernetes-int-or-string": True, "pattern": QUANTITY_PATTERN}, "500m", "much"),
        ({"type": "array", "maxItems": 1}, [1], [1, 2]),
        ({"type": "object", "minProperties": 1}, {"a": 1}, {}),
    ],
)
def test_limits_are_enforced(schema: Json, good: Any, bad: Any) -> None:
    assert [] == value_faults(good, Compiler().node(schema))
    assert 1 == len(value_faults(bad, Compiler().node(schema)))


STRICT = Compiler().node(
    {
        "type": "object",
        "required": ["name"],
        "properties": {
            "name": {"type": "string", "maxLength": 3, "pattern": "^[a-z]*$"},
            "mode": {"type": "string", "enum": ["A", "B"]},
            "labels": {"type": "object", "additionalProperties": {"type": "string"}},
            "ports": {
                "type": "array",
                "x-kubernetes-list-type": "map",
                "x-kubernetes-list-map-keys": ["port", "protocol"],
                "items": {
                    "type": "object",
                    "required": ["port"],
                    "properties": {"port": {"type": "integer"}, "protocol": {"type": "string"}},
                },
            },
        },
    }
)


def test_all_faults_are_reported_at_once_each_with_its_path_and_remedy() -> None:
    port = {"port": 80, "protocol": "TCP"}
    value = {"mode": "C", "labels": {"a/b": 1}, "ports": [port, port, {}, None]}
    assert [
        ("name", ErrorType.REQUIRED, "set it: a string is expected"),
        ("mode", ErrorType.NOT_SUPPORTED, "use one of: A, B"),
        ("labels[a/b]", ErrorType.TYPE_INVALID, 'put it in quotes: "1"'),
        ("ports[2].port", ErrorType.REQUIRED, "set it: a whole number is expected"),
        ("ports[3]", ErrorType.TYPE_INVALID, ""),
        ("ports[1]", ErrorType.DUPLICATE, "rename it or remove it"),
    ] == [(each.path, each.type, each.fix) for each in value_faults(value, STRICT)]


def test_a_string_breaks_each_limit_separately() -> None:
    found = value_faults({"name": "ABCD"}, STRICT)
    assert [ErrorType.TOO_LONG, ErrorType.INVALID] == [each.type for each in found]


def test_a_field_of_the_wrong_type_with_an_enum_lists_the_options() -> None:
    [fault] = value_faults({"name": "a", "mode": 1}, STRICT)
    assert (ErrorType.TYPE_INVALID, "use one of: A, B") == (fault.type, fault.fix)


def test_what_was_stored_before_is_not_checked_again() -> None:
    labels: Json = {"a": 1}
    old = {"name": "a", "labels": labels}
    assert [] == value_faults({"name": "b", "labels": labels}, STRICT, old)
    found = value_faults({"name": "b", "labels": dict(labels)}, STRICT, old)
    assert ["labels[a]"] == [each.path for each in found]


def test_a_recursive_type_contains_itself() -> None:
    tree = {"properties": {"child": {"$ref": "#/components/schemas/Tree"}}, "type": "object"}
    compiler = Compiler(lambda: {"Tree": tree})
    node = compiler.named("Tree")
    assert node.fields["child"] is node
    cleaning = Cleaning()
    cleaning.clean({"child": {"child": {"x": 1}}}, node)
    assert ["child.child.x"] == [each.path for each in cleaning.unknown]


def test_a_pattern_that_python_cannot_read_binds_nothing() -> None:
    assert [] == value_faults("a", Compiler().node({"type": "string", "pattern": r"\\pL("}))
