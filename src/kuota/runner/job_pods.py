# SPDX-License-Identifier: Apache-2.0
"""Interprets the pods of a Job and creates new ones. Pure."""

from __future__ import annotations

from typing import Any

import msgspec

from kuota.api.base import Json, Key
from kuota.api.core import ENDED, containers
from kuota.api.owners import controller_of
from kuota.api.rules.report import whole

from .instants import instant

FINALIZER = "batch.kubernetes.io/job-tracking"
INDEX = "batch.kubernetes.io/job-completion-index"
FAILURES = "batch.kubernetes.io/job-index-failure-count"
JOB_NAME = "batch.kubernetes.io/job-name"
CONTROLLER_UID = "batch.kubernetes.io/controller-uid"
_INDEX_VARIABLE = "JOB_COMPLETION_INDEX"
_LONGEST_PREFIX = 57


class PodView(msgspec.Struct, frozen=True):
    """The fields of a pod that the rules use. `tracked` means that it is not counted yet."""

    pod: Json
    name: str
    uid: str
    phase: str
    deleting: bool
    tracked: bool
    index: int | None
    ready: bool
    created: float
    finished: float
    restarts: int
    failures: int

    @property
    def ended(self) -> bool:
        return self.phase in ENDED

    @property
    def active(self) -> bool:
        return not self.ended and not self.deleting

    @property
    def terminating(self) -> bool:
        return self.deleting and not self.ended


def pod_view(pod: Json) -> PodView:
    meta, status = pod["metadata"], pod.get("status") or {}
    notes = meta.get("annotations") or {}
    return PodView(
        pod=pod,
        name=meta["name"],
        uid=meta.get("uid") or "",
        phase=status.get("phase") or "",
        deleting=bool(meta.get("deletionTimestamp")),
        tracked=FINALIZER in (meta.get("finalizers") or ()),
        index=_number(notes.get(INDEX)),
        ready=condition_status(status, "Ready") == "True",
        created=instant(meta.get("creationTimestamp")) or 0.0,
        finished=_finished(meta, status),
        restarts=sum(each.get("restartCount") or 0 for each in container_statuses(status)),
        failures=_number(notes.get(FAILURES)) or 0,
    )


def container_statuses(status: Json) -> list[Json]:
    """The statuses of init containers, then those of containers."""
    return [
        *(status.get("initContainerStatuses") or ()),
        *(status.get("containerStatuses") or ()),
    ]


def _finished(meta: Json, status: Json) -> float:
    """When the last container ended; otherwise when the pod was deleted or created."""
    ends = [
        instant(((each.get("state") or {}).get("terminated") or {}).get("finishedAt")) or 0.0
        for each in status.get("containerStatuses") or ()
    ]
    otherwise = meta.get("deletionTimestamp") or meta.get("creationTimestamp")
    return max(ends, default=0.0) or instant(otherwise) or 0.0


def condition_status(status: Json, type_: str) -> str:
    """The status of a condition; "" if it is absent."""
    for each in status.get("conditions") or ():
        if each.get("type") == type_:
            return str(each.get("status"))
    return ""


def _number(text: Any) -> int | None:
    found = whole(text) if isinstance(text, str) else None
    return None if found is None or found < 0 else found


def new_pod(job: Json, index: int | None = None, failures: int | None = None) -> Json:
    """A pod from the template of the Job, for this index if the Job is indexed.

    `failures` of the index are recorded if they are limited. The template is not changed.
    """
    meta, template = job["metadata"], job["spec"].get("template") or {}
    labels = {**((template.get("metadata") or {}).get("labels") or {}), **_labels(job)}
    notes = dict((template.get("metadata") or {}).get("annotations") or {})
    spec: Json = msgspec.json.decode(msgspec.json.encode(template.get("spec") or {}))
    prefix = meta["name"]
    if index is not None:
        notes[INDEX] = labels[INDEX] = str(index)
        _show_index(spec)
        spec.setdefault("hostname", f"{prefix}-{index}")
        prefix = f"{prefix}-{index}"
    if failures is not None:
        notes[FAILURES] = str(failures)
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "generateName": prefix[:_LONGEST_PREFIX] + "-",
            "namespace": meta.get("namespace") or "",
            "labels": labels,
            "annotations": notes,
            "finalizers": [*((template.get("metadata") or {}).get("finalizers") or ()), FINALIZER],
            "ownerReferences": [owner(job)],
        },
        "spec": spec,
    }


def job_key(pod: Json) -> Key | None:
    """The Job of the pod: its controller, otherwise the Job in its label."""
    meta = pod["metadata"]
    namespace = meta.get("namespace") or ""
    found = controller_of(pod)
    if found is not None:
        return Key(namespace, found["name"]) if found.get("kind") == "Job" else None
    name = (meta.get("labels") or {}).get(JOB_NAME)
    return Key(namespace, name) if name and FINALIZER in (meta.get("finalizers") or ()) else None


def owner(controller: Json) -> Json:
    """An owner reference to the given object."""
    meta = controller["metadata"]
    return {
        "apiVersion": controller.get("apiVersion") or "batch/v1",
        "kind": controller.get("kind") or "Job",
        "name": meta["name"],
        "uid": meta.get("uid") or "",
        "controller": True,
        "blockOwnerDeletion": True,
    }


def _labels(job: Json) -> dict[str, str]:
    name, uid = job["metadata"]["name"], job["metadata"].get("uid") or ""
    if job["spec"].get("manualSelector"):
        return {}
    return {JOB_NAME: name, "job-name": name, CONTROLLER_UID: uid, "controller-uid": uid}


def _show_index(spec: Json) -> None:
    """Add the index to the environment of every container that does not set it."""
    source = {"fieldRef": {"fieldPath": f"metadata.annotations['{INDEX}']"}}
    for container in containers(spec):
        env = container.setdefault("env", [])
        if not any(each.get("name") == _INDEX_VARIABLE for each in env):
            env.append({"name": _INDEX_VARIABLE, "valueFrom": source})
