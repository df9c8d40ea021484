# SPDX-License-Identifier: Apache-2.0
"""The names of the Workloads of jobs, and of their variants."""

from __future__ import annotations

import hashlib

from kuota.api.kueue import GROUP

LONGEST = 253
LONGEST_SHORT = 63
_HASH = 5


def workload_name(
    kind: str, group: str, owner: str, uid: str, extra: str = "", *, short: bool = False
) -> str:
    """Return the Workload's name: stable for one job, different for another with the same name.

    `extra` distinguishes workloads of one job. `short` is the gate ShortWorkloadNames, which makes
    the name fit into a label.
    """
    parts = [kind, group, owner, uid, *([extra] if extra else [])]
    return _hashed(f"{kind.lower()}-{owner}", parts, short)


def variant_name(parent: str, uid: str, flavor: str, *, short: bool = False) -> str:
    """Return the name of the variant of a workload for one flavor."""
    base = parent.rpartition("-")[0] or parent
    return _hashed(f"{base}-variant-{flavor}", ["Workload", GROUP, parent, uid, flavor], short)


def _hashed(prefix: str, parts: list[str], short: bool) -> str:
    digest = hashlib.sha1("\n".join(parts).encode(), usedforsecurity=False).hexdigest()
    room = (LONGEST_SHORT if short else LONGEST) - _HASH - 1
    return f"{prefix[:room]}-{digest[:_HASH]}"
