# SPDX-License-Identifier: Apache-2.0
"""The Jobs that run an object of another kind: their form, and what a step does with them. Pure.

All processes of a machine share its network, so the names of pods become loopback addresses.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterable, Mapping

import msgspec

from kuota.api.base import Json
from kuota.api.canonical_json import canonical_json
from kuota.api.core import ADMIN_ROLE, AUTHOR_ROLE, RUN_AS, is_finished
from kuota.api.rules.report import child, elements, mapping, string_map, text

from .instants import time_text
from .job_pods import owner
from .job_spec import condition

LOOPBACK = "127.0.0.1"
FORM = "kuota.dev/form"
"""An annotation with a digest of the spec with which a Job was created."""
MOST_CREATED = 500
"""The number of Jobs that one step may create."""


class GroupEvent(msgspec.Struct, frozen=True):
    """An event about the parent."""

    reason: str
    message: str
    warning: bool = False


class GroupStep(msgspec.Struct, frozen=True, kw_only=True):
    """What to do next with the Jobs of a parent, in this order.

    `suspend` and `resume` are Jobs whose `spec.suspend` changes. With `remove`, the parent is
    deleted.
    """

    suspend: list[Json] = []
    resume: list[Json] = []
    delete: list[Json] = []
    create: list[Json] = []
    status: Json | None = None
    events: list[GroupEvent] = []
    retry_at: float | None = None
    remove: bool = False


def child_job(parent: Json, name: str, template: Json, labels: Mapping[str, str]) -> Json:
    """A Job for the parent from a Job template. Labels are also annotations, and those of pods.

    Its processes run as the author of the parent, whatever the template says.
    """
    job_meta, spec = child(template, "metadata"), dict(child(template, "spec"))
    pod = child(spec, "template")
    spec["template"] = pod | {
        "metadata": _metadata(child(pod, "metadata"), labels, _author(parent))
    }
    meta = _metadata(job_meta, labels, {})
    meta["annotations"][FORM] = digest(spec)
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {
            "name": name,
            "namespace": text(child(parent, "metadata").get("namespace")),
            "labels": meta["labels"],
            "annotations": meta["annotations"],
            "ownerReferences": [owner(parent)],
        },
        "spec": spec,
    }


def _metadata(given: Json, labels: Mapping[str, str], author: Mapping[str, str]) -> Json:
    notes = string_map(given.get("annotations"))
    notes = {key: value for key, value in notes.items() if key not in (RUN_AS, AUTHOR_ROLE)}
    return {
        "labels": string_map(given.get("labels")) | dict(labels),
        "annotations": notes | dict(labels) | dict(author),
    }


def _author(parent: Json) -> dict[str, str]:
    """The annotations of the author, as the server recorded them on the parent."""
    notes = string_map(child(parent, "metadata").get("annotations"))
    found = {RUN_AS: notes[RUN_AS]} if RUN_AS in notes else {}
    return found | ({AUTHOR_ROLE: ADMIN_ROLE} if notes.get(AUTHOR_ROLE) == ADMIN_ROLE else {})


def digest(spec: Json) -> str:
    """A digest of a Job spec, apart from its suspension."""
    rest = {field: value for field, value in spec.items() if field != "suspend"}
    return hashlib.sha256(canonical_json(rest)).hexdigest()[:32]


def form(job: Json) -> str:
    return string_map(child(job, "metadata").get("annotations")).get(FORM, "")


def is_deleting(obj: Json) -> bool:
    return bool(child(obj, "metadata").get("deletionTimestamp"))


def is_suspended(job: Json) -> bool:
    return child(job, "spec").get("suspend") is True


def succeeded(job: Json) -> bool:
    return condition(job, "Complete") is not None


def failure(job: Json) -> Json | None:
    """The condition of a Job that has failed; otherwise None."""
    return condition(job, "Failed")


def pods_wanted(job: Json) -> int:
    spec = job["spec"]
    parallelism = spec.get("parallelism")
    completions = spec.get("completions")
    found = 1 if parallelism is None else parallelism
    return int(found if completions is None else min(found, completions))


def is_ready(job: Json) -> bool:
    """Whether all pods of a Job that should run are ready or have succeeded."""
    status = child(job, "status")
    return (status.get("ready") or 0) + (status.get("succeeded") or 0) >= pods_wanted(job)


def at_rest(job: Json) -> bool:
    """Whether the Job runs no pods and will not start any before it is resumed."""
    status = child(job, "status")
    return is_finished(job) or (
        is_suspended(job) and not status.get("active") and not status.get("terminating")
    )


def reconciled(wanted: Iterable[Json], jobs: Iterable[Json]) -> GroupStep:
    """The step that makes these Jobs run, and no others.

    A Job that was created from another spec is deleted, and created again when it is gone. Ended
    Jobs stay as they are.
    """
    existing = {job["metadata"]["name"]: job for job in jobs}
    delete, resume, create = [], [], []
    for job in wanted:
        found = existing.pop(job["metadata"]["name"], None)
        if found is None:
            create.append(job)
        elif is_deleting(found) or is_finished(found):
            continue
        elif form(found) != form(job):
            delete.append(found)
        elif is_suspended(found):
            resume.append(found)
    delete += [job for job in existing.values() if not is_deleting(job)]
    return GroupStep(delete=delete, resume=resume, create=create[:MOST_CREATED])


def set_condition(
    conditions: list[Json], type_: str, value: bool, reason: str, message: str, now: float
) -> list[Json]:
    """The conditions with this one, which comes last if it has changed."""
    status, at = str(value), time_text(now)
    before = next((each for each in conditions if mapping(each).get("type") == type_), None)
    if before is not None and (before.get("status"), before.get("reason")) == (status, reason):
        return conditions
    changed = before is None or before.get("status") != status
    since = at if changed or before is None else before.get("lastTransitionTime")
    fresh = {
        "type": type_,
        "status": status,
        "reason": reason,
        "message": message,
        "lastTransitionTime": since,
    }
    return [*(each for each in conditions if each is not before), fresh]


def conditions_of(obj: Json) -> list[Json]:
    return [mapping(each) for each in elements(child(obj, "status").get("conditions"))]


def holds(obj: Json, type_: str) -> bool:
    return any(
        each.get("type") == type_ and each.get("status") == "True" for each in conditions_of(obj)
    )


def with_loopback(template: Json, names: re.Pattern[str]) -> Json:
    """The pod template with loopback addresses in place of the network names of other pods."""
    return _containers(template, lambda container: _replaced(container, names))


def with_environment(template: Json, variables: Mapping[str, str]) -> Json:
    """The pod template with these variables in all containers. Those that are set already stay."""

    def added(container: Json) -> Json:
        env = [mapping(each) for each in elements(container.get("env"))]
        known = {each.get("name") for each in env}
        new = [
            {"name": name, "value": value} for name, value in variables.items() if name not in known
        ]
        return container | {"env": [*env, *new]}

    return _containers(template, added)


def _containers(template: Json, change: Callable[[Json], Json]) -> Json:
    spec = dict(child(template, "spec"))
    for field in ("initContainers", "containers"):
        if field in spec:
            spec[field] = [change(mapping(each)) for each in elements(spec[field])]
    return template | {"spec": spec}


def _replaced(container: Json, names: re.Pattern[str]) -> Json:
    changed = dict(container)
    for field in ("command", "args"):
        if field in changed:
            words = elements(changed[field])
            changed[field] = [
                names.sub(LOOPBACK, each) if isinstance(each, str) else each for each in words
            ]
    if "env" in changed:
        env = [mapping(each) for each in elements(changed["env"])]
        changed["env"] = [
            each | {"value": names.sub(LOOPBACK, each["value"])}
            if isinstance(each.get("value"), str)
            else each
            for each in env
        ]
    return changed
