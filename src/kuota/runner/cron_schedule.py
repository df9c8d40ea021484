# SPDX-License-Identifier: Apache-2.0
"""When a CronJob is due. Pure; schedules are read by cronsim, imported when first needed."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta, tzinfo
from itertools import islice
from zoneinfo import ZoneInfo

_WORDS = {
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
    "@monthly": "0 0 1 * *",
    "@weekly": "0 0 * * 0",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@hourly": "0 * * * *",
}
_EVERY = re.compile(r"@every\s+(?:(\d+)h)?(?:(\d+)m)?(?:(\d+)s)?")
_FIELDS = 5


class ScheduleError(ValueError):
    """A schedule or time zone that nobody can follow; the message says why."""


class Schedule:
    """Moments that repeat. All moments are seconds since 1970."""

    def __init__(self, text: str, zone: str = "") -> None:
        self._zone = _zone(zone)
        self._period = _period(text)
        self._text = _WORDS.get(text.strip(), text).replace("?", "*")
        if self._period is None:
            self.after(0.0)

    def after(self, moment: float, start: float = 0.0) -> float | None:
        """The first moment after that one; None when there is none. `@every` counts from start."""
        if self._period is not None:
            return start + (max(0.0, moment - start) // self._period + 1) * self._period
        found = next(_cron(self._text, self._at(moment)), None)
        return None if found is None else found.timestamp()

    def latest(self, since: float, now: float) -> tuple[float, int] | None:
        """The last moment after `since` that is not after `now`, and how many there were.

        None when there was none. Beyond 100 they are not counted further.
        """
        if self._period is not None:
            count = int((now - since) // self._period)
            return (since + count * self._period, count) if count > 0 else None
        just_after = self._at(now) + timedelta(seconds=1)
        moments = _cron(self._text, just_after, reverse=True)
        passed = []
        for moment in islice(moments, 101):
            if moment.timestamp() <= since:
                break
            passed.append(moment.timestamp())
        return (passed[0], len(passed)) if passed else None

    def _at(self, moment: float) -> datetime:
        return datetime.fromtimestamp(int(moment), self._zone)


def _cron(text: str, moment: datetime, *, reverse: bool = False) -> Iterator[datetime]:
    try:
        from cronsim import CronSim, CronSimError
    except ImportError:
        raise ScheduleError("CronJobs need the extra kuota[cron]; install it") from None
    if len(text.split()) != _FIELDS:
        raise ScheduleError(f"schedule {text!r} does not have five fields")
    try:
        return CronSim(text, moment, reverse=reverse)
    except CronSimError as error:
        raise ScheduleError(f"schedule {text!r} cannot be read: {error}") from None


def _period(text: str) -> float | None:
    if not text.strip().startswith("@every"):
        return None
    match = _EVERY.fullmatch(text.strip())
    parts = [int(part or 0) for part in match.groups()] if match else [0]
    if not match or not any(parts):
        raise ScheduleError(f"schedule {text!r} cannot be read: write for example @every 1h30m")
    hours, minutes, seconds = parts
    return float(3600 * hours + 60 * minutes + seconds)


def _zone(name: str) -> tzinfo:
    if not name:
        return UTC
    try:
        return ZoneInfo(name)
    except (KeyError, ValueError, OSError):
        raise ScheduleError(f"time zone {name!r} is not known") from None
