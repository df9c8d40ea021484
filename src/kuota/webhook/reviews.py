# SPDX-License-Identifier: Apache-2.0
"""Dispatches admission reviews by path. Every valid review gets a response.

If the object or an internal error prevents a decision, the response is a rejection that says so.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial

from msgspec.structs import replace

from kuota.api.advice import Environment, Names
from kuota.api.config.shapes import Configuration
from kuota.api.gates import Gates
from kuota.bridge.lifecycle_view import LifecycleConfig, following_all, lifecycle_config
from kuota.failures import report
from kuota.kube.errors import KubeError
from kuota.kube.resources import WORKLOADS

from . import kueue_kinds
from .authors import Authorizer, workload_with_author
from .jobs import JobReviews
from .lookup import Lookup
from .review import (
    UNTOUCHED,
    AdmissionRequest,
    AdmissionResponse,
    InvalidReview,
    answer,
    changed,
    rejected,
    request_of,
)
from .targets import JOBS, KUEUE, WebhookTarget

Judge = Callable[[AdmissionRequest], Awaitable[AdmissionResponse]]


class AdmissionReviews:
    """Responds to admission reviews at the paths of Kueue's configurations.

    With an authorizer, the authors of jobs are recorded.
    """

    def __init__(
        self,
        lookup: Lookup,
        config: Configuration | None = None,
        gates: Gates | None = None,
        topology_levels: Names | None = None,
        node_labels: Names | None = None,
        authorizer: Authorizer | None = None,
    ) -> None:
        gates = gates or Gates()
        lifecycle = following_all(lifecycle_config(config, gates))
        environment = Environment(queued=lifecycle.queued())
        if topology_levels is not None:
            environment = replace(environment, topology_levels=topology_levels)
        if node_labels is not None:
            environment = replace(environment, node_labels=node_labels)
        jobs = JobReviews(lookup, lifecycle, environment, authors=authorizer is not None)
        self._judges = _kueue_judges(gates) | _job_judges(jobs, lifecycle)
        if authorizer is not None:
            self._judges |= _workload_judges(gates, authorizer)

    def __contains__(self, path: object) -> bool:
        return path in self._judges

    async def answer(self, path: str, body: bytes) -> bytes:
        """Return the response to a review at this path; raises InvalidReview, and KeyError."""
        judge = self._judges[path]
        request = request_of(body)
        return answer(request, await _verdict(judge, request))


async def _verdict(judge: Judge, request: AdmissionRequest) -> AdmissionResponse:
    try:
        return await judge(request)
    except InvalidReview as error:
        return rejected(400, "BadRequest", str(error))
    except KubeError as error:
        return rejected(500, "InternalError", f"a referenced object cannot be read: {error}")
    except Exception as error:
        # An object that triggers a bug must get a response instead of closing the connection.
        about = f"{request.kind.kind} {request.namespace}/{request.name}"
        report("webhook", error, f"the review of {about} failed")
        name = type(error).__name__
        return rejected(500, "InternalError", f"internal error in Kuota; see its log: {name}")


def _kueue_judges(gates: Gates) -> dict[str, Judge]:
    found: dict[str, Judge] = {}
    for target in KUEUE:
        found[target.mutating_path] = partial(_at_once, kueue_kinds.mutation, target, gates)
        found[target.validating_path] = partial(_at_once, kueue_kinds.validation, target, gates)
    return found


def _workload_judges(gates: Gates, authorizer: Authorizer) -> dict[str, Judge]:
    """Review Workloads whose author is recorded."""
    (target,) = (each for each in KUEUE if each.kind == WORKLOADS.kind)
    judge = partial(kueue_kinds.validation, authors=True)
    return {
        target.mutating_path: partial(_authored_workload, target, gates, authorizer),
        target.validating_path: partial(_at_once, judge, target, gates),
    }


async def _authored_workload(
    target: WebhookTarget, gates: Gates, authorizer: Authorizer, request: AdmissionRequest
) -> AdmissionResponse:
    created = kueue_kinds.defaulted(target, request, gates)
    if created is None:
        return UNTOUCHED
    given, stored = created
    return changed(given, await workload_with_author(stored, request, authorizer))


async def _at_once(
    judge: Callable[[WebhookTarget, AdmissionRequest, Gates], AdmissionResponse],
    target: WebhookTarget,
    gates: Gates,
    request: AdmissionRequest,
) -> AdmissionResponse:
    return judge(target, request, gates)


def _job_judges(jobs: JobReviews, lifecycle: LifecycleConfig) -> dict[str, Judge]:
    """Accept objects of kinds whose integration is disabled or not implemented, with warnings."""
    found: dict[str, Judge] = {}
    for target in JOBS:
        mutation: Judge = _untouched
        validation: Judge = jobs.unqueued_validation
        kind = lifecycle.kind((target.group, target.kind))
        if kind is not None:
            mutation = partial(jobs.job_mutation, kind, target.mutated_on)
            validation = partial(jobs.job_validation, kind)
        found[target.mutating_path], found[target.validating_path] = mutation, validation
    return found


async def _untouched(request: AdmissionRequest) -> AdmissionResponse:
    return UNTOUCHED
