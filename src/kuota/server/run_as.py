# SPDX-License-Identifier: Apache-2.0
"""Records name, uid and role of the author of pods and jobs, where users cannot forge them.

The runner reads these annotations of pods. Pods inherit them from the template of their Job, and
Jobs from their CronJob, so the server sets them on the objects that users write: Pods, Jobs,
CronJobs, Deployments and StatefulSets. Other job kinds may have several templates, so they carry
the annotations themselves, and their controllers copy them to pods. Admins may set the uid
themselves. Objects without a role are those of members.

The name serves accounting. It is on the object that is queued, or where that inherits it from, and
never changes.
"""

from __future__ import annotations

from kuota.api.base import Json
from kuota.api.core import ADMIN_ROLE, AUTHOR, AUTHOR_ROLE, RUN_AS

from .admission import Review
from .columns import dig, mapped
from .job_kinds import BY_RESOURCE
from .requests import ADMINS, SYSTEM_USER, User

Path = tuple[str, ...]
TEMPLATES: dict[str, Path] = {
    "pods": (),
    "jobs.batch": ("spec", "template"),
    "cronjobs.batch": ("spec", "jobTemplate", "spec", "template"),
    "deployments.apps": ("spec", "template"),
    "statefulsets.apps": ("spec", "template"),
}
"""Where the pod or pod template is, by resource."""
_AUTHORED: dict[str, Path] = TEMPLATES | dict.fromkeys(BY_RESOURCE, ())
"""Where the metadata with uid and role is, by resource."""
_SUBMITTED: dict[str, Path] = {
    "pods": (),
    "jobs.batch": (),
    "cronjobs.batch": ("spec", "jobTemplate"),
    "deployments.apps": ("spec", "template"),
    "statefulsets.apps": ("spec", "template"),
    "workloads.kueue.x-k8s.io": (),
} | dict.fromkeys(BY_RESOURCE, ())
"""Where the metadata with the name of the author is, by resource."""


def run_as_hook(review: Review) -> Json:
    """The object with the correct annotations. See `kuota.server.admission.Hook`."""
    place = _AUTHORED.get(review.kind.resource)
    if place is None or review.subresource or review.user.name == SYSTEM_USER:
        return review.object
    path = (*place, "metadata")
    written = {key: _value(review.object, path, key) for key in (RUN_AS, AUTHOR_ROLE)}
    due = {RUN_AS: _uid_due(review, path), AUTHOR_ROLE: _role_due(review, path)}
    return review.object if due == written else _with(review.object, path, due)


def author_hook(review: Review) -> Json:
    """The object with the name of its author. See `kuota.server.admission.Hook`."""
    place = _SUBMITTED.get(review.kind.resource)
    if place is None or review.subresource or review.user.name == SYSTEM_USER:
        return review.object
    path = (*place, "metadata")
    due = review.user.name if review.old is None else _value(review.old, path, AUTHOR)
    if _value(review.object, path, AUTHOR) == due:
        return review.object
    return _with(review.object, path, {AUTHOR: due})


def _uid_due(review: Review, path: Path) -> str | None:
    own, written = _uid(review.user), _value(review.object, path, RUN_AS)
    if ADMINS in review.user.groups:
        # Never root by default: a pod runs as root only if an admin sets the annotation.
        return own if written is None and review.old is None and own != "0" else written
    if review.old is None or _rewritten(review):
        return own
    return _value(review.old, path, RUN_AS)


def _role_due(review: Review, path: Path) -> str | None:
    """The role of the author. An admin who edits an object of a member does not vouch for it."""
    admin = ADMINS in review.user.groups
    if review.old is None:
        return ADMIN_ROLE if admin else None
    if not admin and _rewritten(review):
        return None
    return _value(review.old, path, AUTHOR_ROLE)


def _rewritten(review: Review) -> bool:
    """Whether an update changes what will run. Its writer then becomes the author."""
    path = _REWRITABLE.get(review.kind.resource)
    return path is not None and dig(review.old, *path) != dig(review.object, *path)


_REWRITABLE: dict[str, Path] = {
    "cronjobs.batch": ("spec", "jobTemplate"),
    "deployments.apps": ("spec", "template"),
    "statefulsets.apps": ("spec", "template"),
    **dict.fromkeys(BY_RESOURCE, ("spec",)),
}
"""What determines the processes of an object, for the kinds that can be changed later."""


def _uid(user: User) -> str | None:
    return user.uid if user.uid.isascii() and user.uid.isdigit() else None


def _value(obj: Json | None, path: Path, key: str) -> str | None:
    found = dig(obj, *path, "annotations", key)
    return None if found is None else str(found)


def _with(obj: Json, path: Path, values: dict[str, str | None]) -> Json:
    """The object with the annotations at this path, without those that are None."""
    if path:
        below = mapped(obj.get(path[0]))
        return obj | {path[0]: _with(below, path[1:], values)}
    annotations = mapped(obj.get("annotations")) | values
    annotations = {key: value for key, value in annotations.items() if value is not None}
    kept = {key: each for key, each in obj.items() if key != "annotations"}
    return kept | {"annotations": annotations} if annotations else kept
