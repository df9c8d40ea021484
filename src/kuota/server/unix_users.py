# SPDX-License-Identifier: Apache-2.0
"""The users of the Unix socket, who are identified by uid."""

from __future__ import annotations

import grp
import os
import pwd
import time
from functools import lru_cache

from .requests import ADMINS, User
from .tokens import EVERYBODY

MEMBERSHIP_S = 10.0
"""How long the Unix groups of a uid are cached."""


def unix_user(uid: int, owner: int) -> User:
    """The user with this uid. Root is an admin.

    If another user runs the server, all pods run as this user, so its uid proves nothing: it has
    the rights that everyone has, and uses the token in its kubeconfig.
    """
    return _unix_user(uid, owner, int(time.monotonic() / MEMBERSHIP_S))


@lru_cache(256)
def _unix_user(uid: int, owner: int, period: int) -> User:
    """Look up the user in the current period: groups may change."""
    try:
        entry = pwd.getpwuid(uid)
        name = entry.pw_name
        found = [_group_name(each) for each in os.getgrouplist(name, entry.pw_gid)]
    except (KeyError, OSError):
        name, found = f"uid:{uid}", []
    # A Unix group with the name of a system group must not grant its permissions.
    groups = [each for each in found if not each.startswith("system:")]
    if uid == 0:
        groups.append(ADMINS)
    elif uid == owner:
        groups = []
    return User(name, (*groups, EVERYBODY), str(uid))


def _group_name(gid: int) -> str:
    try:
        return grp.getgrgid(gid).gr_name
    except KeyError:
        return f"gid:{gid}"
