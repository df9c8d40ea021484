# SPDX-License-Identifier: Apache-2.0
"""Where the flavor scan of a pending workload resumes, depending on the result of the last one."""

from __future__ import annotations

from kuota.api.gates import Gate

from .assignment import ScanProgress
from .buckets import Pending
from .decisions import Wait, WaitCause
from .policy import Policy

_KEEPS_PROGRESS = frozenset({WaitCause.LOST_RACE, WaitCause.OVERLAP, WaitCause.BETTER_SIBLING})
_CLEARS_PROGRESS = frozenset({WaitCause.GATED, WaitCause.DEFERRED})


def next_progress(pending: Pending, wait: Wait, policy: Policy) -> ScanProgress | None:
    """Return where the next flavor scan starts."""
    if wait.assignment is None:
        return pending.progress
    if wait.why in _CLEARS_PROGRESS:
        return None
    preserved = policy.on(Gate.FlavorFungibilityPreserveScanProgress)
    if wait.why in _KEEPS_PROGRESS and not preserved:
        return None
    return wait.assignment.progress
