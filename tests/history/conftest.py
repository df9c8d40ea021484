# SPDX-License-Identifier: Apache-2.0
"""Databases for tests of the history."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from history import postgres
from kuota.history.address import Address, PostgresDatabase, SqliteFile
from kuota.history.connection import SCHEMA, connected


@pytest.fixture(scope="session")
def postgres_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PostgresDatabase]:
    if postgres.programs() is None:
        pytest.skip("PostgreSQL is not installed (apt-get install postgresql)")
    with postgres.server(tmp_path_factory.mktemp("postgres")) as found:
        yield found


@pytest.fixture(params=["sqlite", pytest.param("postgres", marks=pytest.mark.slow)])
def address(request: pytest.FixtureRequest, tmp_path: Path) -> Address:
    """An empty database of either kind."""
    if request.param == "sqlite":
        return SqliteFile(str(tmp_path / "history"))
    found: PostgresDatabase = request.getfixturevalue("postgres_server")
    connection = connected(found, writes=True)
    connection.change(f"DROP SCHEMA IF EXISTS {SCHEMA} CASCADE")
    connection.close()
    return found
