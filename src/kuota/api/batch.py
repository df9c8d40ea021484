# SPDX-License-Identifier: Apache-2.0
"""Job of batch/v1: the fields that are read, and nothing else."""

from __future__ import annotations

from datetime import datetime

from .base import Condition, Object, Struct
from .core import PodTemplateSpec


class JobSpec(Struct):
    suspend: bool | None = None
    parallelism: int | None = None
    completions: int | None = None
    completion_mode: str | None = None
    backoff_limit: int | None = None
    managed_by: str | None = None
    template: PodTemplateSpec = PodTemplateSpec()


class UncountedTerminatedPods(Struct):
    """UIDs of pods that ended but are not in the counters of the status yet."""

    succeeded: list[str] | None = None
    failed: list[str] | None = None


class JobStatus(Struct):
    conditions: list[Condition] | None = None
    start_time: datetime | None = None
    completion_time: datetime | None = None
    active: int = 0
    succeeded: int = 0
    failed: int = 0
    ready: int | None = None
    completed_indexes: str = ""
    failed_indexes: str | None = None
    uncounted_terminated_pods: UncountedTerminatedPods | None = None


class Job(Object):
    spec: JobSpec = JobSpec()
    status: JobStatus = JobStatus()
