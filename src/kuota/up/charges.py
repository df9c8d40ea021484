# SPDX-License-Identifier: Apache-2.0
"""Which job is charged for a pod, recorded where members cannot change it.

A pod belongs to the Job that controls it. A Job that a controller of this machine created for
another job, such as a JobSet, has no quota of its own: its pods are charged to the outermost job.
The API server records both relations when the object is created, so that they still hold when
objects in between have been deleted. A Pod that is queued itself is charged from the moment at
which it loses its scheduling gate: to itself, or to its group.
"""

from __future__ import annotations

from typing import NamedTuple

from kuota.api.base import Json, Key
from kuota.api.config.frameworks import FRAMEWORKS, POD
from kuota.api.gates import Gates
from kuota.api.owners import controller_of
from kuota.api.rules.metadata import annotation
from kuota.api.rules.pod import group
from kuota.api.rules.report import child, string_map, text
from kuota.bridge.job_pass.injections import POD_SET_LABEL
from kuota.bridge.jobs.ancestor import CREATED_FOR, Lookup, NestingError, ancestor, group_kind
from kuota.bridge.jobs.batch_job_state import MAIN
from kuota.bridge.jobs.job_webhook import UnqueuedReason, unqueued
from kuota.bridge.jobs.kind import JobKey, JobKind, key_of
from kuota.bridge.jobs.pod_gates import ROLE_HASH, gated, role
from kuota.bridge.jobs.pod_group import PodGroup
from kuota.bridge.jobs.registry import JOB
from kuota.bridge.lifecycle_view import LifecycleConfig
from kuota.kube.resources import PODS
from kuota.server.admission import Hook, Review
from kuota.server.requests import ADMINS

from .local import SYSTEM

CHARGED_TO = "kuota.dev/charged-to"
"""An annotation of pods that are charged to another job than the Job that controls them."""

POD_KIND = (FRAMEWORKS[POD].group, FRAMEWORKS[POD].kind)
POD_GROUP = PodGroup().group_kind


class ChargedPodSet(NamedTuple):
    """The job, and its pod set, that is charged for a pod.

    A pod group has no UID; the charge has that of the pod.
    """

    job: JobKey
    uid: str
    pod_set: str

    def __str__(self) -> str:
        (group, kind), key = self.job
        return f"{kind}.{group}/{key.name}/{self.uid}/{self.pod_set}"


def unqueued_reason(
    kind: JobKind, job: Json, look_up: Lookup, config: LifecycleConfig
) -> UnqueuedReason | None:
    """Return why a stored job needs no quota of its own; None if it does.

    A job whose owners cannot be followed needs quota: its owners must not exempt it.
    """
    try:
        return unqueued(kind, job, look_up, config)
    except NestingError:
        return None


def charge_of(pod: Json) -> ChargedPodSet | None:
    """Return what a stored pod is charged to; None if nothing is."""
    namespace, recorded = key_of(pod).namespace, annotation(pod, CHARGED_TO)
    parts = (recorded or "").split("/", 3)
    if len(parts) == 4:
        resource, name, uid, pod_set = parts
        kind, _, group = resource.partition(".")
        return ChargedPodSet(JobKey((group, kind), Key(namespace, name)), uid, pod_set)
    owner = controller_of(pod)
    if owner is None or group_kind(owner) != JOB.group_kind:
        return None
    job = JobKey(JOB.group_kind, Key(namespace, text(owner.get("name"))))
    return ChargedPodSet(job, text(owner.get("uid")), MAIN)


def charge_for(job: Json, look_up: Lookup, config: LifecycleConfig) -> ChargedPodSet:
    """Return what the pods of a Job are charged to. Raises NestingError."""
    above = ancestor(job, config.owners, look_up, manage_all=True)
    meta = child(job, "metadata")
    if above is None:
        return ChargedPodSet(JobKey(JOB.group_kind, key_of(job)), text(meta.get("uid")), MAIN)
    kind, root = above
    labels = string_map(child(job, "spec", "template", "metadata").get("labels"))
    uid = text(child(root, "metadata").get("uid"))
    return ChargedPodSet(JobKey(kind, key_of(root)), uid, labels.get(POD_SET_LABEL, ""))


def charge_of_queued(pod: Json, gates: Gates) -> ChargedPodSet:
    """Return what a Pod that is queued itself is charged to: its group, or itself."""
    key, uid = key_of(pod), text(child(pod, "metadata").get("uid"))
    name = group(pod, gates)[0]
    if name:
        return ChargedPodSet(JobKey(POD_GROUP, Key(key.namespace, name)), uid, role(pod))
    return ChargedPodSet(JobKey(POD_KIND, key), uid, MAIN)


def starts(pod: Json, old: Json | None) -> bool:
    """Whether the update of a Pod that is queued itself lets it run."""
    return old is not None and gated(old) and not gated(pod)


def charging_hook(look_up: Lookup, config: LifecycleConfig) -> Hook:
    """Return a hook that records for whom objects were created, and what pods are charged to."""

    def due(review: Review) -> dict[str, str]:
        """The annotations of a new object. The pods of an admin's operators are trusted."""
        is_pod = review.kind.resource == PODS.name
        trusted = review.user == SYSTEM or (is_pod and ADMINS in review.user.groups)
        owner = controller_of(review.object) if trusted else None
        if owner is None or config.registry.get(group_kind(owner)) is None:
            return {}
        created_for = {CREATED_FOR: text(owner.get("uid"))}
        if not is_pod or group_kind(owner) != JOB.group_kind:
            return created_for
        key = Key(key_of(review.object).namespace, text(owner.get("name")))
        job = look_up(group_kind(owner), key)
        if job is None or child(job, "metadata").get("uid") != owner.get("uid"):
            return {}
        charge = charge_for(job, look_up, config)
        nested = {} if charge.job.kind == JOB.group_kind else {CHARGED_TO: str(charge)}
        return created_for | nested

    def hook(review: Review) -> Json:
        if review.subresource:
            return review.object
        if review.old is None:
            return _annotated(_without_role(review), due(review))
        kept = {key: annotation(review.old, key) for key in (CREATED_FOR, CHARGED_TO)}
        known = {key: each for key, each in kept.items() if each}
        if review.kind.resource == PODS.name and starts(review.object, review.old):
            known[CHARGED_TO] = str(charge_of_queued(review.object, config.gates))
        return _annotated(review.object, known)

    return hook


def _without_role(review: Review) -> Json:
    """Return a new object; a Pod of a member without the role that the server computes.

    Pods with a common role are charged as if all were like the first one.
    """
    obj = review.object
    if review.kind.resource != PODS.name or ADMINS in review.user.groups or review.user == SYSTEM:
        return obj
    meta = child(obj, "metadata")
    notes = child(meta, "annotations")
    if ROLE_HASH not in notes:
        return obj
    kept = {key: each for key, each in notes.items() if key != ROLE_HASH}
    return obj | {"metadata": meta | {"annotations": kept}}


def _annotated(obj: Json, wanted: dict[str, str]) -> Json:
    """Return the object with exactly these of the two annotations."""
    meta = child(obj, "metadata")
    notes = child(meta, "annotations")
    if all(notes.get(key) == wanted.get(key) for key in (CREATED_FOR, CHARGED_TO)):
        return obj
    others = {key: each for key, each in notes.items() if key not in (CREATED_FOR, CHARGED_TO)}
    return obj | {"metadata": meta | {"annotations": others | wanted}}
