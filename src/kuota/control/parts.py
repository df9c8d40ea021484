# SPDX-License-Identifier: Apache-2.0
"""Which parts of the system one process runs. What is left out is somebody else's task."""

from __future__ import annotations

from enum import StrEnum

Parts = frozenset["Part"]


class Part(StrEnum):
    """The value is the word that users write.

    CORE keeps Workloads and the status of queues, SCHEDULER decides and writes decisions, JOBS
    brings Jobs in line with their Workloads. These write, so only one process at a time may run
    them. WEBHOOKS and VISIBILITY only answer.
    """

    CORE = "core"
    SCHEDULER = "scheduler"
    JOBS = "jobs"
    WEBHOOKS = "webhooks"
    VISIBILITY = "visibility"


ALL: Parts = frozenset(Part)
WRITING: Parts = frozenset({Part.CORE, Part.SCHEDULER, Part.JOBS})


class UnknownPart(ValueError):
    """A word that names no part."""


def parsed(text: str) -> Parts:
    """The parts in `core,jobs`; all of them for an empty text. Raises UnknownPart."""
    words = [each.strip() for each in text.split(",") if each.strip()]
    unknown = [each for each in words if each not in ALL]
    if unknown:
        raise UnknownPart(f"{', '.join(unknown)}: there are {', '.join(Part)}")
    return frozenset(Part(each) for each in words) or ALL
