# SPDX-License-Identifier: Apache-2.0
"""The parts of a controller process that can be enabled one by one."""

from __future__ import annotations

from enum import StrEnum

Parts = frozenset["Part"]


class Part(StrEnum):
    """A part of the controller. The value is what users write.

    CORE reconciles Workloads, the gates of their pods and the status of queues, SCHEDULER makes and
    writes decisions, JOBS reconciles Jobs with their Workloads. These parts write, so only one
    process at a time may run them. WEBHOOKS, VISIBILITY and DASHBOARD only serve requests. HISTORY
    records and serves the resource usage of jobs; it needs a database and runs in a process of its
    own.
    """

    CORE = "core"
    SCHEDULER = "scheduler"
    JOBS = "jobs"
    WEBHOOKS = "webhooks"
    VISIBILITY = "visibility"
    DASHBOARD = "dashboard"
    HISTORY = "history"


ALL: Parts = frozenset(Part) - {Part.HISTORY}
"""The parts that one process can run together."""
DEFAULT: Parts = ALL - {Part.DASHBOARD}
"""The dashboard is opened to browsers, so it runs only where an admin asks for it."""
WRITING: Parts = frozenset({Part.CORE, Part.SCHEDULER, Part.JOBS})


class UnknownPart(ValueError):
    """A name that is not a part."""


def parsed(text: str) -> Parts:
    """Parse `core,jobs`. An empty text means the default ones. Raises UnknownPart."""
    words = [each.strip() for each in text.split(",") if each.strip()]
    unknown = [each for each in words if each not in frozenset(Part)]
    if unknown:
        raise UnknownPart(f"unknown part {', '.join(unknown)}; use {', '.join(Part)}")
    return frozenset(Part(each) for each in words) or DEFAULT
