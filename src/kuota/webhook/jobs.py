# SPDX-License-Identifier: Apache-2.0
"""Reviews of batch/v1 Jobs, answered by the admission path in `kuota.bridge.jobs.job_arrival`."""

from __future__ import annotations

from functools import partial

from kuota.api.base import Json
from kuota.bridge.jobs.ancestor import Nesting
from kuota.bridge.jobs.job_arrival import defaulted, faults_of
from kuota.bridge.lifecycle_view import Rules

from .lookup import Lookup, answered
from .review import (
    CREATE,
    UNTOUCHED,
    UPDATE,
    Request,
    Verdict,
    changed,
    expected,
    judged,
    refused,
)


class JobReviews:
    """Answers for Jobs, by what `lookup` finds."""

    def __init__(self, lookup: Lookup, rules: Rules) -> None:
        self._lookup = lookup
        self._rules = rules

    async def mutation(self, request: Request) -> Verdict:
        """What a new Job is given; raises Unreadable, and KubeError when others cannot be read."""
        if request.operation != CREATE or request.sub_resource:
            return UNTOUCHED
        job = _job(request.new())
        try:
            stored = await answered(self._lookup, partial(defaulted, job, rules=self._rules))
        except Nesting as error:
            return refused(403, "Forbidden", str(error))
        return changed(job, stored)

    async def validation(self, request: Request) -> Verdict:
        """What is refused; raises Unreadable, and KubeError when others cannot be read."""
        if request.operation not in (CREATE, UPDATE) or request.sub_resource:
            return UNTOUCHED
        job = _job(request.new())
        old = _job(request.old()) if request.operation == UPDATE else None
        question = partial(faults_of, job, old, rules=self._rules)
        return judged(request, await answered(self._lookup, question))


def _job(obj: Json) -> Json:
    return expected(obj, "batch/v1", "Job")
