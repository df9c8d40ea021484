# SPDX-License-Identifier: Apache-2.0
"""The mutation tester without mutants: ignored code and the report."""

from __future__ import annotations

from pathlib import Path

import pytest

import mutants

ROW = "| `engine/a.py` | `if a ¦ b:` | `if a & b:` | equivalent: both are booleans |"


def mutant(before: str, after: str) -> mutants.Mutant:
    return mutants.Mutant("engine/a.py", "", before, after)


def test_a_survivor_is_found_in_the_table_by_its_line() -> None:
    known = mutants.verdicts(f"# Mutants\n\n{ROW}\n")
    assert known[mutant("    if a | b:", "    if a & b:").key] == "equivalent: both are booleans"
    assert mutant("if a | b:", "if a and b:").key not in known


def test_a_survivor_is_printed_as_a_row_of_the_table() -> None:
    row = mutant("    if a | b:", "    if a & b:").row("equivalent: both are booleans")
    assert row == ROW


@pytest.mark.parametrize(
    ("code", "changed"),
    [
        ("def f(a: int | None) -> str | None: ...", "def f(a: int & None) -> str & None: ..."),
        ("a: int | None = 1", "a: int & None = 1"),
    ],
)
def test_a_change_of_annotations_is_no_mutant(code: str, changed: str) -> None:
    assert mutants._meaning(code) == mutants._meaning(changed)


def test_code_that_does_something_else_or_is_no_code_has_another_meaning() -> None:
    assert mutants._meaning("a = 1") != mutants._meaning("a = 2")
    assert mutants._meaning("a = = 1") is None


def test_the_listed_survivors_are_lines_that_exist() -> None:
    """A row whose line is gone from the module says nothing any more."""
    for module, before, _ in mutants.verdicts(Path("docs/mutants.md").read_text()):
        lines = Path("src/kuota", module).read_text().splitlines()
        assert before in [mutants._cell(line) for line in lines], (module, before)
