# SPDX-License-Identifier: Apache-2.0
"""The list of modules matches the docstrings, and the rest of the page is not changed."""

from __future__ import annotations

from pathlib import Path

import pytest

from modules import BEGIN, END, listing, with_listing


def test_each_module_is_listed_with_the_first_line_of_its_docstring(tmp_path: Path) -> None:
    (tmp_path / "tree.py").write_text('"""Quota: what is left | lent.\n\nMore."""\n')
    (tmp_path / "__init__.py").write_text("")
    assert (
        "".join(listing(tmp_path)).splitlines()[-2]
        == "| `tree.py` | Quota: what is left \\| lent. |"
    )
    assert "__init__" not in "".join(listing(tmp_path))


def test_only_what_stands_between_the_marks_is_replaced() -> None:
    page = f"before\n{BEGIN}old\n{END}after\n"
    assert with_listing(page, "new\n") == f"before\n{BEGIN}new\n{END}after\n"


def test_a_page_without_marks_is_refused() -> None:
    with pytest.raises(SystemExit, match="marks"):
        with_listing("before\n", "new\n")
