# SPDX-License-Identifier: Apache-2.0
"""Chooses the server: the embedded one, or with KUOTA_KUBE=1 a real one (`make test-kube`)."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from cluster import ground
from cluster.kube_install import installed
from cluster.kube_server import KubeServer
from cluster.stage import StageRunner

REAL = bool(os.environ.get("KUOTA_KUBE"))
collect_ignore_glob = [] if REAL else ["test_kube_*.py"]


@pytest.fixture(scope="session")
def kube(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KubeServer]:
    """A real API server for all tests."""
    with installed(tmp_path_factory.mktemp("kube")) as server:
        yield server


@pytest.fixture
def on_stage(request: pytest.FixtureRequest) -> StageRunner:
    """Tells a story on the server of this run."""
    if REAL:
        return StageRunner(ground.real(request.getfixturevalue("kube")))
    return StageRunner(ground.embedded)
