# SPDX-License-Identifier: Apache-2.0
"""Fixtures for all tests of the runner."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from runner.watched import SHIMS


@pytest.fixture(autouse=True, scope="module")
def _no_server_left() -> Iterator[None]:
    yield
    SHIMS.close()
