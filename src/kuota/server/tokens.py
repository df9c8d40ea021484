# SPDX-License-Identifier: Apache-2.0
"""Bearer tokens, in a file in the format of Kubernetes' token file.

Each line is `token,user,uid,"group1,group2"`; uid and groups are optional. A token is stored as
`sha256:` and its digest, so that the file reveals none. A token in plain text is accepted, and
replaced by its digest at the next start. Every user with a token is a member of
`system:authenticated`. A `TokenFile` checks at every request whether the file has
changed, and keeps the previous tokens if it cannot be read.
"""

from __future__ import annotations

import csv
import fcntl
import hashlib
import hmac
import io
import logging
import os
import re
import secrets
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

import msgspec

from .requests import ADMINS, User

EVERYBODY = "system:authenticated"
OWNER = "admin"
"""The user who runs the server."""
LOCK_S = 10.0
"""How long to wait for another process that changes the file."""
_ID_LENGTH = 8
_DIGEST = re.compile(r"sha256:[0-9a-f]{64}")
_log = logging.getLogger(__name__)


class TokenError(ValueError):
    """An invalid token file. The message names the line."""


class Tokens:
    """Users by token. Only digests are kept, and all are compared every time."""

    def __init__(self, users: Iterable[tuple[str, User]] = ()) -> None:
        self._users = [(_stored_digest(token), user) for token, user in users]

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Tokens:
        """The tokens in the file. Raises TokenError, which names the file and the line."""
        return cls(
            (token, User(name, (*_split(groups), EVERYBODY), uid))
            for token, name, uid, groups in _rows(path)
        )

    def __len__(self) -> int:
        return len(self._users)

    def user(self, token: str) -> User | None:
        """The user with this token; None if there is none. Takes constant time."""
        wanted, found = _digest(token), None
        for digest, user in self._users:
            if hmac.compare_digest(digest, wanted):
                found = user
        return found

    def named(self, name: str) -> list[User]:
        """The users of that name, one for each of their tokens."""
        return [user for _, user in self._users if user.name == name]


def admin_token(path: str | os.PathLike[str], current: str = "") -> str:
    """The token of the owner, who keeps `current` if it is valid and otherwise gets a new one.

    Creates the file if it is absent; only the owner can read it. Raises TokenError.
    """
    place = Path(path)
    if place.exists():
        return TokenFile(place).owner_token(current)
    token = secrets.token_urlsafe(32)
    descriptor = os.open(place, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        file.write(_line(_protected(token), OWNER, "", [ADMINS]) + "\n")
    return token


def _stored_digest(field: str) -> bytes:
    """The digest of the token in a field of the file."""
    if _DIGEST.fullmatch(field):
        return bytes.fromhex(field.removeprefix("sha256:"))
    return _digest(field)


def _protected(field: str) -> str:
    """The field with a digest instead of a token in plain text."""
    return f"sha256:{_stored_digest(field).hex()}"


def _digest(token: str) -> bytes:
    return hashlib.sha256(token.encode(errors="surrogatepass")).digest()


class TokenHolder(msgspec.Struct, frozen=True):
    """The holder of a token. `id` identifies the token without revealing it."""

    id: str
    user: str
    uid: str
    groups: tuple[str, ...]


class TokenFile:
    """A token file, which must exist. Only its owner can read it."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self._path = Path(path)
        self._stamp = self._stamped()
        self._tokens = Tokens.load(self._path)

    def user(self, token: str) -> User | None:
        """The current user with this token; None if there is none."""
        self._follow()
        return self._tokens.user(token)

    def named(self, name: str) -> list[User]:
        """The current users of that name, one for each of their tokens."""
        self._follow()
        return self._tokens.named(name)

    def holders(self) -> list[TokenHolder]:
        """All holders, in the order of the file."""
        return [_holder(row) for row in _rows(self._path)]

    def give(self, user: str, groups: Sequence[str] = (), uid: str = "") -> str:
        """Create a token for a user. Raises TokenError for invalid names."""
        _check(user, groups, uid)
        token = secrets.token_urlsafe(32)
        with self._changing() as lines:
            lines.append(_line(_protected(token), user, uid, groups))
        return token

    def owner_token(self, current: str) -> str:
        """The token of the owner: `current` if it is valid, otherwise a new one.

        Replaces all tokens in plain text by their digests. Raises TokenError if the file names no
        owner.
        """
        with self._changing() as lines:
            rows = [row for line in lines if (row := _row(line)) is not None]
            owned = [row[0] for row in rows if row[1] == OWNER]
            if not owned:
                raise TokenError(
                    f"{self._path} contains no token of {OWNER}. Restore it from a copy, add the "
                    f"line `TOKEN,{OWNER},,{ADMINS}`, or delete the file: then a new {OWNER} token "
                    "is created, and all other tokens are revoked"
                )
            plain = [each for each in owned if not _DIGEST.fullmatch(each)]
            if not (current and _digest(current) in map(_stored_digest, owned)):
                current = plain[0] if plain else secrets.token_urlsafe(32)
                if not plain:
                    lines.append(_line(_protected(current), OWNER, "", [ADMINS]))
            lines[:] = map(_protected_line, lines)
        return current

    def revoke(self, user: str = "", id: str = "") -> list[TokenHolder]:
        """Remove the tokens of a user, or the one with this id. Returns those removed."""
        gone: list[TokenHolder] = []
        with self._changing() as lines:
            for line in list(lines):
                row = _row(line)
                holder = _holder(row) if row is not None else None
                if holder is not None and (holder.id == id if id else holder.user == user):
                    gone.append(holder)
                    lines.remove(line)
        return gone

    @contextmanager
    def _changing(self) -> Iterator[list[str]]:
        """The lines of the file for modification; then it is replaced atomically by one writer."""
        lock = _locked(self._path.with_suffix(".lock"))
        try:
            before = _text(self._path).splitlines()
            lines = list(before)
            yield lines
            if lines != before:
                self._replace("".join(f"{line}\n" for line in lines))
        finally:
            os.close(lock)

    def _replace(self, text: str) -> None:
        temporary = self._path.with_suffix(".new")
        descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(self._path)

    def _follow(self) -> None:
        stamp = self._stamped()
        if stamp == self._stamp:
            return
        # Recorded first, so that an unreadable file is not read again until it changes.
        self._stamp = stamp
        try:
            self._tokens = Tokens.load(self._path)
        except (OSError, TokenError) as error:
            _log.error("the tokens stay as they were: %s", error)
        else:
            if not len(self._tokens):
                _log.error("%s contains no tokens: nobody can use one", self._path)

    def _stamped(self) -> tuple[int, int, int]:
        try:
            found = self._path.stat()
        except OSError:
            return 0, 0, 0
        return found.st_mtime_ns, found.st_ino, found.st_size


def _protected_line(line: str) -> str:
    row = _row(line)
    if row is None or not row[0] or _DIGEST.fullmatch(row[0]):
        return line
    token, user, uid, groups = row
    return _line(_protected(token), user, uid, _split(groups))


def _locked(path: Path) -> int:
    """The lock of the token file. Raises TokenError if another process holds it for long.

    Only the owner can open it: whoever can open a file can lock it.
    """
    with suppress(FileNotFoundError):
        if path.stat().st_mode & 0o077:
            # An earlier version created it readable, so anybody may hold it.
            path.unlink()
    lock = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    deadline = time.monotonic() + LOCK_S
    while True:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() > deadline:
                os.close(lock)
                raise TokenError(
                    f"{path} is locked by another process; wait for other `kuota token` commands"
                ) from None
            time.sleep(0.05)
        else:
            return lock


def _text(path: str | os.PathLike[str]) -> str:
    try:
        return Path(path).read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise TokenError(
            f"{path} is not UTF-8 text at byte {error.start}. Restore it from a copy, or delete "
            f"it: then a new {OWNER} token is created, and all other tokens are revoked"
        ) from None


def _rows(path: str | os.PathLike[str]) -> list[list[str]]:
    """The entries of the file; see `_row`. Raises TokenError."""
    rows = []
    for number, line in enumerate(_text(path).splitlines(), start=1):
        try:
            row = _row(line)
        except csv.Error as error:
            raise _bad_line(path, number, str(error)) from None
        if row is None:
            continue
        if not row[0] or not row[1] or not "".join(row).isprintable():
            raise _bad_line(path, number, "it needs a token and a user")
        rows.append(row)
    return rows


def _bad_line(path: str | os.PathLike[str], number: int, why: str) -> TokenError:
    return TokenError(
        f"{path}, line {number}: {why}. A line is TOKEN,USER,UID,GROUPS; correct or delete it"
    )


def _row(line: str) -> list[str] | None:
    """Token, user, uid and groups of a line; None if it is empty. Raises csv.Error."""
    if not line.strip() or line.startswith("#"):
        return None
    fields = [field.strip() for field in next(csv.reader([line]))]
    return [*fields, "", "", ""][:4]


def _split(groups: str) -> tuple[str, ...]:
    return tuple(group.strip() for group in groups.split(",") if group.strip())


def _holder(row: list[str]) -> TokenHolder:
    token, user, uid, groups = row
    return TokenHolder(_stored_digest(token).hex()[:_ID_LENGTH], user, uid, _split(groups))


def _line(token: str, user: str, uid: str, groups: Sequence[str]) -> str:
    text = io.StringIO()
    csv.writer(text, lineterminator="").writerow([token, user, uid, ",".join(groups)])
    return text.getvalue()


def _check(user: str, groups: Sequence[str], uid: str) -> None:
    for name in (user, *groups):
        if not name or name != name.strip() or not name.isprintable() or "," in name:
            raise TokenError(
                f"{name!r} is not a valid name: it must not contain commas or surrounding spaces"
            )
    if user.startswith("system:"):
        raise TokenError(f"{user}: names with the prefix system: are reserved")
    for name in groups:
        if name.startswith("system:") and name != ADMINS:
            raise TokenError(f"{name}: groups with the prefix system: are reserved")
    if uid and not (uid.isascii() and uid.isdigit()):
        raise TokenError(f"{uid!r} is not a uid")
