# SPDX-License-Identifier: Apache-2.0
"""Deletes one object: immediately, or after marking it until it may be removed.

An object stays while it has finalizers. A pod that is bound to a node of this machine stays until
the runner has reported that all its processes have ended, even if it is deleted by force: what its
processes hold must remain visible. On other nodes, a pod stays during its grace period. The garbage
collector handles dependents according to the finalizers `foregroundDeletion` and `orphan`.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any

import msgspec

from kuota.api.base import Json
from kuota.api.core import is_terminated
from kuota.api.status import bad_request

from .bodies import MOST_NAMESPACED_VALUES, media_type, read_object
from .collection import FOREGROUND, ORPHAN
from .columns import dig, listed, mapped, parsed_time
from .kinds import Kind
from .metadata import timestamp
from .requests import Request
from .status import conflict

_FINALIZER = {"Foreground": FOREGROUND, "Orphan": ORPHAN}
_POLICIES = ("", "Background", "Foreground", "Orphan")
_LONGEST_GRACE_S = 10 * 365 * 24 * 3600


class PodDeletion(msgspec.Struct, frozen=True):
    """How pods are deleted: which may still have processes, and the longest grace period."""

    occupied: Callable[[Json], bool] = lambda pod: False
    max_grace_s: int = _LONGEST_GRACE_S


ANYWHERE = PodDeletion()
"""Pods that run elsewhere, if at all."""


class DeleteOptions(msgspec.Struct, frozen=True):
    """Options of a deletion. None as grace period means the object's own."""

    propagation: str = ""
    grace_s: int | None = None
    uid: str = ""
    resource_version: str = ""
    dry_run: bool = False


def delete_options(request: Request) -> DeleteOptions:
    """The options of a request, from its body or its query."""
    body: Json = {}
    if request.body.strip():
        media = media_type(request.headers)
        body = read_object(request.body, media, MOST_NAMESPACED_VALUES)
    grace = request.number("gracePeriodSeconds")
    if grace is None:
        grace = body.get("gracePeriodSeconds")
    policy = request.query.get("propagationPolicy") or body.get("propagationPolicy") or ""
    if policy not in _POLICIES:
        raise bad_request(f"propagationPolicy {str(policy)[:60]!r} is none of {_POLICIES[1:]}")
    if not policy and body.get("orphanDependents") is True:
        policy = "Orphan"
    if grace is not None and (not isinstance(grace, int) or isinstance(grace, bool)):
        raise bad_request("gracePeriodSeconds must be a whole number")
    wanted = mapped(body.get("preconditions"))
    return DeleteOptions(
        propagation=policy,
        grace_s=None if grace is None else max(0, min(grace, _LONGEST_GRACE_S)),
        uid=str(wanted.get("uid") or ""),
        resource_version=str(wanted.get("resourceVersion") or ""),
        dry_run=dry_run(request) or "All" in listed(body.get("dryRun")),
    )


def dry_run(request: Request) -> bool:
    """Whether the request is a dry run."""
    wanted = request.query.get("dryRun", "")
    if wanted not in ("", "All"):
        raise bad_request(f"dryRun={wanted[:60]} is not supported: use All")
    return wanted == "All"


def check_preconditions(kind: Kind, obj: Json, options: DeleteOptions) -> None:
    metadata = obj["metadata"]
    for word, wanted, found in (
        ("UID", options.uid, metadata.get("uid")),
        ("ResourceVersion", options.resource_version, metadata.get("resourceVersion")),
    ):
        if wanted and wanted != found:
            why = f"Precondition failed: {word} in precondition: {wanted}, in object meta: {found}"
            raise conflict(kind, str(metadata.get("name")), why)


def marked(
    kind: Kind, obj: Json, options: DeleteOptions, now: datetime, pods: PodDeletion = ANYWHERE
) -> Json | None:
    """The object marked as being deleted; None if it can be removed immediately."""
    metadata = dict(obj["metadata"])
    finalizers = _finalizers(listed(metadata.get("finalizers")), options.propagation)
    metadata["finalizers"] = finalizers
    if not finalizers:
        del metadata["finalizers"]
    is_pod = kind.resource == "pods"
    grace_s = min(_grace_s(obj, options), pods.max_grace_s) if is_pod else 0
    if not finalizers and grace_s == 0 and not (is_pod and pods.occupied(obj)):
        return None
    before = parsed_time(metadata.get("deletionTimestamp"))
    old_grace_s = metadata.get("deletionGracePeriodSeconds")
    if before is None:
        metadata["deletionTimestamp"] = timestamp(now + timedelta(seconds=grace_s))
        metadata["deletionGracePeriodSeconds"] = grace_s
        if "generation" in metadata:
            metadata["generation"] += 1
    elif old_grace_s is not None and grace_s < old_grace_s:
        # A repeated deletion may shorten the grace period, but not extend it.
        sooner = before - timedelta(seconds=old_grace_s - grace_s)
        metadata["deletionTimestamp"] = timestamp(max(sooner, min(before, now)))
        metadata["deletionGracePeriodSeconds"] = grace_s
    return obj | {"metadata": metadata}


def ended(resource: str, obj: Json, pods: PodDeletion = ANYWHERE) -> bool:
    """Whether an object that is being deleted can be removed."""
    metadata = mapped(obj.get("metadata"))
    return (
        bool(metadata.get("deletionTimestamp"))
        and not metadata.get("finalizers")
        and not metadata.get("deletionGracePeriodSeconds")
        and not (resource == "pods" and pods.occupied(obj))
    )


def _finalizers(present: list[Any], policy: str) -> list[Any]:
    if not policy:
        return present
    kept = [each for each in present if each not in (FOREGROUND, ORPHAN)]
    return [*kept, _FINALIZER[policy]] if policy in _FINALIZER else kept


def _grace_s(pod: Json, options: DeleteOptions) -> int:
    """The grace period; 0 for a pod that is not bound or has ended."""
    if not dig(pod, "spec", "nodeName") or is_terminated(pod):
        return 0
    if options.grace_s is not None:
        return options.grace_s
    wanted = dig(pod, "spec", "terminationGracePeriodSeconds")
    return 30 if wanted is None else int(wanted)


def terminating(namespace: Json, now: datetime) -> Json:
    """The namespace in phase Terminating."""
    metadata = namespace["metadata"] | {"deletionTimestamp": timestamp(now)}
    status = mapped(namespace.get("status")) | {"phase": "Terminating"}
    return namespace | {"metadata": metadata, "status": status}
