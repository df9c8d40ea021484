# SPDX-License-Identifier: Apache-2.0
"""What Kueue's webhooks do to new Jobs and check on changed ones, as a hook of the API server."""

from __future__ import annotations

from time import time

from kuota.api.base import Json, Key
from kuota.api.faults import Invalid
from kuota.api.rules.job import job_faults
from kuota.bridge.jobs.ancestor import JOB, owned
from kuota.bridge.jobs.job_arrival import Arrival, arrived
from kuota.bridge.lifecycle_view import Rules
from kuota.runner.job_status import suspended_status
from kuota.server.admission import Hook, Review
from kuota.server.store import Store

DEFAULT = "default"
_JOBS = "jobs.batch"
_LOCAL_QUEUES = "localqueues.kueue.x-k8s.io"
_CLASSES = "workloadpriorityclasses.kueue.x-k8s.io"


def job_hook(store: Store, rules: Rules) -> Hook:
    """Gives new Jobs their default queue and class, holds them back, and refuses what is wrong."""

    def hook(review: Review) -> Json:
        if review.kind.resource != _JOBS or review.subresource:
            return review.object
        namespace = review.object["metadata"]["namespace"]
        queue = store.get(_LOCAL_QUEUES, Key(namespace, DEFAULT)) is not None
        job = review.object
        if review.old is None:
            job = arrived(job, _arrival(store, job, namespace, queue, rules))
            if job["spec"].get("suspend"):
                # What the Job controller would write first of all, and is spared.
                job = job | {"status": suspended_status(time())}
        faults = job_faults(job, review.old, rules.gates, default_queue=queue)
        if faults:
            raise Invalid(faults)
        return job

    return hook


def _arrival(store: Store, job: Json, namespace: str, queue: bool, rules: Rules) -> Arrival:
    found = store.get("namespaces", Key("", namespace))
    below = owned(job, rules.owners.among({JOB}))
    return Arrival(
        namespace=(found["metadata"].get("labels") or {}) if found is not None else None,
        default_queue=queue,
        default_class=store.get(_CLASSES, Key("", DEFAULT)) is not None,
        owned=below,
        nested=below,
        rules=rules,
    )
