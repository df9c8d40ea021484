# SPDX-License-Identifier: Apache-2.0
"""Chooses the server: the embedded one, or with KUOTA_KUBE=1 a real one (`make test-kube`)."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from cluster import ground
from cluster.kube_install import install_crds
from cluster.kube_server import KubeServer, programs
from cluster.stage import Told

REAL = bool(os.environ.get("KUOTA_KUBE"))
collect_ignore_glob = [] if REAL else ["test_kube_*.py"]


@pytest.fixture(scope="session")
def kube(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KubeServer]:
    """A real API server with Kueue's kinds and Kubernetes' own controllers, for all tests."""
    server = KubeServer(Path(tmp_path_factory.mktemp("kube")), programs())
    try:
        server.start()
        asyncio.run(install_crds(server.connection()))
        server.run("kube-controller-manager")
        yield server
    finally:
        server.close()


@pytest.fixture
def told(request: pytest.FixtureRequest) -> Told:
    """Tells a story on the server of this run."""
    if REAL:
        return Told(ground.real(request.getfixturevalue("kube")))
    return Told(ground.embedded)
