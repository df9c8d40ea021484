# SPDX-License-Identifier: Apache-2.0
"""The fields of a Job that the rules use: spec, conditions, completion indexes. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import chain, groupby

import msgspec

from kuota.api.base import Json
from kuota.api.rules.report import whole

CONTROLLER = "kubernetes.io/job-controller"
_UNLIMITED_FAILURES = 2**31 - 1
_BACKOFF_LIMIT = 6


class JobFields(msgspec.Struct, frozen=True):
    """The fields of a Job that the rules use. None means no limit."""

    job: Json
    parallelism: int
    completions: int | None
    indexed: bool
    suspended: bool
    backoff_limit: int
    backoff_limit_per_index: int | None
    max_failed_indexes: int | None
    deadline_s: int | None
    ttl_s: int | None
    replaces_failed_only: bool
    restarts_in_place: bool

    @property
    def status(self) -> Json:
        return self.job.get("status") or {}

    def is_index(self, index: int | None) -> bool:
        """Whether a pod with this index can contribute."""
        return index is not None and index < (self.completions or 0)


def job_view(job: Json) -> JobFields:
    spec = job["spec"]
    per_index = spec.get("backoffLimitPerIndex")
    limit = spec.get("backoffLimit")
    if limit is None:
        limit = _BACKOFF_LIMIT if per_index is None else _UNLIMITED_FAILURES
    indexed = spec.get("completionMode") == "Indexed"
    parallelism, completions = spec.get("parallelism"), spec.get("completions")
    if parallelism is None and completions is None:
        completions = 1
    replacement = spec.get("podReplacementPolicy") or (
        "Failed" if spec.get("podFailurePolicy") else "TerminatingOrFailed"
    )
    template = (spec.get("template") or {}).get("spec") or {}
    return JobFields(
        job=job,
        parallelism=1 if parallelism is None else parallelism,
        completions=completions,
        indexed=indexed,
        suspended=bool(spec.get("suspend")),
        backoff_limit=limit,
        backoff_limit_per_index=per_index if indexed else None,
        max_failed_indexes=spec.get("maxFailedIndexes"),
        deadline_s=spec.get("activeDeadlineSeconds"),
        ttl_s=spec.get("ttlSecondsAfterFinished"),
        replaces_failed_only=replacement == "Failed",
        restarts_in_place=template.get("restartPolicy") == "OnFailure",
    )


def condition(job: Json, type_: str) -> Json | None:
    """The condition of this type if it is true."""
    for each in (job.get("status") or {}).get("conditions") or ():
        if each.get("type") == type_ and each.get("status") == "True":
            found: Json = each
            return found
    return None


def is_ours(job: Json) -> bool:
    """Whether this controller is responsible for the Job."""
    return (job["spec"].get("managedBy") or CONTROLLER) == CONTROLLER


def index_ranges(text: str, bound: int | None = None) -> Iterator[range]:
    """The ranges of indexes in the text, below `bound`. Invalid parts are ignored."""
    for part in text.split(","):
        first, dash, last = part.strip().partition("-")
        low, high = whole(first), whole(last if dash else first)
        if low is not None and high is not None and low >= 0:
            yield range(low, (high if bound is None else min(high, bound - 1)) + 1)


def parsed_indexes(text: str, bound: int | None = None) -> set[int]:
    """The indexes in the text below `bound`. Invalid parts are ignored."""
    return set(chain.from_iterable(index_ranges(text, bound)))


def indexes_text(indexes: Iterable[int]) -> str:
    """The shortest notation. As in Kubernetes, two consecutive indexes are written separately."""
    parts: list[str] = []
    for _, run in groupby(enumerate(sorted(indexes)), lambda each: each[1] - each[0]):
        numbers = [str(number) for _, number in run]
        parts += numbers if len(numbers) <= 2 else [f"{numbers[0]}-{numbers[-1]}"]
    return ",".join(parts)
