# SPDX-License-Identifier: Apache-2.0
"""Errors of the machine that go away: a lack of space, descriptors, memory or processes. Pure."""

from __future__ import annotations

import errno

TEMPORARY = frozenset(
    {
        errno.ENOSPC,
        errno.EDQUOT,
        errno.EROFS,
        errno.EMFILE,
        errno.ENFILE,
        errno.ENOMEM,
        errno.ENOBUFS,
        errno.EAGAIN,
    }
)


def is_temporary(error: OSError) -> bool:
    """Whether the machine lacks something at the moment. It is not the fault of a Job."""
    return error.errno is None or error.errno in TEMPORARY
