# SPDX-License-Identifier: Apache-2.0
"""A machine for each test."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from up.machine import Machine, running


@pytest.fixture
def machine() -> Iterator[Machine]:
    """With two pretend GPUs."""
    with running("--gpus", "2") as found:
        yield found
