# SPDX-License-Identifier: Apache-2.0
"""Bearer tokens and who holds them, from a file in the form of Kubernetes' token file.

Each line is `token,user,uid,"group1,group2"`; uid and groups may be left out. Everyone with a token
is also in the group `system:authenticated`.
"""

from __future__ import annotations

import csv
import hashlib
import hmac
import os
import secrets
from collections.abc import Iterable
from pathlib import Path

from .requests import ADMINS, User

EVERYBODY = "system:authenticated"
OWNER = "admin"
"""Whoever runs the server."""


class TokenError(ValueError):
    """A token file that cannot be used. The message names the line."""


class Tokens:
    """Knows users by their token. Only digests are kept, and all are compared every time."""

    def __init__(self, users: Iterable[tuple[str, User]] = ()) -> None:
        self._users = [(_digest(token), user) for token, user in users]

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Tokens:
        with open(path, encoding="utf-8", newline="") as file:
            rows = [row for row in csv.reader(file) if row and not row[0].startswith("#")]
        return cls([_entry(row, at) for at, row in enumerate(rows, start=1)])

    def user(self, token: str) -> User | None:
        """Whose token that is, None when nobody's. Takes as long whoever it is."""
        wanted, found = _digest(token), None
        for digest, user in self._users:
            if hmac.compare_digest(digest, wanted):
                found = user
        return found


def admin_token(path: str | os.PathLike[str]) -> str:
    """The owner's token in the file, which is made with one admin if it is not there.

    The file is for its owner's eyes only.
    """
    place = Path(path)
    if not place.exists():
        line = f'{secrets.token_urlsafe(32)},{OWNER},,"{ADMINS}"\n'
        descriptor = os.open(place, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            file.write(line)
    with open(place, encoding="utf-8", newline="") as file:
        for row in csv.reader(file):
            if len(row) > 1 and row[1].strip() == OWNER:
                return row[0].strip()
    raise TokenError(f"{place}: no token of {OWNER}; add a line `TOKEN,{OWNER},,{ADMINS}`")


def _entry(row: list[str], at: int) -> tuple[str, User]:
    fields = [field.strip() for field in row] + ["", "", ""]
    token, name, uid, groups = fields[0], fields[1], fields[2], fields[3]
    if not token or not name:
        raise TokenError(f"entry {at} of the token file needs a token and a user")
    named = tuple(group.strip() for group in groups.split(",") if group.strip())
    return token, User(name, (*named, EVERYBODY), uid)


def _digest(token: str) -> bytes:
    return hashlib.sha256(token.encode(errors="surrogatepass")).digest()
