# SPDX-License-Identifier: Apache-2.0
"""Validates Jobs and CronJobs, and updates of Jobs."""

from __future__ import annotations

import re
from collections.abc import Iterator
from zoneinfo import ZoneInfo

from kuota.api.base import Json
from kuota.api.faults import FieldError, forbidden, invalid, required

from .columns import dig, listed, mapped
from .native_defaults import CONTROLLER_UID
from .pod_faults import missing, template_faults, unsupported

_RESTART = ("OnFailure", "Never")
_NOT_NEGATIVE = (
    "parallelism",
    "completions",
    "activeDeadlineSeconds",
    "backoffLimit",
    "backoffLimitPerIndex",
    "maxFailedIndexes",
    "ttlSecondsAfterFinished",
)
_CHOICES = {
    "completionMode": ("NonIndexed", "Indexed"),
    "podReplacementPolicy": ("TerminatingOrFailed", "Failed"),
}
_FIXED = (
    "selector",
    "completionMode",
    "podFailurePolicy",
    "backoffLimitPerIndex",
    "managedBy",
    "successPolicy",
    "manualSelector",
)
_CRON = (
    ("minute", 0, 59, ""),
    ("hour", 0, 23, ""),
    ("day of the month", 1, 31, ""),
    ("month", 1, 12, "JANFEBMARAPRMAYJUNJULAUGSEPOCTNOVDEC"),
    ("day of the week", 0, 7, "SUNMONTUEWEDTHUFRISAT"),
)
_RANGE = re.compile(
    r"(?:(?P<all>[*?])|(?P<first>\d{1,2}|[A-Z]{3})(?:-(?P<last>\d{1,2}|[A-Z]{3}))?)"
    r"(?:/(?P<step>\d{1,2}))?"
)
_EVERY = re.compile(r"@every\s+(?=.*[1-9])(?:\d+h)?(?:\d+m)?(?:\d+s)?", re.ASCII)
_INDEXES = re.compile(r"[0-9]{1,10}(-[0-9]{1,10})?(,[0-9]{1,10}(-[0-9]{1,10})?)*")
_MOST_INDEX_BYTES = 64 << 10
_MOST_RULES = 20
_MACROS = ("@yearly", "@annually", "@monthly", "@weekly", "@daily", "@midnight", "@hourly")


def job_faults(job: Json) -> Iterator[FieldError]:
    spec = mapped(job.get("spec"))
    yield from job_spec_faults(spec, "spec")
    labels = dig(spec, "template", "metadata", "labels")
    wanted = mapped(dig(spec, "selector", "matchLabels"))
    if not dig(spec, "selector"):
        yield missing("spec.selector")
    elif any(mapped(labels).get(key) != value for key, value in wanted.items()):
        message = "`selector` does not match template `labels`"
        yield invalid("spec.template.metadata.labels", labels, message)
    elif not spec.get("manualSelector") and wanted.get(CONTROLLER_UID) != job["metadata"]["uid"]:
        yield invalid("spec.selector", wanted, "`selector` not auto-generated")


def job_spec_faults(spec: Json, path: str) -> Iterator[FieldError]:
    for field in _NOT_NEGATIVE:
        if (spec.get(field) or 0) < 0:
            yield invalid(f"{path}.{field}", spec[field], "must be 0 or more")
    for field, known in _CHOICES.items():
        if field in spec and spec[field] not in known:
            yield unsupported(f"{path}.{field}", spec[field], known)
    yield from _indexed_faults(spec, path)
    yield from _policy_faults(spec, path)
    yield from template_faults(mapped(spec.get("template")), f"{path}.template", _RESTART)


def _indexed_faults(spec: Json, path: str) -> Iterator[FieldError]:
    if spec.get("completionMode") == "Indexed":
        if spec.get("completions") is None:
            yield required(f"{path}.completions", "when completion mode is Indexed")
        yield from _success_faults(spec, path)
        return
    for field in ("backoffLimitPerIndex", "successPolicy"):
        if spec.get(field) is not None:
            yield invalid(f"{path}.{field}", spec[field], "requires indexed completion mode")


def _success_faults(spec: Json, path: str) -> Iterator[FieldError]:
    if spec.get("successPolicy") is None:
        return
    rules, path = listed(dig(spec, "successPolicy", "rules")), f"{path}.successPolicy.rules"
    if not 1 <= len(rules) <= _MOST_RULES:
        yield invalid(path, len(rules), f"must have 1 to {_MOST_RULES} rules")
    most = spec.get("completions") or 0
    for at, rule in enumerate(rules[:_MOST_RULES]):
        text, least = rule.get("succeededIndexes"), rule.get("succeededCount")
        count: int | None = most
        if text is None and least is None:
            yield required(f"{path}[{at}]", "needs succeededIndexes or succeededCount")
        if text is not None and (count := _index_count(str(text), most)) is None:
            message = f"must be ascending indexes below {most}"
            yield invalid(
                f"{path}[{at}].succeededIndexes", text, message, "write for example 0,2-4"
            )
        elif least is not None and not 1 <= least <= (count or 0):
            message = f"must be from 1 to {count}, the number of indexes"
            yield invalid(f"{path}[{at}].succeededCount", least, message)


def _index_count(text: str, bound: int) -> int | None:
    """Return the number of indexes in the text; None if it is invalid or names one twice."""
    if not text:
        return 0
    if len(text) > _MOST_INDEX_BYTES or not _INDEXES.fullmatch(text):
        return None
    count, last = 0, -1
    for part in text.split(","):
        first, _, final = part.partition("-")
        low, high = int(first), int(final or first)
        if not last < low <= high < bound:
            return None
        count, last = count + high - low + 1, high
    return count


def _policy_faults(spec: Json, path: str) -> Iterator[FieldError]:
    policy = spec.get("podFailurePolicy")
    restart = dig(spec, "template", "spec", "restartPolicy")
    if policy is not None and restart != "Never":
        message = "only supports restartPolicy Never when podFailurePolicy is specified"
        yield invalid(f"{path}.template.spec.restartPolicy", restart, message)
    if policy is not None and spec.get("podReplacementPolicy") == "TerminatingOrFailed":
        yield unsupported(f"{path}.podReplacementPolicy", "TerminatingOrFailed", ("Failed",))
    if spec.get("maxFailedIndexes") is not None and spec.get("backoffLimitPerIndex") is None:
        yield required(f"{path}.backoffLimitPerIndex", "when maxFailedIndexes is set")
    for at, rule in enumerate(listed(dig(policy, "rules"))):
        actions = ("FailJob", "FailIndex", "Ignore", "Count")
        if rule.get("action") not in actions:
            yield unsupported(
                f"{path}.podFailurePolicy.rules[{at}].action", rule.get("action"), actions
            )
        if bool(rule.get("onExitCodes")) == bool(rule.get("onPodConditions")):
            message = "needs either onExitCodes or onPodConditions"
            yield invalid(f"{path}.podFailurePolicy.rules[{at}]", rule, message)


def job_update_faults(new: Json, old: Json) -> Iterator[FieldError]:
    """Faults of an update. Selector, completion mode and template are mostly immutable."""
    before, after = mapped(old.get("spec")), mapped(new.get("spec"))
    for field in _FIXED:
        if before.get(field) != after.get(field):
            yield invalid(f"spec.{field}", after.get(field), "field is immutable")
    if before.get("completions") != after.get("completions") and not _elastic(before, after):
        yield invalid("spec.completions", after.get("completions"), "field is immutable")
    free = before.get("suspend") is True and dig(old, "status", "startTime") is None
    if _template(before, free) != _template(after, free):
        yield invalid("spec.template", None, "field is immutable")


def _elastic(before: Json, after: Json) -> bool:
    """An Indexed Job may change its completions together with its parallelism."""
    return (
        before.get("completionMode") == "Indexed"
        and before.get("completions") is not None
        and after.get("completions") is not None
        and after.get("completions") == after.get("parallelism")
    )


def _template(spec: Json, free: bool) -> Json:
    """The template without the fields that may change while the Job is suspended and not started.

    These are the scheduling directives and the resources of containers.
    """
    template = mapped(spec.get("template"))
    if not free:
        return template
    pod = mapped(template.get("spec"))
    kept = {
        name: value
        for name, value in pod.items()
        if name not in ("nodeSelector", "affinity", "tolerations", "schedulingGates", "resources")
    }
    for field in ("initContainers", "containers"):
        if field in kept:
            kept[field] = [mapped(each) | {"resources": {}} for each in listed(kept[field])]
    metadata = mapped(template.get("metadata"))
    rest = {key: metadata[key] for key in metadata if key not in ("labels", "annotations")}
    return template | {"metadata": rest, "spec": kept}


def cron_job_faults(cron_job: Json) -> Iterator[FieldError]:
    spec = mapped(cron_job.get("spec"))
    schedule = str(spec.get("schedule") or "")
    if not schedule:
        yield missing("spec.schedule")
    elif reason := _schedule_fault(schedule):
        yield invalid("spec.schedule", schedule, reason)
    zone = spec.get("timeZone")
    if zone is not None and not _is_zone(str(zone)):
        yield invalid("spec.timeZone", zone, "is no time zone; write for example Europe/Berlin")
    policies = ("Allow", "Forbid", "Replace")
    if spec.get("concurrencyPolicy") not in policies:
        yield unsupported("spec.concurrencyPolicy", spec.get("concurrencyPolicy"), policies)
    if len(str(cron_job["metadata"].get("name", ""))) > 52:
        yield forbidden("metadata.name", "must be no more than 52 characters")
    yield from job_spec_faults(mapped(dig(spec, "jobTemplate", "spec")), "spec.jobTemplate.spec")


def _schedule_fault(schedule: str) -> str:
    """Why the schedule is invalid; "" if it is valid."""
    if schedule.startswith("@"):
        known = schedule.strip() in _MACROS or _EVERY.fullmatch(schedule.strip())
        return "" if known else f"is none of {', '.join(_MACROS)}, and not like @every 1h30m"
    if "TZ=" in schedule:
        return "must not name a time zone; spec.timeZone does"
    parts = schedule.split()
    if len(parts) != len(_CRON):
        return "must have five fields, such as */5 * * * *"
    for (what, low, high, names), part in zip(_CRON, parts, strict=True):
        for each in part.split(","):
            if not _is_range(each, low, high, names):
                return f"{what} {each!r} is not within {low}-{high}, and not like */5 or 1-3"
    return ""


def _is_range(text: str, low: int, high: int, names: str) -> bool:
    """Whether this is `*`, a value or `from-to`, optionally with `/step`."""
    match = _RANGE.fullmatch(text.upper()) if text.isascii() else None
    if match is None or match["step"] in ("0", "00"):
        return False
    if match["all"]:
        return True
    first = _value(match["first"], names)
    last = _value(match["last"] or match["first"], names)
    return first is not None and last is not None and low <= first <= last <= high


def _value(text: str, names: str) -> int | None:
    if text.isdigit():
        return int(text)
    found = names.find(text)
    return None if found < 0 or found % 3 else found // 3 + names.startswith("JAN")


def _is_zone(name: str) -> bool:
    try:
        ZoneInfo(name)
    except (KeyError, ValueError, OSError):
        return False
    return bool(name) and name.lower() != "local"
