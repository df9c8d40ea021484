# SPDX-License-Identifier: Apache-2.0
"""The records of earlier pod templates, from which `kubectl rollout undo` restores them. Pure.

A Deployment has a ReplicaSet for each of its last templates, a StatefulSet a ControllerRevision.
These are only records: the pods belong to the Deployment or StatefulSet itself.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Literal

import msgspec

from kuota.api.base import Json
from kuota.api.merge_patch import difference, merged
from kuota.api.owners import controller_of
from kuota.api.rules.report import child, integer, string_map, text, whole
from kuota.kube.resources import CONTROLLER_REVISIONS, REPLICA_SETS, Resource

from .deployment_rules import HASH
from .job_pods import PodView, owner, pod_view
from .replicas import label_of, template_hash

NUMBER = "deployment.kubernetes.io/revision"
"""The annotation with the number of the revision, on a ReplicaSet and its Deployment."""
_REVISION_HASH = "controller.kubernetes.io/hash"
_NOT_COPIED = frozenset({NUMBER, "kubectl.kubernetes.io/last-applied-configuration"})
_KEPT = 10
"""The default of `revisionHistoryLimit`."""
_LONGEST_NAME = 242


class RecordKind(msgspec.Struct, frozen=True, kw_only=True):
    """The kind of the records of one kind of objects, and how they are written and read."""

    resource: Resource
    made: Callable[[Json, int], Json]
    numbered: Callable[[int], Json]
    number: Callable[[Json], int]
    template: Callable[[Json], Json]
    counted: Callable[[Json, Sequence[PodView]], Json]
    pods: Callable[[Json], int] = lambda record: 0
    """The number of pods that a record has counted."""
    numbers_objects: bool = False
    """Whether the objects have the number of their revision, too."""


class RecordWrite(msgspec.Struct, frozen=True, kw_only=True):
    """One write of a record. `patch` is what changes."""

    verb: Literal["create", "patch", "delete"]
    record: Json
    patch: Json = {}


class RecordStep(msgspec.Struct, frozen=True, kw_only=True):
    """What to do with the records of an object, in this order. `number` is that of its template."""

    writes: list[RecordWrite] = []
    number: int = 0


def record_name(obj: Json) -> str:
    """Return the name of the record of the present template."""
    name = text(child(obj, "metadata").get("name"))
    return f"{name[:_LONGEST_NAME]}-{template_hash(obj)}"


def is_record_of(record: Json, obj: Json) -> bool:
    found = controller_of(record)
    return found is not None and found.get("uid") == child(obj, "metadata").get("uid")


def record_step(
    kind: RecordKind, obj: Json, records: Sequence[Json], pods: Iterable[Json]
) -> RecordStep:
    """Return what to do with the records, given those of the object or of its record's name.

    A template that returns gets the next number, as in Kubernetes. A record of that name that
    belongs to something else, such as a deleted object of the same name, is replaced. Records above
    the limit are deleted last, because the next number is derived from all of them: it does not
    start again if the writes are interrupted.
    """
    own = [each for each in records if is_record_of(each, obj)]
    name, newest = record_name(obj), max(map(kind.number, own), default=0)
    current = next((each for each in own if _name(each) == name), None)
    foreign = [each for each in records if each not in own and _name(each) == name]
    views = [each for each in map(pod_view, pods) if each.active]
    number = newest if current is not None and kind.number(current) == newest else newest + 1
    wanted = {} if current is None else kind.numbered(number)
    changes = [
        (each, kind.counted(each, views) | (wanted if each is current else {})) for each in own
    ]
    surplus = _surplus(kind, obj, [each for each in own if each is not current], views)
    created = [] if current is not None else [_counted(kind, kind.made(obj, number), views)]
    changed = [
        RecordWrite(verb="patch", record=each, patch=patch)
        for each, change in changes
        if each not in surplus and (patch := difference(each, merged(each, change)))
    ]
    return RecordStep(
        writes=[
            *(RecordWrite(verb="delete", record=each) for each in foreign),
            *(RecordWrite(verb="create", record=each) for each in created),
            *changed,
            *(RecordWrite(verb="delete", record=each) for each in surplus),
        ],
        number=number,
    )


def _counted(kind: RecordKind, record: Json, pods: Sequence[PodView]) -> Json:
    counted: Json = merged(record, kind.counted(record, pods))
    return counted


def _surplus(
    kind: RecordKind, obj: Json, old: Sequence[Json], pods: Sequence[PodView]
) -> list[Json]:
    """Return the oldest records above the limit that no pod was created from."""
    limit = integer(child(obj, "spec").get("revisionHistoryLimit"))
    current = text(child(obj, "status").get("currentRevision"))
    unused = [
        each for each in old if _name(each) != current and not any(_is_from(p, each) for p in pods)
    ]
    unused.sort(key=kind.number)
    return unused[: max(0, len(unused) - (_KEPT if limit is None else limit))]


def _is_from(pod: PodView, record: Json) -> bool:
    return _name(record) in (label_of(pod, "controller-revision-hash"), _replica_set_of(pod))


def _replica_set_of(pod: PodView) -> str:
    """Return the name of the ReplicaSet that records the template of a pod."""
    found = controller_of(pod.pod)
    return (
        "" if found is None else f"{text(found.get('name'))[:_LONGEST_NAME]}-{label_of(pod, HASH)}"
    )


def _name(record: Json) -> str:
    return text(child(record, "metadata").get("name"))


def _metadata(obj: Json, labels: dict[str, str], annotations: dict[str, str]) -> Json:
    given = string_map(child(obj, "metadata").get("annotations"))
    copied = {key: value for key, value in given.items() if key not in _NOT_COPIED}
    template = child(obj, "spec", "template")
    return {
        "name": record_name(obj),
        "namespace": text(child(obj, "metadata").get("namespace")),
        "labels": string_map(child(template, "metadata").get("labels")) | labels,
        "annotations": copied | annotations,
        "ownerReferences": [owner(obj)],
    }


def _replica_set(obj: Json, number: int) -> Json:
    labels, spec = {HASH: template_hash(obj)}, child(obj, "spec")
    template, selector = child(spec, "template"), child(spec, "selector")
    meta = child(template, "metadata")
    marked = meta | {"labels": string_map(meta.get("labels")) | labels}
    return {
        "apiVersion": REPLICA_SETS.api_version,
        "kind": REPLICA_SETS.kind,
        "metadata": _metadata(obj, labels, {NUMBER: str(number)}),
        "spec": {
            "selector": selector | {"matchLabels": child(selector, "matchLabels") | labels},
            "template": template | {"metadata": marked},
        },
    }


def _pods_of_replica_set(record: Json, pods: Sequence[PodView]) -> Json:
    found = [each for each in pods if _is_from(each, record)]
    ready = sum(each.ready for each in found)
    status = {"replicas": len(found), "readyReplicas": ready, "availableReplicas": ready}
    return {"spec": {"replicas": len(found)}, "status": status}


def _replica_set_number(record: Json) -> int:
    return whole(string_map(child(record, "metadata").get("annotations")).get(NUMBER, "")) or 0


def _controller_revision(obj: Json, number: int) -> Json:
    template = child(obj, "spec", "template")
    return {
        "apiVersion": CONTROLLER_REVISIONS.api_version,
        "kind": CONTROLLER_REVISIONS.kind,
        "metadata": _metadata(obj, {_REVISION_HASH: template_hash(obj)}, {}),
        "data": {"spec": {"template": {"$patch": "replace"} | template}},
        "revision": number,
    }


def _recorded_template(record: Json) -> Json:
    template = child(record, "data", "spec", "template")
    return {key: value for key, value in template.items() if key != "$patch"}


REPLICA_SET_RECORDS = RecordKind(
    resource=REPLICA_SETS,
    made=_replica_set,
    numbered=lambda number: {"metadata": {"annotations": {NUMBER: str(number)}}},
    number=_replica_set_number,
    template=lambda record: child(record, "spec", "template"),
    counted=_pods_of_replica_set,
    pods=lambda record: integer(child(record, "spec").get("replicas")) or 0,
    numbers_objects=True,
)
CONTROLLER_REVISION_RECORDS = RecordKind(
    resource=CONTROLLER_REVISIONS,
    made=_controller_revision,
    numbered=lambda number: {"revision": number},
    number=lambda record: integer(record.get("revision")) or 0,
    template=_recorded_template,
    counted=lambda record, pods: {},
)
