# SPDX-License-Identifier: Apache-2.0
"""An empty store and server for each test."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from kuota.server.store import Store
from server.served import Local, Served


@pytest.fixture
def store() -> Iterator[Store]:
    store = Store.open(":memory:")
    yield store
    store.close()


@pytest.fixture
def path(tmp_path: Path) -> str:
    """Where a store may be."""
    return str(tmp_path / "kuota.db")


@pytest.fixture
def api() -> Iterator[Local]:
    """Called directly."""
    local = Local()
    yield local
    local.close()


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """Over HTTPS, for kubectl."""
    served = Served(tmp_path_factory.mktemp("cluster"))
    yield served
    served.close()
