# SPDX-License-Identifier: Apache-2.0
"""When a workload that lost its quota may queue again, and how often that has happened.

One instant serves all who delay a workload, so it is only ever moved later.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime, timedelta

from kuota.api.backoff import Backoff
from kuota.api.workload import AdmissionCheckState, RequeueState

from .conditions import stamp


def retry_at(checks: Iterable[AdmissionCheckState] | None) -> datetime | None:
    """The instant that the most patient check in Retry asks to wait for; None if none does."""
    return max(
        (
            each.last_transition_time + timedelta(seconds=each.requeue_after_seconds)
            for each in checks or ()
            if each.state == "Retry" and each.last_transition_time and each.requeue_after_seconds
        ),
        default=None,
    )


def delayed(state: RequeueState | None, until: datetime, *, counted: bool = False) -> RequeueState:
    """The state of a workload that waits until then at least; `counted` counts one more try."""
    before = state or RequeueState()
    later = before.requeue_at is None or before.requeue_at < until
    return RequeueState(
        count=(before.count or 0) + 1 if counted else before.count,
        requeue_at=until if later else before.requeue_at,
    )


def backed_off(
    state: RequeueState | None, backoff_s: Backoff, now: float, jitter: float = 0.0
) -> RequeueState:
    """The state after one more failed start: the wait doubles with each.

    `jitter` is a part of the wait that is added to it, for the caller to draw.
    """
    tries = ((state.count if state is not None else None) or 0) + 1
    until = stamp(now + backoff_s.wait(tries) * (1 + jitter))
    return delayed(state, until, counted=True)
