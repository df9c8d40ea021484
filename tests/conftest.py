# SPDX-License-Identifier: Apache-2.0
"""Settings for all tests: property tests use the same examples in every run.

`HYPOTHESIS_PROFILE=explore pytest …` searches for new ones.
"""

from __future__ import annotations

import os

import pytest
from hypothesis import settings

# A busy machine is no fault of an example, so none has a deadline.
settings.register_profile("same", derandomize=True, database=None, deadline=None)
settings.register_profile("explore", derandomize=False, deadline=None)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "same"))


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--long", action="store_true", help="repeat attacks and faults many times (tests/attack)"
    )


@pytest.fixture
def long_run(request: pytest.FixtureRequest) -> bool:
    """Whether to repeat attacks and faults as often as docs/reliability.md reports."""
    return bool(request.config.getoption("--long"))
