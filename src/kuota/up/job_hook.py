# SPDX-License-Identifier: Apache-2.0
"""Applies Kueue's rules for new jobs on the embedded server, in place of webhooks."""

from __future__ import annotations

from kuota.api.base import Json
from kuota.api.status import StatusError
from kuota.bridge.jobs.ancestor import NestingError, group_kind
from kuota.bridge.jobs.job_webhook import reviewed
from kuota.bridge.jobs.registry import JOB
from kuota.bridge.lifecycle_view import LifecycleConfig
from kuota.runner.job_status import suspended_status
from kuota.server.admission import Hook, Review
from kuota.server.store import Store
from kuota.steady_time import SHARED

from .quota_rules import stored_objects


def job_hook(store: Store, config: LifecycleConfig) -> Hook:
    """Return a hook that sets defaults of jobs, suspends those that need quota, and validates."""
    look_up = stored_objects(store)

    def hook(review: Review) -> Json:
        kind = config.kind(group_kind(review.object))
        if kind is None or review.subresource:
            return review.object
        try:
            job = reviewed(kind, review.object, review.old, look_up, config)
        except NestingError as error:
            raise StatusError(403, "Forbidden", str(error)) from None
        if kind == JOB and review.old is None and job["spec"].get("suspend"):
            # The Job controller would write this status first. Setting it here saves that write.
            job = job | {"status": suspended_status(SHARED.now())}
        return job

    return hook
