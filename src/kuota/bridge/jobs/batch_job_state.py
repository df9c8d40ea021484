# SPDX-License-Identifier: Apache-2.0
"""The state of a batch/v1 Job: finished, active, ready, and its reclaimable pods."""

from __future__ import annotations

from collections.abc import Iterator

from kuota.api.base import Json
from kuota.api.rules.job import pod_count
from kuota.api.rules.report import child, elements, integer, text, whole
from kuota.api.workload import ReclaimablePod

from .job_conditions import ended, true_condition
from .kind import End

MAIN = "main"


def end(job: Json) -> End | None:
    """Return how the job ended; None while it is running."""
    found = true_condition(job, "Complete", "Failed")
    return None if found is None else ended(found, success=found["type"] == "Complete")


def active(job: Json) -> bool:
    """Whether it has active pods. As in Kueue, terminating pods do not count.

    A pod of a lost node can be terminating forever, and would hold the quota for as long.
    """
    return bool(_count(child(job, "status"), "active"))


def pods_ready(job: Json) -> bool:
    """Whether as many pods as should run at once are ready or succeeded."""
    status = child(job, "status")
    uncounted = len(elements(child(status, "uncountedTerminatedPods").get("succeeded")))
    there = _count(status, "succeeded") + _count(status, "ready") + uncounted
    return there >= pod_count(job)


def reclaimable(job: Json, *, exact: bool = False) -> list[ReclaimablePod]:
    """Return the pods that will not run again, because fewer completions are left.

    As in Kueue, parallelism is not limited to completions first, so a job with higher parallelism
    releases more than it can; the caller limits this to the size of the pod set. With `exact`, it
    is limited first, so that quota of running pods is never released.
    """
    spec, status = child(job, "spec"), child(job, "status")
    parallelism = integer(spec.get("parallelism"))
    parallelism = 1 if parallelism is None else parallelism
    completions = integer(spec.get("completions"))
    completions = parallelism if completions is None else completions
    parallelism = min(parallelism, completions) if exact else parallelism
    done = _count(status, "succeeded")
    if spec.get("completionMode") == "Indexed":
        listed = text(status.get("completedIndexes")), text(status.get("failedIndexes"))
        done = terminal_indexes(*listed, completions)
    left = max(completions - done, 0)
    if parallelism <= 1 or not done or left >= parallelism:
        return []
    return [ReclaimablePod(name=MAIN, count=parallelism - left)]


def terminal_indexes(completed: str, failed: str, completions: int) -> int:
    """Return the number of finished indexes below `completions`, each counted once.

    Both lists have the form "0,2-5"; invalid parts are ignored.
    """
    counted, end = 0, 0
    for first, last in sorted([*_intervals(completed), *_intervals(failed)]):
        upper = min(last + 1, completions)
        counted += max(0, upper - max(first, end))
        end = max(end, upper)
    return counted


def _intervals(listed: str) -> Iterator[tuple[int, int]]:
    for part in listed.split(","):
        first, separator, last = part.partition("-")
        start, final = _index(first), _index(last if separator else first)
        if start is not None and final is not None and start <= final:
            yield start, final


def _index(written: str) -> int | None:
    return whole(written) if written.isdigit() else None


def _count(status: Json, field: str) -> int:
    return integer(status.get(field)) or 0
