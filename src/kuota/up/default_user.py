# SPDX-License-Identifier: Apache-2.0
"""Chooses the user that runs pods which name none, for a control plane that runs as root."""

from __future__ import annotations

import pwd
from collections.abc import Mapping

import msgspec

SUDO_UID = "SUDO_UID"
"""Set by sudo: the uid of the user who invoked it."""
DEDICATED = ("kuota", "nobody")
"""Unprivileged accounts, in order of preference. Every Linux distribution has the last one."""
NOBODY_UID = 65534


class Account(msgspec.Struct, frozen=True):
    """A user of this machine. `name` is the uid as text if the machine has no name for it."""

    uid: int
    name: str


def default_user(environ: Mapping[str, str]) -> Account:
    """The user who invoked sudo, otherwise a dedicated unprivileged account. Never root."""
    invoking = environ.get(SUDO_UID, "")
    if invoking.isascii() and invoking.isdigit() and int(invoking) != 0:
        return account(int(invoking))
    for name in DEDICATED:
        try:
            found = pwd.getpwnam(name)
        except KeyError:
            continue
        if found.pw_uid != 0:
            return Account(found.pw_uid, name)
    return account(NOBODY_UID)


def account(uid: int) -> Account:
    """The account with this uid, whether or not the machine knows a name for it."""
    try:
        return Account(uid, pwd.getpwuid(uid).pw_name)
    except KeyError:
        return Account(uid, str(uid))
