# SPDX-License-Identifier: Apache-2.0
"""The informer of Jobs, which all controllers of a process share."""

from __future__ import annotations

from kuota.api.base import Json

from .client import Client
from .clock import Clock
from .informer import Informer
from .resources import JOBS

_ENDS = ("Complete", "Failed")


def job_informer(client: Client, clock: Clock | None = None) -> Informer[Json]:
    """Jobs as plain JSON. Suspended and finished ones, of which there may be many, are packed."""
    return Informer(client, JOBS, packs=_rests, clock=clock)


def _rests(job: Json) -> bool:
    return bool((job.get("spec") or {}).get("suspend")) or is_over(job)


def is_over(job: Json) -> bool:
    """Whether the Job has completed or failed."""
    conditions = (job.get("status") or {}).get("conditions") or ()
    return any(e.get("type") in _ENDS and e.get("status") == "True" for e in conditions)
