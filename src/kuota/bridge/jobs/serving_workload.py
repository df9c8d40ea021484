# SPDX-License-Identifier: Apache-2.0
"""The Workloads of StatefulSets and LeaderWorkerSets, which exist before their Pods do.

Their Pods join the group of the Workload's name, see `kuota.bridge.jobs.pod_group`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from kuota.api.base import Json, Key
from kuota.api.core import GROUP_NAME
from kuota.api.gates import Gate, Gates
from kuota.api.priority import WORKLOAD_CLASS, ClassMissing
from kuota.api.rules.job_common import PREBUILT, queue_name
from kuota.api.rules.metadata import ADMISSION_GATED_BY, annotation
from kuota.api.rules.report import child, elements, mapping, string_map, text

from ..draft import Draft, PassResult, StoredWorkload
from ..effects import Create, Effect, Event, edit
from ..job_pass.injections import MULTI_KUEUE_ORIGIN
from ..job_pass.names import workload_name
from ..job_pass.workload import outdated_priorities, sanitized, workload
from .composable import IS_GROUP
from .dispatch import ORIGIN_UID, OWNER_GVK, OWNER_NAME
from .kind import key_of
from .pod_parent import ParentView, PodParent

_REVISION = "controller-revision-hash"


class ServingKind(PodParent):
    """A kind whose Workloads are created before the Pods."""

    def pod_priority_class(self, job: Json) -> str:
        """Return the PriorityClass of the first pod set that names one."""
        specs = (child(each, "template", "spec") for each in self.pod_sets(job, Gates()))
        return next(filter(None, (text(each.get("priorityClassName")) for each in specs)), "")

    def workload_name(
        self, obj: Json, gates: Gates, suffix: str = "", *, uid: str | None = None
    ) -> str:
        """Return the name of a Workload, which depends on the UID of the object."""
        name, short = key_of(obj).name + suffix, gates.on(Gate.ShortWorkloadNames)
        unique = owner_uid(obj) if uid is None else uid
        return workload_name(self.gvk.kind, self.gvk.group, name, unique, short=short)


def owner_uid(obj: Json) -> str:
    """Return the UID that determines names: of a remote copy, that of the original."""
    original = annotation(obj, ORIGIN_UID)
    if is_remote(obj) and original is not None:
        return original
    return text(child(obj, "metadata").get("uid"))


def is_remote(obj: Json) -> bool:
    """Whether MultiKueue created the object, together with its Workloads."""
    return MULTI_KUEUE_ORIGIN in child(obj, "metadata", "labels")


class ServingPass:
    """One pass over an object: the effects so far, and why it failed, if it did."""

    def __init__(self, kind: ServingKind, view: ParentView, now: float) -> None:
        self.kind = kind
        self.view = view
        self.now = now
        self.obj: Json = view.obj or {}
        self.fault = ""
        self.missing: ClassMissing | None = None
        self._effects: list[Effect] = []

    def add(self, *effects: Effect) -> None:
        self._effects += effects

    def record_event(self, reason: str, note: str, *, warning: bool = False) -> None:
        key, kind = self.view.key, self.kind.name
        self.add(Event.about(key, reason, note, warning=warning, kind=kind))

    def change_pod(self, before: Json, after: Json) -> None:
        self.add(*edit("Pod", key_of(before), before, after))

    def create(self, name: str, annotations: Mapping[str, str]) -> None:
        """Create a Workload."""
        try:
            made = self._constructed(name, annotations)
        except ClassMissing as error:
            self._report_missing(error)
            return
        key = Key(self.view.key.namespace, name)
        self.add(Create(key=key, object=made))
        self.record_event("CreatedWorkload", f"Created workload {key}")

    def _constructed(self, name: str, annotations: Mapping[str, str]) -> Json:
        view, obj = self.view, self.obj
        made = workload(self.kind, obj, view.classes, view.gates)
        meta = {key: each for key, each in made["metadata"].items() if key != "creationTimestamp"}
        meta |= {
            "name": name,
            "labels": self._copied("labels", view.labels_to_copy) | _uid_label(meta),
            "annotations": (meta.get("annotations") or {})
            | self._copied("annotations", view.annotations_to_copy)
            | {IS_GROUP: "true"}
            | self.owner_annotations()
            | dict(annotations),
            "ownerReferences": [self.owner()],
        }
        spec = made["spec"] | {"podSets": sanitized(made["spec"]["podSets"])}
        if not spec["queueName"]:
            del spec["queueName"]
        return made | {"metadata": meta, "spec": spec}

    def _copied(self, field: str, keys: Sequence[str]) -> dict[str, str]:
        given = string_map(child(self.obj, "metadata").get(field))
        return {key: given[key] for key in keys if key in given}

    def owner_annotations(self) -> dict[str, str]:
        gvk = f"{self.kind.api_version}, Kind={self.kind.gvk.kind}"
        return {OWNER_GVK: gvk, OWNER_NAME: self.view.key.name}

    def owner(self) -> Json:
        """Return the reference of a Workload to the object, which does not control it."""
        uid = text(child(self.obj, "metadata").get("uid"))
        kind = {"apiVersion": self.kind.api_version, "kind": self.kind.gvk.kind}
        return kind | {"name": self.view.key.name, "uid": uid}

    def owns(self, stored: StoredWorkload) -> bool:
        wanted = self.owner()
        listed = map(mapping, elements(child(stored.json, "metadata").get("ownerReferences")))
        return any(
            (each.get("kind"), each.get("name"), text(each.get("uid")))
            == (wanted["kind"], wanted["name"], wanted["uid"])
            for each in listed
        )

    def follow_gates(self, draft: Draft) -> None:
        """Update the admission gates of a Workload."""
        if not self.view.gates.on(Gate.AdmissionGatedBy):
            return
        wanted = annotation(self.obj, ADMISSION_GATED_BY) or ""
        if draft.obj.metadata.annotation(ADMISSION_GATED_BY) == wanted:
            return
        draft.patch({"metadata": {"annotations": {ADMISSION_GATED_BY: wanted or None}}})
        note = f'Updated workload {draft.obj.key}: admission gates are now "{wanted}"'
        self.record_event("UpdatedWorkload", note)

    def follow_queue(self, draft: Draft) -> None:
        """Update the queue of a Workload."""
        if (draft.obj.spec.queue_name or "") != queue_name(self.obj):
            draft.patch({"spec": {"queueName": queue_name(self.obj) or None}})

    def follow_priority(self, draft: Draft) -> None:
        """Update the priority of a Workload that follows the label of the object."""
        try:
            outdated = outdated_priorities(self.kind, self.obj, self.view.classes, [draft.current])
        except ClassMissing as error:
            self._report_missing(error)
            return
        for _, spec in outdated:
            draft.patch({"spec": spec})
            note = f"Updated workload {draft.obj.key}: its priority class changed"
            self.record_event("UpdatedWorkload", note)

    def _report_missing(self, error: ClassMissing) -> None:
        self.fault, self.missing = str(error), error
        if error.kind == WORKLOAD_CLASS:
            self.record_event(f"{WORKLOAD_CLASS}NotFound", str(error), warning=True)

    def draft(self, stored: StoredWorkload) -> Draft:
        return Draft(stored, self.now)

    def done(self) -> PassResult:
        return PassResult(effects=tuple(self._effects), fault=self.fault, missing=self.missing)


def _uid_label(meta: Json) -> dict[str, str]:
    return string_map(meta.get("labels"))


def joined(
    pod: Json, name: str, labels: Mapping[str, str], annotations: Mapping[str, str], gates: Gates
) -> Json:
    """Return the Pod as a member of the group of a Workload. Empty labels are not set."""
    meta = child(pod, "metadata")
    named = {GROUP_NAME: name, PREBUILT: name}
    by_annotation = gates.on(Gate.WorkloadIdentifierAnnotations)
    given = {key: value for key, value in labels.items() if value}
    return pod | {
        "metadata": meta
        | {
            "labels": child(meta, "labels") | ({} if by_annotation else named) | given,
            "annotations": child(meta, "annotations")
            | (named if by_annotation else {})
            | dict(annotations),
        }
    }


def outdated(stateful_set: Json | None, pod: Json) -> bool:
    """Whether the Pod is of the old revision of a StatefulSet that is being updated.

    Such Pods run without admission, so that a rollout can be reverted. So does a Pod whose
    StatefulSet is gone: it has to terminate.
    """
    if stateful_set is None:
        return True
    status = child(stateful_set, "status")
    current = text(status.get("currentRevision"))
    if current == text(status.get("updateRevision")):
        return False
    return current == text(child(pod, "metadata", "labels").get(_REVISION))
