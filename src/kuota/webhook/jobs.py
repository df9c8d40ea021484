# SPDX-License-Identifier: Apache-2.0
"""Reviews of jobs (`kuota.bridge.jobs.job_webhook`) and of Pods (`api.rules.pod`).

New Pods get no defaults. A gated Pod would wait indefinitely, because no controller removes the
gate yet.
"""

from __future__ import annotations

from collections.abc import Container
from functools import partial

from kuota.api.advice import Environment, advice
from kuota.api.base import Json
from kuota.api.rules.pod import pod_faults, pod_warnings
from kuota.bridge.jobs.ancestor import NestingError, owned
from kuota.bridge.jobs.job_webhook import defaulted, faults_of, left_default_queue
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
    """Reviews jobs and Pods, using `lookup` for other objects.

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
        return judged(request, faults, advice(job, self._environment))

    async def pod_validation(self, request: Request) -> AdmissionResponse:
        """Return the faults of a new or changed Pod."""
        if request.operation not in (CREATE, UPDATE) or request.sub_resource:
            return UNTOUCHED
        pod, old = _new_and_old(request, "v1", "Pod")
        default = await answered(self._lookup, partial(left_default_queue, pod, old), self._owners)
        faults = pod_faults(pod, old, self._config.gates, default_queue=default)
        warnings = pod_warnings(pod, old, owned=owned(pod, self._config.owners))
        return judged(request, faults, [*warnings, *advice(pod, self._environment)])

    async def unqueued_validation(self, request: Request) -> AdmissionResponse:
        """Return only warnings, for kinds that no controller queues."""
        if request.operation not in (CREATE, UPDATE) or request.sub_resource:
            return UNTOUCHED
        return judged(request, (), advice(request.new(), self._environment))


def _new_and_old(request: Request, api_version: str, kind: str) -> tuple[Json, Json | None]:
    new = expected(request.new(), api_version, kind)
    return new, expected(request.old(), api_version, kind) if request.operation == UPDATE else None
