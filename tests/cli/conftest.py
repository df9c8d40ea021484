# SPDX-License-Identifier: Apache-2.0
"""Fixtures for tests of commands that talk to a server."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from cli.cluster import Cluster, cluster_in


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    with cluster_in(tmp_path) as made:
        yield made
