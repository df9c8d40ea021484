# SPDX-License-Identifier: Apache-2.0
"""`pytest tests/scenarios --rewrite` accepts the current results."""

from __future__ import annotations

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--rewrite", action="store_true", help="write new answers into the stories")
