# SPDX-License-Identifier: Apache-2.0
"""Reviews of jobs of all kinds (`kuota.bridge.jobs.job_webhook`)."""

from __future__ import annotations

from collections.abc import Container
from functools import partial

from kuota.api.advice import Environment, advice
from kuota.api.authors import author_faults, with_author
from kuota.api.base import Json
from kuota.api.rules.job_common import queue_name
from kuota.bridge.jobs.ancestor import NestingError, owned
from kuota.bridge.jobs.job_webhook import defaulted, faults_of
from kuota.bridge.jobs.kind import JobKind
from kuota.bridge.lifecycle_view import LifecycleConfig

from .lookup import Lookup, answered, owner_resources
from .review import (
    CREATE,
    UNTOUCHED,
    UPDATE,
    AdmissionRequest,
    AdmissionResponse,
    changed,
    expected,
    judged,
    rejected,
)


class JobReviews:
    """Reviews jobs, using `lookup` for other objects.

    With `authors`, the user who creates a job is recorded in an annotation, which cannot be changed
    later. Each method raises Unreadable, and KubeError if other objects cannot be read.
    """

    def __init__(
        self,
        lookup: Lookup,
        config: LifecycleConfig,
        environment: Environment,
        *,
        authors: bool = False,
    ) -> None:
        self._authors = authors
        self._lookup = lookup
        self._config = config
        self._owners = owner_resources(config)
        self._environment = environment

    async def job_mutation(
        self, kind: JobKind, operations: Container[str], request: AdmissionRequest
    ) -> AdmissionResponse:
        """Return the defaults of a job, for these operations."""
        if request.operation not in operations or request.sub_resource:
            return UNTOUCHED
        job = expected(request.new(), kind.api_version, kind.gvk.kind)
        question = partial(defaulted, kind, job, config=self._config)
        try:
            stored = await answered(self._lookup, question, self._owners)
        except NestingError as error:
            return rejected(403, "Forbidden", str(error))
        if self._authors and request.operation == CREATE and _may_be_queued(kind, job, stored):
            stored = with_author(stored, request.user_info.username)
        return changed(job, stored)

    async def job_validation(self, kind: JobKind, request: AdmissionRequest) -> AdmissionResponse:
        """Return the faults of a new or changed job."""
        if request.operation not in (CREATE, UPDATE) or request.sub_resource:
            return UNTOUCHED
        job, old = _new_and_old(request, kind.api_version, kind.gvk.kind)
        question = partial(faults_of, kind, job, old, config=self._config)
        faults = list(await answered(self._lookup, question, self._owners))
        if self._authors and old is not None:
            faults += author_faults(job, old)
        warnings = kind.warnings(job, old, owned=owned(job, self._config.owners))
        return judged(request, faults, [*warnings, *advice(job, self._environment)])

    async def unqueued_validation(self, request: AdmissionRequest) -> AdmissionResponse:
        """Return only warnings, for kinds that no controller queues."""
        if request.operation not in (CREATE, UPDATE) or request.sub_resource:
            return UNTOUCHED
        return judged(request, (), advice(request.new(), self._environment))


def _may_be_queued(kind: JobKind, job: Json, stored: Json) -> bool:
    """Whether a new object may get a Workload, now or when it gets a queue name."""
    now = stored is not job or bool(queue_name(job))
    return kind.queued and (now or not kind.held_from_creation)


def _new_and_old(
    request: AdmissionRequest, api_version: str, kind: str
) -> tuple[Json, Json | None]:
    new = expected(request.new(), api_version, kind)
    return new, expected(request.old(), api_version, kind) if request.operation == UPDATE else None
