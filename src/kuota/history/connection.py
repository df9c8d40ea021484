# SPDX-License-Identifier: Apache-2.0
"""Connections to the database of the history, alike for SQLite and PostgreSQL.

Statements have `?` for parameters. They run in no transaction unless one was begun.
"""

from __future__ import annotations

import os
import sqlite3
import ssl
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Protocol

from .address import Address, PostgresDatabase, SqliteFile

TIMEOUT_S = 10.0
"""How long a connection may take, and how long a statement waits for the server."""
SCHEMA = "kuota_history"
"""The schema of all tables in PostgreSQL."""

Rows = Sequence[Sequence[Any]]


class HistoryUnavailable(Exception):
    """The database cannot be reached, read or written. The message states the reason."""


class DatabaseConnection(Protocol):
    """One connection. All methods raise HistoryUnavailable."""

    def rows(self, statement: str, *parameters: object) -> Rows: ...

    def change(self, statement: str, *parameters: object) -> int:
        """Run a statement, and return how many rows it changed."""

    def begin(self) -> None:
        """Begin a transaction that writes."""

    def lock_schema(self) -> None:
        """Wait until no other process changes the tables. Ends with the transaction."""

    def version(self) -> int:
        """Return the version of the tables; 0 if there are none."""

    def set_version(self, version: int) -> None: ...

    def close(self) -> None: ...


def connected(address: Address, *, writes: bool) -> DatabaseConnection:
    """Open a connection. A file is created if it is to be written."""
    if isinstance(address, SqliteFile):
        return SqliteConnection(address.path, writes=writes)
    return PostgresConnection(address)


class SqliteConnection:
    """A connection to a file, which may be used in any thread, but in one at a time."""

    def __init__(self, path: str, *, writes: bool) -> None:
        with _reported(path):
            if writes:
                os.close(os.open(path, os.O_RDWR | os.O_CREAT, 0o600))
            mode = "rw" if writes else "ro"
            uri = f"file:{_escaped(path)}?mode={mode}"
            self._db = sqlite3.connect(
                uri, uri=True, isolation_level=None, check_same_thread=False, timeout=TIMEOUT_S
            )
        if writes:
            self.rows("PRAGMA journal_mode = WAL")
            self.change("PRAGMA synchronous = NORMAL")

    def rows(self, statement: str, *parameters: object) -> Rows:
        with _reported("the history"):
            return self._db.execute(statement, parameters).fetchall()

    def change(self, statement: str, *parameters: object) -> int:
        with _reported("the history"):
            return self._db.execute(statement, parameters).rowcount

    def begin(self) -> None:
        self.change("BEGIN IMMEDIATE")

    def lock_schema(self) -> None:
        """The transaction itself is the lock."""

    def version(self) -> int:
        ((found,),) = self.rows("PRAGMA user_version")
        return int(found)

    def set_version(self, version: int) -> None:
        self.change(f"PRAGMA user_version = {version:d}")

    def close(self) -> None:
        self._db.close()


class PostgresConnection:
    """A connection to a server, which may be used in any thread, but in one at a time."""

    def __init__(self, address: PostgresDatabase) -> None:
        with _reported(str(address)):
            self._db = _driver().connect(
                user=address.user,
                password=address.password or None,
                database=address.database,
                timeout=TIMEOUT_S,
                ssl_context=_tls(address),
                application_name="kuota-history",
                **_place(address),
            )
            self._db.autocommit = True
        self.change(f"SET search_path TO {SCHEMA}")
        self.change(f"SET statement_timeout = {int(TIMEOUT_S * 1000)}")

    def rows(self, statement: str, *parameters: object) -> Rows:
        with _reported("the history"):
            found: Rows = self._executed(statement, parameters).fetchall()
            return found

    def change(self, statement: str, *parameters: object) -> int:
        with _reported("the history"):
            return int(self._executed(statement, parameters).rowcount)

    def begin(self) -> None:
        self.change("BEGIN")

    def lock_schema(self) -> None:
        self.rows("SELECT pg_advisory_xact_lock(hashtext(?))", SCHEMA)

    def version(self) -> int:
        ((table,),) = self.rows("SELECT to_regclass(?)", f"{SCHEMA}.version")
        if table is None:
            return 0
        found = self.rows("SELECT version FROM version")
        return int(found[0][0]) if found else 0

    def set_version(self, version: int) -> None:
        self.change("CREATE TABLE IF NOT EXISTS version (version INTEGER NOT NULL)")
        self.change("DELETE FROM version")
        self.change("INSERT INTO version (version) VALUES (?)", version)

    def close(self) -> None:
        with _reported("the history"):
            self._db.close()

    def _executed(self, statement: str, parameters: Sequence[object]) -> Any:
        cursor = self._db.cursor()
        cursor.execute(statement.replace("?", "%s"), parameters)
        return cursor


def _driver() -> Any:
    try:
        import pg8000.dbapi
    except ImportError:
        raise HistoryUnavailable(
            "PostgreSQL needs the extra postgres: pip install 'kuota[postgres]'"
        ) from None
    return pg8000.dbapi


def _place(address: PostgresDatabase) -> dict[str, object]:
    if address.host.startswith("/"):
        return {"unix_sock": f"{address.host}/.s.PGSQL.{address.port}"}
    return {"host": address.host, "port": address.port}


def _tls(address: PostgresDatabase) -> ssl.SSLContext | None:
    if address.ssl_mode == "disable":
        return None
    context = ssl.create_default_context(cafile=address.ssl_root_cert or None)
    if address.ssl_mode == "require":
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    return context


def _escaped(path: str) -> str:
    return path.replace("%", "%25").replace("?", "%3f").replace("#", "%23")


@contextmanager
def _reported(what: str) -> Iterator[None]:
    """Raise errors of both drivers as HistoryUnavailable."""
    try:
        yield
    except (sqlite3.Error, OSError) as error:
        raise HistoryUnavailable(f"{what}: {error}") from error
    except Exception as error:
        if not _is_postgres_error(error):
            raise
        raise HistoryUnavailable(f"{what}: {_message(error)}") from error


def _is_postgres_error(error: Exception) -> bool:
    return type(error).__module__.partition(".")[0] == "pg8000"


def _message(error: Exception) -> str:
    """Return the message of the server without its internal fields."""
    told = error.args[0] if error.args else error
    return str(told.get("M", told)) if isinstance(told, dict) else str(told)
