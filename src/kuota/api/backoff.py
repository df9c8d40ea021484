# SPDX-License-Identifier: Apache-2.0
"""Exponential backoff. The caller adds jitter."""

from __future__ import annotations

from .base import Struct


class Backoff(Struct):
    """Delays that grow by a factor, by default 2, from `base` to `cap`, in the caller's unit."""

    base: int
    cap: int
    factor: float = 2

    def wait(self, attempt: int) -> int:
        """Return the delay before this attempt.

        Attempts count from 1. There is no delay before an attempt below 1.
        """
        if attempt <= 0:
            return 0
        wait: float = self.base
        for _ in range(attempt - 1):
            longer = wait * self.factor
            if wait >= self.cap or longer <= wait:
                break
            wait = longer
        return self.cap if wait >= self.cap else int(wait)
