# SPDX-License-Identifier: Apache-2.0
"""Changes of conditions: what is kept, what is replaced, and the transition times."""

from __future__ import annotations

from datetime import UTC, datetime

import msgspec

from kuota.api.base import Condition, Json, condition
from kuota.api.core import Pod

MAX_MESSAGE = 32 * 1024
"""The maximum size of a condition's message, in bytes."""

PREVIOUSLY = "Previously: "
"""The prefix of the message of a condition that is no longer true."""


def stamp(now: float) -> datetime:
    """Return the time as Kubernetes writes it: UTC, whole seconds."""
    return datetime.fromtimestamp(int(now), UTC)


def timestamp(now: float) -> str:
    """Return the same as text."""
    return stamp(now).isoformat().replace("+00:00", "Z")


def time_s(value: object) -> float | None:
    """Return a Kubernetes timestamp in seconds; None if it is absent or malformed."""
    try:
        return datetime.fromisoformat(value).timestamp() if isinstance(value, str) else None
    except (ValueError, OverflowError):
        return None


def shortened(text: str, limit: int) -> str:
    """Cut the text to `limit` bytes. A text that was cut ends in an ellipsis."""
    raw = text.encode()
    if len(raw) <= limit:
        return text
    return raw[: limit - 4].decode(errors="ignore") + " ..."


class Conditions:
    """The conditions of one object, edited in place. A new status sets the transition time."""

    def __init__(self, current: list[Condition] | None, now: float, generation: int) -> None:
        self._all = list(current or ())
        self._now_s = now
        self._generation = generation
        self.changed = False

    def get(self, type_: str) -> Condition | None:
        return condition(self._all, type_)

    def true(self, type_: str) -> bool:
        found = self.get(type_)
        return found is not None and found.status == "True"

    def age_s(self, type_: str) -> int:
        """Return the whole seconds since the condition's status changed; 0 if unknown."""
        found = self.get(type_)
        since = found.last_transition_time if found is not None else None
        if since is None:
            return 0
        return max(0, int((stamp(self._now_s) - since).total_seconds()))

    def put(
        self, type_: str, status: bool, reason: str, message: str, *, observed: bool = True
    ) -> None:
        """Set a condition. With `observed`, it records the generation."""
        before = self.get(type_)
        text = "True" if status else "False"
        since = None
        if before is not None and before.status == text:
            since = before.last_transition_time
        after = Condition(
            type=type_,
            status=text,
            reason=reason,
            message=shortened(message, MAX_MESSAGE),
            last_transition_time=since or stamp(self._now_s),
            observed_generation=self._generation if observed else 0,
        )
        if after == before:
            return
        self.changed = True
        if before is None:
            self._all.append(after)
        else:
            self._all[self._all.index(before)] = after

    def lower(self, type_: str, reason: str) -> None:
        """Set a true condition to false and keep its message with a prefix."""
        before = self.get(type_)
        if before is not None and before.status == "True":
            self.put(type_, False, reason, f"{PREVIOUSLY}{before.message}")

    def drop(self, type_: str) -> None:
        """Remove a condition."""
        before = self.get(type_)
        if before is not None:
            self.changed = True
            self._all.remove(before)

    def json(self) -> list[Json]:
        """Return all conditions for a patch.

        The API server requires a message, even an empty one.
        """
        return [{"message": "", **msgspec.to_builtins(each)} for each in self._all]


def failed_status(pod: Pod, type_: str, reason: str, message: str, now: float) -> Json:
    """Return the status of a pod that failed for a reason that its kubelet does not report."""
    conditions = Conditions(pod.status.conditions, now, pod.metadata.generation)
    conditions.put(type_, True, reason, message, observed=False)
    return {"phase": "Failed", "conditions": conditions.json()}
