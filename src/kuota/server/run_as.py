# SPDX-License-Identifier: Apache-2.0
"""Records the uid of the author on pods and templates, where users cannot forge it.

The runner reads this annotation of pods. Pods inherit it from the template of their Job, and Jobs
from their CronJob, so the server sets it on the objects that users write: Pods, Jobs and CronJobs.
Admins may set it themselves.
"""

from __future__ import annotations

from kuota.api.base import Json
from kuota.api.core import RUN_AS

from .admission import Review
from .columns import dig, mapped
from .requests import ADMINS, User

Path = tuple[str, ...]
_METADATA: dict[str, Path] = {
    "pods": ("metadata",),
    "jobs.batch": ("spec", "template", "metadata"),
    "cronjobs.batch": ("spec", "jobTemplate", "spec", "template", "metadata"),
}


def run_as_hook(review: Review) -> Json:
    """The object with the correct annotation. See `kuota.server.admission.Hook`."""
    path = _METADATA.get(review.kind.resource)
    if path is None or review.subresource:
        return review.object
    written = _value(review.object, path)
    due = _due(review, path, written)
    return review.object if due == written else _with(review.object, path, due)


def _due(review: Review, path: Path, written: str | None) -> str | None:
    own = _uid(review.user)
    if ADMINS in review.user.groups:
        # Never root by default: a pod runs as root only if an admin sets the annotation.
        return own if written is None and review.old is None and own != "0" else written
    if review.old is None or _rewritten(review):
        return own
    return _value(review.old, path)


def _rewritten(review: Review) -> bool:
    """Whether an update changes the job template. Its writer then becomes the author."""
    before, after = (dig(each, "spec", "jobTemplate") for each in (review.old, review.object))
    return review.kind.resource == "cronjobs.batch" and before != after


def _uid(user: User) -> str | None:
    return user.uid if user.uid.isascii() and user.uid.isdigit() else None


def _value(obj: Json | None, path: Path) -> str | None:
    found = dig(obj, *path, "annotations", RUN_AS)
    return None if found is None else str(found)


def _with(obj: Json, path: Path, uid: str | None) -> Json:
    """The object with the annotation at this path, or (None) without it."""
    if path:
        below = mapped(obj.get(path[0]))
        return obj | {path[0]: _with(below, path[1:], uid)}
    annotations = dict(mapped(obj.get("annotations")))
    annotations.pop(RUN_AS, None)
    if uid is not None:
        annotations[RUN_AS] = uid
    kept = {key: each for key, each in obj.items() if key != "annotations"}
    return kept | {"annotations": annotations} if annotations else kept
