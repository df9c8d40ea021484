# SPDX-License-Identifier: Apache-2.0
"""Writes on work whose rights it runs with: the uid of who asked for it, which nobody can forge.

The runner reads the annotation off pods. Pods get it from their Job's template, and a CronJob's
Jobs from theirs, so it is written where a person writes: on Pods, Jobs and CronJobs. Admins
may write it themselves.
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
    """The object with the annotation that is due. See `kuota.server.admission.Hook`."""
    path = _METADATA.get(review.kind.resource)
    if path is None or review.subresource:
        return review.object
    written = _value(review.object, path)
    due = _due(review, path, written)
    return review.object if due == written else _with(review.object, path, due)


def _due(review: Review, path: Path, written: str | None) -> str | None:
    own = _uid(review.user)
    if ADMINS in review.user.groups:
        # Root is nobody's by default: work runs as root only where an admin writes so.
        return own if written is None and review.old is None and own != "0" else written
    if review.old is None or _rewritten(review):
        return own
    return _value(review.old, path)


def _rewritten(review: Review) -> bool:
    """Whether an update says anew what is to run: then it runs with the rights of its writer."""
    before, after = (dig(each, "spec", "jobTemplate") for each in (review.old, review.object))
    return review.kind.resource == "cronjobs.batch" and before != after


def _uid(user: User) -> str | None:
    return user.uid if user.uid.isascii() and user.uid.isdigit() else None


def _value(obj: Json | None, path: Path) -> str | None:
    found = dig(obj, *path, "annotations", RUN_AS)
    return None if found is None else str(found)


def _with(obj: Json, path: Path, uid: str | None) -> Json:
    """The object with the annotation at that place, or (None) without it."""
    if path:
        below = mapped(obj.get(path[0]))
        return obj | {path[0]: _with(below, path[1:], uid)}
    annotations = dict(mapped(obj.get("annotations")))
    annotations.pop(RUN_AS, None)
    if uid is not None:
        annotations[RUN_AS] = uid
    kept = {key: each for key, each in obj.items() if key != "annotations"}
    return kept | {"annotations": annotations} if annotations else kept
