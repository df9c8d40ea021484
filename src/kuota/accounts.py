# SPDX-License-Identifier: Apache-2.0
"""Looks up the users of this machine."""

from __future__ import annotations

import os
import pwd


def own_home(uid: int) -> str:
    """The home directory of the user, or "" if there is none that belongs to the user.

    System accounts often name a directory of root, such as / or /usr/sbin.
    """
    try:
        home = pwd.getpwuid(uid).pw_dir
        owner = os.stat(home).st_uid
    except (KeyError, OSError):
        return ""
    return home if uid != 0 and owner == uid and home.startswith("/") and home != "/" else ""
