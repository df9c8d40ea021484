# SPDX-License-Identifier: Apache-2.0
"""Every claim of SECURITY.md names a test, and these tests exist."""

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


ADVICE = ("**Not prevented:**", "Start the control plane with", "**Packages with admission check")
"""How lines begin that say what the reader has to do."""


def claims(text: str) -> list[str]:
    """Return the items of lists and the rows of tables, each in one line."""
    body = text.partition("## Attack surface of one machine")[2]
    joined = re.sub(r"\n  +(?!-)", " ", body)
    rows = re.findall(r"^ *(?:- |\| )(.+)", joined, re.MULTILINE)
    titles = ("Attempt |", "Fault |", *ADVICE)
    return [each for each in rows if not each.startswith(titles)]


def test_every_claim_of_security_md_names_a_test() -> None:
    found = claims((ROOT / "SECURITY.md").read_text())
    assert len(found) > 150
    assert [] == [each for each in found if "`tests/" not in each and not each.endswith(":")]


def test_every_dependency_has_a_hash() -> None:
    for file in ROOT.glob("requirements*.lock"):
        joined = file.read_text().replace("\\\n", " ")
        lines = [line for line in joined.splitlines() if line.strip() and line[0] not in "#- "]
        assert lines, file
        assert [] == [line for line in lines if "--hash=sha256:" not in line], file
