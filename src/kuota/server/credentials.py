# SPDX-License-Identifier: Apache-2.0
"""Authenticates bearer tokens: those of the token file, and those of service accounts."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from datetime import datetime

from .auth import Roles
from .requests import User
from .service_account_tokens import PREFIX, ServiceAccountTokens
from .store import Store
from .tokens import TokenFile, Tokens
from .unix_users import unix_user


class ServerTokens:
    """All tokens of a server. `tokens` are those of the token file; without one, nobody has one."""

    def __init__(
        self,
        store: Store,
        roles: Roles,
        clock: Callable[[], datetime],
        tokens: Tokens | TokenFile | None = None,
    ) -> None:
        self.tokens = tokens if tokens is not None else Tokens()
        self.service_accounts = ServiceAccountTokens(store, roles, clock, self._current)

    def user(self, token: str) -> User | None:
        """The user with this token; None if it is not valid."""
        if token.startswith(PREFIX):
            return self.service_accounts.user(token)
        return self.tokens.user(token)

    def _current(self, name: str, uid: str) -> Iterator[User]:
        """The present users of that name: with a token, or on the Unix socket."""
        yield from self.tokens.named(name)
        if uid.isascii() and uid.isdigit():
            found = unix_user(int(uid), os.getuid())
            if found.name == name:
                yield found
