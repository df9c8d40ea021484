# SPDX-License-Identifier: Apache-2.0
"""Conditions of a Workload as they change: what is kept, what is replaced, and since when."""

from __future__ import annotations

from datetime import UTC, datetime

import msgspec

from kuota.api.base import Condition, Json, condition

MAX_MESSAGE = 32 * 1024
"""Bytes of a condition's message that an API server accepts."""


def stamp(now: float) -> datetime:
    """The instant as Kubernetes writes it: UTC, whole seconds."""
    return datetime.fromtimestamp(int(now), UTC)


def shortened(text: str, limit: int) -> str:
    """The text cut to `limit` bytes, ending in an ellipsis when something was cut."""
    raw = text.encode()
    if len(raw) <= limit:
        return text
    return raw[: limit - 4].decode(errors="ignore") + " ..."


class Conditions:
    """The conditions of one object, edited in place. A change of status moves the clock."""

    def __init__(self, current: list[Condition] | None, now: float, generation: int) -> None:
        self._all = list(current or ())
        self._now = stamp(now)
        self._generation = generation
        self.changed = False

    def get(self, type_: str) -> Condition | None:
        return condition(self._all, type_)

    def true(self, type_: str) -> bool:
        found = self.get(type_)
        return found is not None and found.status == "True"

    def put(
        self, type_: str, status: bool, reason: str, message: str, *, observed: bool = True
    ) -> None:
        """Set a condition. `observed` records the generation that it speaks about."""
        before = self.get(type_)
        text = "True" if status else "False"
        moved = before is None or before.status != text
        after = Condition(
            type=type_,
            status=text,
            reason=reason,
            message=shortened(message, MAX_MESSAGE),
            last_transition_time=self._now
            if moved or before is None
            else before.last_transition_time,
            observed_generation=self._generation if observed else 0,
        )
        if after == before:
            return
        self.changed = True
        if before is None:
            self._all.append(after)
        else:
            self._all[self._all.index(before)] = after

    def lower(self, type_: str, reason: str, prefix: str) -> None:
        """Turn a true condition false, keeping what it said behind a prefix."""
        before = self.get(type_)
        if before is not None and before.status == "True":
            self.put(type_, False, reason, f"{prefix}{before.message}")

    def json(self) -> list[Json]:
        listed: list[Json] = msgspec.to_builtins(self._all)
        return listed
