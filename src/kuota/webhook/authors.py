# SPDX-License-Identifier: Apache-2.0
"""Decides who is recorded as the author of a Workload.

The API server names the user in each review. A job gets that name when it is created, whatever its
manifest says, and the controller copies it to the Workload.
"""

from __future__ import annotations

from typing import Protocol

from kuota.api.authors import with_author
from kuota.api.base import Json
from kuota.api.rules.report import child, elements
from kuota.kube.access import AccessRequest, UserInfo
from kuota.kube.resources import WORKLOADS

from .review import AdmissionRequest


class Authorizer(Protocol):
    """Knows what users may do."""

    async def allows(self, user: UserInfo, access: AccessRequest) -> bool:
        """Whether the user has this access. Raises KubeError."""


async def workload_with_author(
    workload: Json, request: AdmissionRequest, authorizer: Authorizer
) -> Json:
    """Return a new Workload with the name of its author. Raises KubeError.

    A controller copies the name from the job that owns the Workload. Controllers are those who may
    write the status of Workloads: all accounts are derived from it, so they are trusted anyway.
    """
    given = request.user_info
    owned = elements(child(workload, "metadata").get("ownerReferences"))
    extra = tuple((name, tuple(each or ())) for name, each in sorted((given.extra or {}).items()))
    user = UserInfo(given.username, given.uid, tuple(given.groups or ()), extra)
    if owned and await authorizer.allows(user, _writing_status(request.namespace)):
        return workload
    return with_author(workload, user.name)


def _writing_status(namespace: str) -> AccessRequest:
    return AccessRequest(
        verb="patch",
        group=WORKLOADS.group,
        version=WORKLOADS.version,
        resource=WORKLOADS.plural,
        subresource="status",
        namespace=namespace,
    )
