# SPDX-License-Identifier: Apache-2.0
"""Violations of the size limits are reported with file, line and limit."""

from __future__ import annotations

from pathlib import Path

from limits import FILE_LINES, FUNCTION_LINES, LICENCE, breaches

SRC = Path("src/kuota/engine/tree.py")
TEST = Path("tests/engine/test_tree.py")


def module(*, function_lines: int = 2, total_lines: int = 0) -> str:
    """A licensed module with one function of the given length, padded to `total_lines`."""
    body = [LICENCE, "def claim():", *["    pass"] * (function_lines - 1)]
    return "\n".join(body + ["x = 1"] * (total_lines - len(body))) + "\n"


def test_a_module_at_the_limits_is_within_them() -> None:
    text = module(function_lines=FUNCTION_LINES, total_lines=FILE_LINES)
    assert list(breaches(SRC, text)) == []


def test_a_missing_licence_line_is_a_breach_at_line_1() -> None:
    (breach,) = breaches(SRC, '"""Quota."""\n')
    assert breach.startswith("src/kuota/engine/tree.py:1: ")
    assert LICENCE in breach


def test_one_line_too_many_in_a_function_is_a_breach_at_its_def() -> None:
    assert list(breaches(SRC, module(function_lines=41))) == [
        "src/kuota/engine/tree.py:2: function claim has 41 lines, limit 40"
    ]


def test_one_line_too_many_in_a_file_is_a_breach_at_that_line() -> None:
    assert list(breaches(SRC, module(total_lines=401))) == [
        "src/kuota/engine/tree.py:401: file has 401 lines, limit 400"
    ]


def test_functions_in_tests_may_be_long_but_files_may_not() -> None:
    assert list(breaches(TEST, module(function_lines=60))) == []
    assert list(breaches(TEST, module(total_lines=401))) == [
        "tests/engine/test_tree.py:401: file has 401 lines, limit 400"
    ]
