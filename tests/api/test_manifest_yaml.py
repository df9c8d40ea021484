# SPDX-License-Identifier: Apache-2.0
"""YAML as kubectl reads it."""

from __future__ import annotations

from typing import Any

import pytest

from kuota.api.faults import Invalid
from kuota.api.manifest_yaml import load_all, scanned


@pytest.mark.parametrize(
    ("word", "value"),
    [
        ("on", True),
        ("y", True),
        ("No", False),
        ("~", None),
        ("", None),
        ("12:30:45", "12:30:45"),
        ("2026-01-01", "2026-01-01"),
        ("0755", 493),
        ("0x1F", 31),
        ("-0b11", -3),
        ("1_000", 1000),
        ("08", 8),
        ("1e3", 1000),
        ("1.5", 1.5),
        ("1.2.3", "1.2.3"),
        ("100m", "100m"),
        ("0x_", "0x_"),
        ("'on'", "on"),
        ("!!str 5", "5"),
        ("!!int '5'", 5),
        ("=", "="),
    ],
)
def test_a_word_means_what_it_means_to_kubectl(word: str, value: Any) -> None:
    found = load_all(f"a: {word}")[0]["a"]
    assert (type(found), found) == (type(value), value)


def test_keys_are_strings() -> None:
    assert load_all("1: a\ny: b\nno: c") == [{"1": "a", "true": "b", "false": "c"}]


def test_merge_keys_bring_in_what_is_not_set() -> None:
    assert load_all("a: &a {c: 1, d: 2}\nb: {<<: *a, d: 3}")[0]["b"] == {"c": 1, "d": 3}


def test_json_is_yaml() -> None:
    assert load_all('{\n\t"a": [1, true, null]\n}') == [{"a": [1, True, None]}]


def test_empty_documents_are_left_out() -> None:
    assert load_all("---\n---\na: 1\n---\n# nothing\n") == [{"a": 1}]


def test_each_field_has_its_line() -> None:
    lines = scanned("a: 1\nspec:\n  list:\n  - c: 1\n    d: 2\n")[0].lines
    assert [lines[path] for path in ("a", "spec.list", "spec.list[0].d")] == [1, 3, 5]


def test_lines_count_from_the_top_of_the_text_not_of_the_document() -> None:
    assert scanned("a: 1\n---\nb: 2\n")[1].lines["b"] == 3


def test_every_key_set_twice_is_reported() -> None:
    with pytest.raises(Invalid) as caught:
        load_all("a: 1\na: 2\nb: {c: 1, c: 2}")
    assert [error.path for error in caught.value.errors] == ["a", "b.c"]


@pytest.mark.parametrize("text", ["a: ]", "a: .inf", "a: !x 1", "[1]", "a: {<<: 1}", "? [a]\n: b"])
def test_what_has_no_meaning_is_refused(text: str) -> None:
    with pytest.raises(Invalid, match="line 1"):
        load_all(text)


def test_an_alias_inside_its_own_anchor_is_refused() -> None:
    with pytest.raises(Invalid, match="without end"):
        load_all("a: &a [*a]")


@pytest.mark.parametrize("depth", [201, 60_000, 400_000])
@pytest.mark.parametrize("form", ["[", "{a: ", "- "])
def test_nesting_does_not_exhaust_the_stack(depth: int, form: str) -> None:
    (found,) = scanned("a: 1\nb:\n  " + form * depth)
    assert ["line 3: is nested too deeply"] == [each.message for each in found.errors]
    assert [] != scanned("[" * 150 + "]" * 150)


def test_aliases_that_multiply_are_refused() -> None:
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 10)}]" for i in range(1, 9)]
    with pytest.raises(Invalid, match="without end"):
        load_all("\n".join(lines))
