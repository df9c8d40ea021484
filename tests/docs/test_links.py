# SPDX-License-Identifier: Apache-2.0
"""Every link in the documentation leads to an existing page and heading."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from docs.pages import ROOT, pages

LINK = re.compile(r"\]\((?!https?:)([^)#\s]*)(?:#([^)\s]+))?\)")
HEADING = re.compile(r"^#+ (.+)$", re.MULTILINE)


def anchors(page: Path) -> set[str]:
    """The ids that Markdown gives to the headings of a page."""
    titles = HEADING.findall(page.read_text(encoding="utf-8"))
    plain = (re.sub(r"[^\w\s-]", "", each).strip().lower() for each in titles)
    return {re.sub(r"[\s-]+", "-", each) for each in plain}


@pytest.mark.parametrize("page", [*pages(), "CONTRIBUTING.md", "SECURITY.md", "ARCHITECTURE.md"])
def test_links_lead_somewhere(page: str) -> None:
    here = ROOT / page
    for target, heading in LINK.findall(here.read_text(encoding="utf-8")):
        there = (here.parent / target).resolve() if target else here
        assert there.exists(), f"{page}: no {target}"
        assert not heading or heading in anchors(there), f"{page}: no heading {heading} in {there}"
