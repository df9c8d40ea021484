# SPDX-License-Identifier: Apache-2.0
"""The name that the workload of a job gets."""

from __future__ import annotations

import hashlib

LONGEST = 253
LONGEST_SHORT = 63
_HASH = 5


def workload_name(
    kind: str, group: str, owner: str, uid: str, extra: str = "", *, short: bool = False
) -> str:
    """The same for the same job, and different for another of the same name.

    `extra` tells workloads of one job apart. `short` is the gate ShortWorkloadNames, which makes
    the name fit into a label.
    """
    parts = [kind, group, owner, uid, *([extra] if extra else [])]
    digest = hashlib.sha1("\n".join(parts).encode(), usedforsecurity=False).hexdigest()
    room = (LONGEST_SHORT if short else LONGEST) - _HASH - 1
    return f"{f'{kind.lower()}-{owner}'[:room]}-{digest[:_HASH]}"
