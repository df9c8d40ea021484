# SPDX-License-Identifier: Apache-2.0
"""A running machine for attacks."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from up.machine import Machine, running


@pytest.fixture
def machine() -> Iterator[Machine]:
    """With four pretend GPUs, more than any team's quota."""
    with running("--gpus", "4") as found:
        yield found
