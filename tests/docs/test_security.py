# SPDX-License-Identifier: Apache-2.0
"""Every test that SECURITY.md names exists."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]


def named_tests(text: str) -> list[tuple[str, str]]:
    """Return file and function of each `file::test`; `::test` belongs to the file before it."""
    found, file = [], ""
    for path, name in re.findall(r"`(tests/[\w/]+\.py)?::(\w+)`", text):
        file = path or file
        found.append((file, name))
    return found


def test_every_test_that_security_md_names_exists() -> None:
    tests = named_tests((ROOT / "SECURITY.md").read_text())
    assert len(tests) > 50
    missing = [
        f"{file}::{name}"
        for file, name in tests
        if not re.search(rf"def {name}\(", (ROOT / file).read_text())
    ]
    assert missing == []
