# SPDX-License-Identifier: Apache-2.0
"""Deletes directories of ended pods, in a process of its own.

Their content belongs to users, who may have made it huge, deeper than any recursion, or full of
links. The process follows no links, and uses as little memory for a deep directory as for a flat
one: it moves directories up before it empties them. Used by the server of shims, so it imports
almost nothing.
"""

from __future__ import annotations

import itertools
import os
from contextlib import suppress

_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


def delete_content(folder: str) -> None:
    """Delete everything in the directory. No process may use its content.

    What cannot be deleted remains, and the next call tries again.
    """
    top = os.open(folder, _FOLDER)
    numbers = itertools.count()
    pending = os.listdir(top)
    while pending:
        with suppress(OSError):
            pending += _emptied(top, pending.pop(), numbers)
    os.close(top)


def _emptied(top: int, name: str, numbers: itertools.count[int]) -> list[str]:
    """Delete one entry of `top`. Returns the directories in it, which are entries of `top` now."""
    moved: list[str] = []
    try:
        below = _opened(top, name)
    except OSError:
        os.unlink(name, dir_fd=top)
        return moved
    try:
        os.fchmod(below, 0o700)
        for entry in os.listdir(below):
            try:
                os.unlink(entry, dir_fd=below)
            except OSError:
                fresh = f"{os.getpid()}-{next(numbers)}"
                with suppress(OSError):
                    os.rename(entry, fresh, src_dir_fd=below, dst_dir_fd=top)
                    moved.append(fresh)
    finally:
        os.close(below)
    with suppress(OSError):
        os.rmdir(name, dir_fd=top)
    return moved


def _opened(top: int, name: str) -> int:
    """A descriptor of the directory. Its owner may have taken all permissions from it."""
    try:
        return os.open(name, _FOLDER, dir_fd=top)
    except PermissionError:
        if os.geteuid() == 0:
            raise  # A file system that denies root access. Root must not follow links.
        os.chmod(name, 0o700, dir_fd=top)
        return os.open(name, _FOLDER, dir_fd=top)
