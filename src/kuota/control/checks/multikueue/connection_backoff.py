# SPDX-License-Identifier: Apache-2.0
"""The delays between attempts to connect to a worker cluster, and how long an attempt may take."""

from __future__ import annotations

from kuota.api.backoff import Backoff

ATTEMPTS = Backoff(base=5, cap=320)
"""Seconds before the next attempt, by consecutive failures: 5, 10, 20 up to 5 min 20 s."""
ESTABLISHING = Backoff(base=60, cap=600)
"""Seconds that an attempt may take: 1, 2, 4, 8, then 10 minutes.

A server that has to convert many objects needs long for the first list.
"""


def retry_after_s(failures: int) -> float:
    """Return the delay after this many consecutive failures; 0 after none."""
    return float(ATTEMPTS.wait(failures))


def attempt_timeout_s(failures: int) -> float:
    """Return the limit of an attempt that follows this many consecutive failures."""
    return float(ESTABLISHING.wait(failures + 1))
