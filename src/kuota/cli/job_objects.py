# SPDX-License-Identifier: Apache-2.0
"""Finds the objects that belong together: a Job, its Workload and its pods."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kuota.api.base import Json
from kuota.api.rules.job_common import QUEUE_NAME
from kuota.kube.errors import ApiError
from kuota.kube.resources import ARCHIVED_PODS, JOBS, PODS, WORKLOADS, Resource, key_of

if TYPE_CHECKING:
    from .session import Session

JOB_NAME = "batch.kubernetes.io/job-name"
FAILED_PHASE = "status.phase=Failed"
"""A field selector of failed pods."""


def owners(obj: Json) -> list[str]:
    """Return the UIDs of the object's owners."""
    return [str(each.get("uid")) for each in obj["metadata"].get("ownerReferences") or ()]


async def workload_of(session: Session, resource: Resource, obj: Json) -> Json | None:
    """Return the Workload that the object is or owns; None if it is absent or unreadable."""
    if resource == WORKLOADS:
        return obj
    if resource != JOBS and QUEUE_NAME not in (obj["metadata"].get("labels") or {}):
        return None
    try:
        listed = await session.client.list(WORKLOADS, obj["metadata"].get("namespace"))
    except ApiError:
        return None
    mine = [each for each in listed.items if obj["metadata"]["uid"] in owners(each)]
    return mine[-1] if mine else None


async def jobs_of(session: Session, obj: Json) -> list[Json]:
    """Return the Jobs that a controller created for an object, by name."""
    listed = await session.client.list(JOBS, key_of(obj).namespace)
    mine = [each for each in listed.items if obj["metadata"]["uid"] in owners(each)]
    return sorted(mine, key=lambda each: str(each["metadata"]["name"]))


async def own_pods_of(session: Session, obj: Json) -> list[Json]:
    """Return the pods that an object such as a Deployment owns itself, oldest first."""
    listed = await session.client.list(PODS, key_of(obj).namespace)
    mine = [each for each in listed.items if obj["metadata"]["uid"] in owners(each)]
    return sorted(mine, key=lambda each: str(each["metadata"].get("creationTimestamp")))


async def archived_pods_of(session: Session, job: Json) -> list[Json]:
    """Return the Job's deleted pods with archived logs, oldest first; always empty on a cluster."""
    try:
        return await pods_of(session, job, ARCHIVED_PODS)
    except ApiError:
        return []


async def pods_of(session: Session, job: Json, pods: Resource = PODS) -> list[Json]:
    """Return the pods of the Job, oldest first. Pods of earlier Jobs of that name are excluded."""
    key, uid = key_of(job), job["metadata"]["uid"]
    listed = await session.client.list(pods, key.namespace, label_selector=f"{JOB_NAME}={key.name}")
    mine = [each for each in listed.items if uid in owners(each)]
    return sorted(mine, key=lambda each: str(each["metadata"].get("creationTimestamp")))


async def failed_pods(session: Session, namespace: str | None) -> list[Json]:
    """Return the failed pods of Jobs in one or all namespaces; empty if they cannot be read."""
    try:
        listed = await session.client.list(
            PODS, namespace, label_selector=JOB_NAME, field_selector=FAILED_PHASE
        )
    except ApiError:
        return []
    return listed.items
