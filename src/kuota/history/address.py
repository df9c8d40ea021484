# SPDX-License-Identifier: Apache-2.0
"""Where a history is stored: a SQLite file, or a PostgreSQL database."""

from __future__ import annotations

from urllib.parse import parse_qsl, unquote, urlsplit

import msgspec

from kuota.loopback import is_loopback

SSL_MODES = ("disable", "require", "verify-full")
_SCHEMES = ("postgresql", "postgres")
_PORT = 5432


class InvalidAddress(ValueError):
    """An address that names no database. The message contains no password."""


class SqliteFile(msgspec.Struct, frozen=True):
    """A file on this machine."""

    path: str

    def __str__(self) -> str:
        return self.path


class PostgresDatabase(msgspec.Struct, frozen=True):
    """A database of a PostgreSQL server. A host that begins with / is the folder of its socket."""

    host: str
    port: int
    database: str
    user: str
    password: str
    ssl_mode: str
    ssl_root_cert: str = ""

    def __str__(self) -> str:
        return f"postgresql://{self.user}@{self.host}:{self.port}/{self.database}"


Address = SqliteFile | PostgresDatabase


def parsed(text: str) -> Address:
    """Parse a path, `sqlite:///path` or `postgresql://user:password@host/database`.

    Without `?sslmode=`, connections to other machines verify the certificate of the server.
    Raises InvalidAddress.
    """
    if text.startswith("/"):
        return SqliteFile(text)
    try:
        parts = urlsplit(text)
        port = parts.port or _PORT
    except ValueError:
        raise InvalidAddress(f"the port or host is invalid; {_USE}") from None
    if parts.scheme == "sqlite" and not parts.netloc and len(parts.path) > 1:
        return SqliteFile(unquote(parts.path))
    if parts.scheme not in _SCHEMES:
        raise InvalidAddress(_USE)
    query = dict(parse_qsl(parts.query))
    host = query.pop("host", "") or parts.hostname or ""
    own = host.startswith("/") or is_loopback(host)
    mode = query.pop("sslmode", "disable" if own else "verify-full")
    found = PostgresDatabase(
        host=host,
        port=port,
        database=unquote(parts.path.lstrip("/")),
        user=unquote(parts.username or ""),
        password=unquote(parts.password or ""),
        ssl_mode=mode,
        ssl_root_cert=query.pop("sslrootcert", ""),
    )
    faults = [*_faults(found), *(f"parameter {each} is unknown" for each in query)]
    if faults:
        raise InvalidAddress("; ".join([*faults, _USE]))
    return found


def _faults(found: PostgresDatabase) -> list[str]:
    missing = [name for name in ("host", "database", "user") if not getattr(found, name)]
    faults = [f"the {name} is missing" for name in missing]
    if found.ssl_mode not in SSL_MODES:
        faults.append(f"sslmode must be one of {', '.join(SSL_MODES)}")
    return faults


_USE = (
    "use an absolute path, sqlite:///path or postgresql://user:password@host:5432/database"
    "?sslmode=verify-full&sslrootcert=FILE"
)
