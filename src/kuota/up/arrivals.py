# SPDX-License-Identifier: Apache-2.0
"""The admission path of Jobs (`kuota.bridge.jobs.job_arrival`) as a hook of the API server."""

from __future__ import annotations

from time import time

from kuota.api.base import Json, Key
from kuota.bridge.jobs.ancestor import GroupKind, Nesting
from kuota.bridge.jobs.job_arrival import LOOKED_UP, reviewed
from kuota.bridge.lifecycle_view import Rules
from kuota.kube.resources import JOBS, by_kind
from kuota.runner.job_status import suspended_status
from kuota.server.admission import Hook, Review
from kuota.server.status import Refused
from kuota.server.store import Store

_RESOURCES = by_kind(LOOKED_UP)


def job_hook(store: Store, rules: Rules) -> Hook:
    """Gives new Jobs their defaults, suspends those that need quota, and refuses invalid ones."""

    def look_up(kind: GroupKind, key: Key) -> Json | None:
        return store.get(_RESOURCES[kind].name, key)

    def hook(review: Review) -> Json:
        if review.kind.resource != JOBS.name or review.subresource:
            return review.object
        try:
            job = reviewed(review.object, review.old, look_up, rules)
        except Nesting as error:
            raise Refused(403, "Forbidden", str(error)) from None
        if review.old is None and job["spec"].get("suspend"):
            # The Job controller would write this status first, so it need not.
            job = job | {"status": suspended_status(time())}
        return job

    return hook
