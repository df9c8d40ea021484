# SPDX-License-Identifier: Apache-2.0
"""Sets the priority class of all jobs of a Workload: of each pod of a group, or of the one job.

Kubernetes changes one object at a time. If one of several jobs cannot be changed, the others get
their former class back, so that the members of a group do not disagree.
"""

from __future__ import annotations

from typing import Protocol

import msgspec

from kuota.api.base import Json, Key
from kuota.api.rules.job_common import PRIORITY_CLASS
from kuota.kube import errors
from kuota.kube.resources import Resource


class JobPatcher(Protocol):
    """A client with the permissions of the viewer."""

    async def patch(self, resource: Resource, key: Key, body: Json) -> Json:
        """Apply a merge patch."""


class JobRef(msgspec.Struct, frozen=True):
    """An owner of the Workload."""

    resource: Resource
    key: Key
    uid: str

    def __str__(self) -> str:
        return f"{self.resource.kind} {self.key.name}"


async def set_class(client: JobPatcher, jobs: list[JobRef], former: str, name: str) -> None:
    """Set the class of all jobs that exist. Raises KubeError if that failed.

    Then no job has the class, or the message names those that have it. `former` is the class
    before, "" for none. A pod that was replaced does not exist any more.
    """
    changed: list[JobRef] = []
    missing: errors.NotFound | None = None
    for each in jobs:
        try:
            await _patch(client, each, name)
            changed.append(each)
        except errors.NotFound as error:
            missing = error
        except errors.KubeError as error:
            left = await _restored(client, changed, former)
            if isinstance(error, errors.ApiError) and len(jobs) > 1:
                raise _explained(error, each, left) from None
            raise
    if missing is not None and not changed:
        raise missing


async def _restored(client: JobPatcher, jobs: list[JobRef], former: str) -> list[JobRef]:
    """Give jobs their former class back, and return those that could not get it."""
    left = []
    for each in jobs:
        try:
            await _patch(client, each, former)
        except errors.NotFound:
            continue
        except errors.KubeError:
            left.append(each)
    return left


async def _patch(client: JobPatcher, job: JobRef, name: str) -> None:
    """Set the class of this job, not of another one of the same name."""
    labels = {PRIORITY_CLASS: name or None}
    await client.patch(job.resource, job.key, {"metadata": {"labels": labels, "uid": job.uid}})


def _explained(error: errors.ApiError, job: JobRef, left: list[JobRef]) -> errors.ApiError:
    words = "no priority was changed"
    if left:
        names = ", ".join(map(str, left))
        words = f"{names} got the class already and could not be changed back; repeat the action"
    return type(error)(error.status, error.reason, f"{job}: {error.message}; {words}")
