# SPDX-License-Identifier: Apache-2.0
"""Reviews of jobs of all kinds (`kuota.bridge.jobs.job_webhook`)."""

from __future__ import annotations

from collections.abc import Container
from functools import partial

from kuota.api.advice import Environment, advice
from kuota.api.base import Json
from kuota.bridge.jobs.ancestor import NestingError, owned
from kuota.bridge.jobs.job_webhook import defaulted, faults_of
from kuota.bridge.jobs.kind import JobKind
from kuota.bridge.lifecycle_view import LifecycleConfig

from .lookup import Lookup, answered, owner_resources
from .review import (
    CREATE,
    UNTOUCHED,
    UPDATE,
    AdmissionResponse,
    Request,
    changed,
    expected,
    judged,
    rejected,
)


class JobReviews:
    """Reviews jobs, using `lookup` for other objects.

    Each method raises Unreadable, and KubeError if other objects cannot be read.
    """

    def __init__(self, lookup: Lookup, config: LifecycleConfig, environment: Environment) -> None:
        self._lookup = lookup
        self._config = config
        self._owners = owner_resources(config)
        self._environment = environment

    async def job_mutation(
        self, kind: JobKind, operations: Container[str], request: Request
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
        return changed(job, stored)

    async def job_validation(self, kind: JobKind, request: Request) -> AdmissionResponse:
        """Return the faults of a new or changed job."""
        if request.operation not in (CREATE, UPDATE) or request.sub_resource:
            return UNTOUCHED
        job, old = _new_and_old(request, kind.api_version, kind.gvk.kind)
        question = partial(faults_of, kind, job, old, config=self._config)
        faults = await answered(self._lookup, question, self._owners)
        warnings = kind.warnings(job, old, owned=owned(job, self._config.owners))
        return judged(request, faults, [*warnings, *advice(job, self._environment)])

    async def unqueued_validation(self, request: Request) -> AdmissionResponse:
        """Return only warnings, for kinds that no controller queues."""
        if request.operation not in (CREATE, UPDATE) or request.sub_resource:
            return UNTOUCHED
        return judged(request, (), advice(request.new(), self._environment))


def _new_and_old(request: Request, api_version: str, kind: str) -> tuple[Json, Json | None]:
    new = expected(request.new(), api_version, kind)
    return new, expected(request.old(), api_version, kind) if request.operation == UPDATE else None
