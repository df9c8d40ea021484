# SPDX-License-Identifier: Apache-2.0
"""How long to wait before trying again. Chance is left to the caller: no jitter here."""

from __future__ import annotations

from .base import Struct


class Backoff(Struct):
    """Doubling waits (or whatever the factor is), from `base` to `cap`, in the caller's unit."""

    base: int
    cap: int
    factor: float = 2

    def wait(self, attempt: int) -> int:
        """The wait before the attempt of that number; the first is 1, before that there is none."""
        if attempt <= 0:
            return 0
        wait: float = self.base
        for _ in range(attempt - 1):
            longer = wait * self.factor
            if wait >= self.cap or longer <= wait:
                break
            wait = longer
        return self.cap if wait >= self.cap else int(wait)
