# SPDX-License-Identifier: Apache-2.0
"""A private PostgreSQL server for tests, on a socket in a folder of its own."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from kuota.history.address import PostgresDatabase

_PLACES = ("/usr/lib/postgresql/*/bin/initdb", "/usr/local/bin/initdb", "/usr/bin/initdb")


def programs() -> Path | None:
    """Return the folder of PostgreSQL's programs; None if it is not installed."""
    root = Path("/")
    found = sorted(each for place in _PLACES for each in root.glob(place.lstrip("/")))
    named = shutil.which("initdb")
    if named:
        found.append(Path(named))
    return next(
        (each.parent for each in reversed(found) if (each.parent / "pg_ctl").exists()), None
    )


@contextmanager
def server(folder: Path) -> Iterator[PostgresDatabase]:
    """Run a server, as the user postgres if this is root, which it refuses to run as."""
    bin_ = programs()
    assert bin_ is not None
    # The path of a socket is limited to about 100 characters.
    place = Path(tempfile.mkdtemp(prefix="pg", dir="/tmp"))
    user = {"user": "postgres", "group": "postgres", "extra_groups": ()} if not os.getuid() else {}
    if user:
        shutil.chown(place, "postgres")
    store = place / "db"

    def run(*command: str) -> None:
        subprocess.run(command, check=True, cwd=place, capture_output=True, **user)  # type: ignore[call-overload]

    options = f"-c listen_addresses= -c unix_socket_directories={place} -c fsync=off"
    try:
        run(str(bin_ / "initdb"), "-D", str(store), "-A", "trust", "-U", "kuota", "--no-sync")
        run(
            str(bin_ / "pg_ctl"),
            "-D",
            str(store),
            "-w",
            "-l",
            str(place / "log"),
            "-o",
            options,
            "start",
        )
        try:
            yield PostgresDatabase(str(place), 5432, "postgres", "kuota", "", "disable")
        finally:
            run(str(bin_ / "pg_ctl"), "-D", str(store), "-m", "immediate", "stop")
    finally:
        shutil.rmtree(place, ignore_errors=True)
