# SPDX-License-Identifier: Apache-2.0
"""Hooks of the API server: what Kueue's webhooks do to Jobs, and as whom work is to run."""

from __future__ import annotations

from kuota.api.base import Json, Key
from kuota.api.faults import Invalid
from kuota.api.rules.job import job_faults
from kuota.bridge.jobs.job_arrival import Arrival, arrived
from kuota.bridge.lifecycle_view import Rules
from kuota.runner.run_as import RUN_AS
from kuota.server.admission import Hook, Review
from kuota.server.requests import ADMINS
from kuota.server.store import Store

DEFAULT = "default"
_JOBS = "jobs.batch"
_RUN = frozenset({_JOBS, "cronjobs.batch", "pods"})
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
        faults = job_faults(job, review.old, rules.gates, default_queue=queue)
        if faults:
            raise Invalid(faults)
        return job

    return hook


def _arrival(store: Store, job: Json, namespace: str, queue: bool, rules: Rules) -> Arrival:
    found = store.get("namespaces", Key("", namespace))
    return Arrival(
        namespace=(found["metadata"].get("labels") or {}) if found is not None else None,
        default_queue=queue,
        default_class=store.get(_CLASSES, Key("", DEFAULT)) is not None,
        owned=_owned(job),
        nested=_owned(job),
        rules=rules,
    )


def _owned(job: Json) -> bool:
    """Whether another Job controls this one. The only kind that is managed here is Job."""
    owners = job["metadata"].get("ownerReferences") or ()
    return any(each.get("controller") and each.get("kind") == "Job" for each in owners)


def identity_hook(review: Review) -> Json:
    """Writes who asked for the work on what it runs from. Only admins may say otherwise.

    Whoever is known by a uid of this machine has their processes run as that user.
    """
    if review.kind.resource not in _RUN or ADMINS in review.user.groups or review.subresource:
        return review.object
    said = ((review.old or {}).get("metadata") or {}).get("annotations") or {}
    uid = said.get(RUN_AS) if review.old is not None else review.user.uid
    metadata = review.object["metadata"]
    notes = {k: v for k, v in (metadata.get("annotations") or {}).items() if k != RUN_AS}
    if uid:
        notes[RUN_AS] = uid
    return review.object | {"metadata": metadata | {"annotations": notes}}
