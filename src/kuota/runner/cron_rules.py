# SPDX-License-Identifier: Apache-2.0
"""Decides when a CronJob is due and what to do, given its Jobs and the time. Pure.

Schedules are parsed by cronsim, which is imported when first needed.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta, tzinfo
from itertools import islice
from zoneinfo import ZoneInfo

import msgspec

from kuota.api.base import Json
from kuota.api.core import is_finished

from .instants import instant, time_text
from .job_pods import owner
from .job_spec import condition

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
    """An invalid schedule or time zone; the message states the reason."""


class Schedule:
    """A recurring schedule. Times are in seconds since 1970."""

    def __init__(self, text: str, zone: str = "") -> None:
        self._zone = _zone(zone)
        self._period = _period(text)
        self._text = _WORDS.get(text.strip(), text).replace("?", "*")
        if self._period is None:
            self.after(0.0)

    def after(self, moment: float, start: float = 0.0) -> float | None:
        """The first scheduled time after the given one; None if there is none.

        `@every` counts from the start.
        """
        if self._period is not None:
            return start + (max(0.0, moment - start) // self._period + 1) * self._period
        found = next(_cron(self._text, self._at(moment)), None)
        return None if found is None else found.timestamp()

    def latest(self, since: float, now: float) -> tuple[float, int] | None:
        """The last scheduled time after `since` and not after `now`, and the number of such times.

        None if there is none. Counting stops at 100.
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
        raise ScheduleError(f"schedule {text!r} is invalid: {error}") from None


def _period(text: str) -> float | None:
    if not text.strip().startswith("@every"):
        return None
    match = _EVERY.fullmatch(text.strip())
    parts = [int(part or 0) for part in match.groups()] if match else [0]
    if not match or not any(parts):
        raise ScheduleError(f"schedule {text!r} is invalid: write, for example, @every 1h30m")
    hours, minutes, seconds = parts
    return float(3600 * hours + 60 * minutes + seconds)


def _zone(name: str) -> tzinfo:
    if not name:
        return UTC
    try:
        return ZoneInfo(name)
    except (KeyError, ValueError, OSError):
        raise ScheduleError(f"unknown time zone {name!r}") from None


SCHEDULED = "batch.kubernetes.io/cronjob-scheduled-timestamp"
_MANY = 100


class CronEvent(msgspec.Struct, frozen=True):
    reason: str
    message: str
    warning: bool = False


class CronStep(msgspec.Struct, kw_only=True):
    """The next actions, in this order; the status is written last."""

    delete: list[Json] = []
    create: Json | None = None
    status: Json = {}
    retry_at: float | None = None
    events: list[CronEvent] = []


def cron_step(cron: Json, jobs: Sequence[Json], now: float) -> CronStep:
    """The next actions for the CronJob. `jobs` contains all Jobs that it controls."""
    step = CronStep(status=_status(cron, jobs), events=list(_endings(cron, jobs)))
    if cron["metadata"].get("deletionTimestamp"):
        return step
    step.delete = _outlived(cron, jobs)
    spec = cron["spec"]
    try:
        schedule = Schedule(spec.get("schedule") or "", spec.get("timeZone") or "")
    except ScheduleError as error:
        step.events.append(CronEvent("InvalidSchedule", str(error), True))
        return step
    if not spec.get("suspend"):
        _schedule(step, cron, jobs, schedule, now)
        step.retry_at = schedule.after(now, _since(cron))
    return step


def _endings(cron: Json, jobs: Sequence[Json]) -> Iterator[CronEvent]:
    """Events about Jobs that have ended since they were recorded as active."""
    active = {each.get("uid") for each in (cron.get("status") or {}).get("active") or ()}
    for job in jobs:
        if job["metadata"].get("uid") in active and is_finished(job):
            end = "Complete" if condition(job, "Complete") is not None else "Failed"
            words = f"Saw completed job: {_name(job)}, condition: {end}"
            yield CronEvent("SawCompletedJob", words)


def _since(cron: Json) -> float:
    """The time after which scheduled Jobs are due."""
    last = instant((cron.get("status") or {}).get("lastScheduleTime"))
    return last or instant(cron["metadata"].get("creationTimestamp")) or 0.0


def _schedule(
    step: CronStep, cron: Json, jobs: Sequence[Json], schedule: Schedule, now: float
) -> None:
    patience_s = cron["spec"].get("startingDeadlineSeconds")
    since = _since(cron)
    found = schedule.latest(since, now)
    if found is None:
        return
    due, missed = found
    if patience_s is not None and due + patience_s < now:
        words = f"Missed scheduled time to start a job: {time_text(due)}"
        step.events.append(CronEvent("MissSchedule", words, True))
        return
    if patience_s is None and missed > _MANY:
        words = "too many missed start times; the last one is made up for"
        step.events.append(CronEvent("TooManyMissedTimes", words, True))
    name = job_name(cron, due)
    if any(each["metadata"]["name"] == name for each in jobs):
        step.status["lastScheduleTime"] = time_text(due)
        return
    if _may_start(step, cron, jobs):
        step.create = new_job(cron, due)
        step.status["lastScheduleTime"] = time_text(due)


def _may_start(step: CronStep, cron: Json, jobs: Sequence[Json]) -> bool:
    """Whether another Job may start now. Jobs that must be replaced are deleted."""
    running = [each for each in jobs if not is_finished(each)]
    policy = cron["spec"].get("concurrencyPolicy") or "Allow"
    if not running or policy == "Allow":
        return True
    if policy == "Forbid":
        words = "Not starting job because prior execution is running and concurrency is forbidden"
        step.events.append(CronEvent("JobAlreadyActive", words))
        return False
    step.delete.extend(running)
    gone = {each["metadata"].get("uid") for each in running}
    step.status["active"] = [
        each for each in step.status.get("active") or () if each.get("uid") not in gone
    ]
    return True


def job_name(cron: Json, due: float) -> str:
    return f"{cron['metadata']['name']}-{int(due) // 60}"


def new_job(cron: Json, due: float) -> Json:
    """The Job for one scheduled time. Its name makes it unique."""
    template = cron["spec"].get("jobTemplate") or {}
    meta = template.get("metadata") or {}
    notes = {**(meta.get("annotations") or {}), SCHEDULED: time_text(due)}
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {
            "name": job_name(cron, due),
            "namespace": cron["metadata"].get("namespace") or "",
            "labels": dict(meta.get("labels") or {}),
            "annotations": notes,
            "ownerReferences": [owner({**cron, "kind": "CronJob"})],
        },
        "spec": template.get("spec") or {},
    }


def _status(cron: Json, jobs: Sequence[Json]) -> Json:
    """The status with the active Jobs and the last success."""
    status = dict(cron.get("status") or {})
    active = [reference(each) for each in jobs if not is_finished(each)]
    if active:
        status["active"] = sorted(active, key=lambda each: str(each["name"]))
    else:
        status.pop("active", None)
    best = instant(status.get("lastSuccessfulTime")) or 0.0
    for each in jobs:
        end = condition(each, "Complete")
        if end is not None:
            best = max(best, instant(end.get("lastTransitionTime")) or 0.0)
    if best:
        status["lastSuccessfulTime"] = time_text(best)
    return status


def reference(job: Json) -> Json:
    """The reference of a CronJob to an active Job."""
    meta = job["metadata"]
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "name": meta["name"],
        "namespace": meta.get("namespace") or "",
        "uid": meta.get("uid") or "",
    }


def _outlived(cron: Json, jobs: Sequence[Json]) -> list[Json]:
    """Finished Jobs that exceed the history limit, oldest first."""
    found: list[Json] = []
    for type_, field, default in (
        ("Complete", "successfulJobsHistoryLimit", 3),
        ("Failed", "failedJobsHistoryLimit", 1),
    ):
        limit = cron["spec"].get(field)
        keep = default if limit is None else limit
        ended = [each for each in jobs if condition(each, type_) is not None]
        ended.sort(key=lambda each: (str(each["metadata"].get("creationTimestamp")), _name(each)))
        found.extend(ended[: max(0, len(ended) - keep)])
    return found


def _name(job: Json) -> str:
    return str(job["metadata"]["name"])
