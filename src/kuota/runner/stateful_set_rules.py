# SPDX-License-Identifier: Apache-2.0
"""Decides which pods of a StatefulSet to create and delete, and its status. Pure.

Pods have stable names with ordinals. They start in this order, each after the one before it is
ready, and are removed in reverse order, unless the management policy is Parallel. A pod is replaced
after the one of the same name is gone. Pods are created from the newest template, except those
below the partition of a rolling update, which keep the template of the current revision.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType

from kuota.api.base import Json
from kuota.api.rules.report import child, integer, text
from kuota.api.rules.serving import replicas

from .job_pods import PodView, pod_view
from .replicas import ReplicaStep, Revision, ended_too_recently, label_of, replica, template_hash

REVISION = "controller-revision-hash"
POD_NAME = "statefulset.kubernetes.io/pod-name"
POD_INDEX = "apps.kubernetes.io/pod-index"


def stateful_set_step(
    obj: Json,
    pods: Sequence[Json],
    now: float,
    revisions: Mapping[str, Revision] = MappingProxyType({}),
) -> ReplicaStep:
    """Return the next step of a StatefulSet, given the pods that it controls and its revisions."""
    by_name = {each.name: each for each in map(pod_view, pods)}
    revision = f"{_name(obj)}-{template_hash(obj)}"
    status = _status(obj, by_name, revision)
    if child(obj, "metadata").get("deletionTimestamp"):
        return ReplicaStep(status=status)
    ended = [each for each in by_name.values() if each.ended and not each.deleting]
    wait_until = ended_too_recently(ended, now)
    if ended:
        return ReplicaStep(delete=[] if wait_until else ended, status=status, retry_at=wait_until)
    create = _missing(obj, by_name, revision, revisions)
    delete = [] if create else _condemned(obj, by_name) or _outdated(obj, by_name, revision)
    return ReplicaStep(create=create, delete=delete, status=status)


def _name(obj: Json) -> str:
    return text(child(obj, "metadata").get("name"))


def _start(obj: Json) -> int:
    return integer(child(obj, "spec", "ordinals").get("start")) or 0


def _names(obj: Json) -> list[str]:
    """Return the names of the pods that there should be, in order."""
    start = _start(obj)
    return [f"{_name(obj)}-{at}" for at in range(start, start + replicas(obj))]


def _first_updated(obj: Json) -> int:
    """Return the ordinal of the first pod that an update replaces."""
    strategy = child(obj, "spec", "updateStrategy")
    if strategy.get("type") == "OnDelete":
        return 0
    return _start(obj) + (integer(child(strategy, "rollingUpdate").get("partition")) or 0)


def _ordered(obj: Json) -> bool:
    return child(obj, "spec").get("podManagementPolicy") != "Parallel"


def _settled(pod: PodView | None) -> bool:
    return pod is not None and pod.active and pod.ready


def _missing(
    obj: Json, pods: Mapping[str, PodView], revision: str, revisions: Mapping[str, Revision]
) -> list[Json]:
    """Return the pods to create: the next one, or all if their order does not matter."""
    found = []
    for name in _names(obj):
        if name not in pods:
            found.append(_pod(*_revision_for(obj, name, revision, revisions), name))
        if _ordered(obj) and not _settled(pods.get(name)):
            return found
    return found


def _revision_for(
    obj: Json, name: str, revision: str, revisions: Mapping[str, Revision]
) -> tuple[Json, str]:
    """Return the StatefulSet with the template of a pod, and the revision that this is."""
    current = text(child(obj, "status").get("currentRevision"))
    if _ordinal(name) >= _first_updated(obj) or current not in revisions:
        return obj, revision
    return obj | {"spec": child(obj, "spec") | {"template": revisions[current].template}}, current


def _pod(obj: Json, revision: str, name: str) -> Json:
    labels = {REVISION: revision, POD_NAME: name, POD_INDEX: str(_ordinal(name))}
    pod = replica(obj, labels, name=name)
    pod["spec"]["hostname"] = name
    service = text(child(obj, "spec").get("serviceName"))
    if service:
        pod["spec"]["subdomain"] = service
    return pod


def _condemned(obj: Json, pods: Mapping[str, PodView]) -> list[PodView]:
    """Return the pods to delete because there are too many: the last one, or all."""
    wanted = set(_names(obj))
    found = (each for each in pods.values() if each.name not in wanted)
    extra = sorted(found, key=lambda each: _ordinal(each.name))
    if _ordered(obj):
        extra = extra[-1:]
    return [each for each in extra if not each.deleting]


def _outdated(obj: Json, pods: Mapping[str, PodView], revision: str) -> list[PodView]:
    """Return the next pod to replace: the last outdated one, if no other pod is missing.

    A pod that is outdated and not ready is replaced even if others are not ready.
    """
    if child(obj, "spec", "updateStrategy").get("type") == "OnDelete":
        return []
    for name in reversed(_names(obj)):
        pod = pods.get(name)
        if pod is None or pod.deleting:
            return []
        if label_of(pod, REVISION) != revision and _ordinal(name) >= _first_updated(obj):
            return [pod]
        if not pod.ready:
            return []
    return []


def _ordinal(name: str) -> int:
    last = name.rpartition("-")[2]
    return int(last) if last.isdecimal() else 0


def _status(obj: Json, pods: Mapping[str, PodView], revision: str) -> Json:
    active = [each for each in pods.values() if each.active]
    updated = sum(label_of(each, REVISION) == revision for each in active)
    ready = sum(each.ready for each in active)
    before = text(child(obj, "status").get("currentRevision"))
    done = updated == len(active) == replicas(obj) == ready
    current = revision if done or not before else before
    return {
        "observedGeneration": child(obj, "metadata").get("generation") or 0,
        "replicas": len(pods),
        "readyReplicas": ready,
        "availableReplicas": ready,
        "updatedReplicas": updated,
        "currentReplicas": sum(label_of(each, REVISION) == current for each in active),
        "currentRevision": current,
        "updateRevision": revision,
    }
