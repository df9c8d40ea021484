# SPDX-License-Identifier: Apache-2.0
"""A real browser, for `make test-browser`. Every page is watched for what must never happen."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from .canned import Canned
from .samples import lab

if TYPE_CHECKING:
    from playwright.sync_api import Browser

    from .watched import Visitor

CHROMIUM = os.environ.get("KUOTA_CHROMIUM", "")
if not CHROMIUM:
    # The libraries that drive a browser are installed by `make test-browser` only.
    collect_ignore_glob = ["test_*.py"]


_FIGURES: list[str] = []


@pytest.fixture
def figures() -> list[str]:
    """Measurements to print after the tests."""
    return _FIGURES


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    for each in _FIGURES:
        terminalreporter.write_line(each)


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    from playwright.sync_api import sync_playwright

    # Chromium's sandbox does not work as root.
    options = ["--no-sandbox"] if not os.geteuid() else []
    with sync_playwright() as driver:
        found = driver.chromium.launch(executable_path=CHROMIUM, args=options)
        yield found
        found.close()


@pytest.fixture
def canned() -> Iterator[Canned]:
    """A server with a small lab."""
    with Canned(lab()).served() as found:
        yield found


@pytest.fixture
def visitor(browser: Browser, canned: Canned) -> Iterator[Visitor]:
    """Somebody at a desk who looks at the small lab."""
    from .watched import visiting

    with visiting(browser, canned.base) as found:
        yield found


@pytest.fixture
def images(tmp_path: Path) -> Path:
    """Where screenshots go: the directory that KUOTA_IMAGES names, or a temporary one."""
    named = os.environ.get("KUOTA_IMAGES", "")
    return Path(named) if named else tmp_path
