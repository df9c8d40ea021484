# SPDX-License-Identifier: Apache-2.0
"""Reads the conditions and counters in the status of a job."""

from __future__ import annotations

from collections.abc import Iterable

from kuota.api.base import Json
from kuota.api.core import DEADLINE_EXCEEDED
from kuota.api.rules.report import child, elements, integer, mapping, text

from .kind import End


def true_condition(job: Json, *types: str) -> Json | None:
    """Return the first condition of one of these types whose status is True."""
    for each in map(mapping, elements(child(job, "status").get("conditions"))):
        if each.get("type") in types and each.get("status") == "True":
            return each
    return None


def end_by_condition(job: Json, *, succeeded: str, failed: str = "Failed") -> End | None:
    """Return how a job ended whose status says so in one of two conditions."""
    for kind, success in ((succeeded, True), (failed, False)):
        found = true_condition(job, kind)
        if found is not None:
            return ended(found, success=success)
    return None


def ended(condition: Json, *, success: bool) -> End:
    """Return the end of a job that a condition reports."""
    late = not success and condition.get("reason") == DEADLINE_EXCEEDED
    return End(success=success, message=text(condition.get("message")), timed_out=late)


def total(entries: Iterable[object], *fields: str) -> int:
    """Return the sum of these counters over all entries."""
    return sum(integer(mapping(each).get(field)) or 0 for each in entries for field in fields)
