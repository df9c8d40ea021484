# SPDX-License-Identifier: Apache-2.0
"""Decides which pods of a Deployment to create and delete, and its status. Pure.

ReplicaSets only record templates: the label `pod-template-hash` tells the pods of the newest
template from others. A new pod that waits for quota may get that of an old one: otherwise the
update of a Deployment that uses all of its quota would never end.

A paused Deployment keeps the pods of its revisions, and creates none of a newer template.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

import msgspec

from kuota.api.base import Json
from kuota.api.rules.report import child, text
from kuota.api.rules.serving import replicas

from .job_pods import PodView, pod_view
from .replicas import (
    ReplicaStep,
    Revision,
    ended_too_recently,
    is_gated,
    label_of,
    replica,
    template_hash,
    with_conditions,
)

HASH = "pod-template-hash"


class _Pods(msgspec.Struct, frozen=True):
    """The pods that count. `new` and `old` are neither ended nor being deleted."""

    new: list[PodView]
    old: list[PodView]
    ended: list[PodView]
    leaving: list[PodView]

    @property
    def active(self) -> list[PodView]:
        return [*self.new, *self.old]

    def ready(self) -> int:
        return sum(each.ready for each in self.active)


def deployment_step(
    obj: Json,
    pods: Sequence[Json],
    now: float,
    revisions: Mapping[str, Revision] = MappingProxyType({}),
) -> ReplicaStep:
    """Return the next step of a Deployment, given the pods that it controls and its revisions."""
    digest = template_hash(obj)
    views = [pod_view(each) for each in pods]
    active = [each for each in views if each.active]
    found = _Pods(
        new=[each for each in active if label_of(each, HASH) == digest],
        old=[each for each in active if label_of(each, HASH) != digest],
        ended=[each for each in views if each.ended and not each.deleting],
        leaving=[each for each in views if each.deleting],
    )
    status = _status(obj, found, now)
    if child(obj, "metadata").get("deletionTimestamp"):
        return ReplicaStep(status=status)
    wait_until = ended_too_recently(found.ended, now)
    if child(obj, "spec").get("paused"):
        create, delete = _paused(obj, found, revisions)
    else:
        create = [_pod(obj, digest) for _ in range(_missing(obj, found))]
        delete = _surplus(obj, found)
    return ReplicaStep(
        delete=delete if wait_until else [*found.ended, *delete],
        create=[] if wait_until else create,
        status=status,
        retry_at=wait_until,
    )


def _pod(obj: Json, digest: str) -> Json:
    return replica(obj, {HASH: digest}, prefix=f"{child(obj, 'metadata')['name']}-{digest}")


def _paused(
    obj: Json, pods: _Pods, revisions: Mapping[str, Revision]
) -> tuple[list[Json], list[PodView]]:
    """Return the pods to create and to delete so that each revision has its number of pods."""
    create: list[Json] = []
    delete: list[PodView] = []
    for name, wanted in _paused_sizes(obj, revisions).items():
        digest = name.rpartition("-")[2]
        own = sorted((e for e in pods.active if label_of(e, HASH) == digest), key=_worth)
        recorded = obj | {"spec": child(obj, "spec") | {"template": revisions[name].template}}
        create += [_pod(recorded, digest) for _ in range(wanted - len(own))]
        delete += own[: max(0, len(own) - wanted)]
    return create, delete


def _paused_sizes(obj: Json, revisions: Mapping[str, Revision]) -> dict[str, int]:
    """Return the number of pods of each revision of a paused Deployment, which may be scaled.

    Missing pods get the newest revision that has pods, and surplus ones leave the oldest.
    """
    newest_first = sorted(revisions, key=lambda name: revisions[name].number, reverse=True)
    used = [name for name in newest_first if revisions[name].pods] or newest_first[:1]
    count = replicas(obj)
    left = count if len(used) == 1 else count + _surge(obj)
    sizes: dict[str, int] = {}
    for name in used:
        sizes[name] = min(revisions[name].pods, left)
        left -= sizes[name]
    if used:
        sizes[used[0]] += max(0, count - sum(sizes.values()))
    return sizes


def _missing(obj: Json, pods: _Pods) -> int:
    """Return how many pods of the newest template to create."""
    count = replicas(obj)
    if _recreates(obj):
        return 0 if pods.old or _old_leaving(obj, pods) else count - len(pods.new)
    room = count + _surge(obj) - len(pods.active)
    return max(0, min(count - len(pods.new), room))


def _old_leaving(obj: Json, pods: _Pods) -> bool:
    digest = template_hash(obj)
    return any(not each.ended and label_of(each, HASH) != digest for each in pods.leaving)


def _surplus(obj: Json, pods: _Pods) -> list[PodView]:
    """Return the pods to delete: those above the number, and old ones that can be spared."""
    count = replicas(obj)
    extra = sorted(pods.new, key=_worth)[: max(0, len(pods.new) - count)]
    if _recreates(obj):
        return [*extra, *pods.old]
    idle = [each for each in pods.old if not each.ready]
    running = sorted((each for each in pods.old if each.ready), key=_worth)
    spare = max(0, pods.ready() - (count - _unavailable(obj)))
    waiting = any(map(is_gated, pods.new))
    if waiting and running and not pods.leaving:
        spare = max(1, spare)
    above = len(pods.active) - len(extra) - len(idle) - count - _surge(obj)
    return [*extra, *idle, *running[: max(spare, above)]]


def _worth(pod: PodView) -> tuple[bool, bool, float, str]:
    """Order pods by what is lost with them: those that wait first, then the youngest."""
    return not is_gated(pod), pod.ready, -pod.created, pod.name


def _recreates(obj: Json) -> bool:
    return child(obj, "spec", "strategy").get("type") == "Recreate"


def _surge(obj: Json) -> int:
    return _share(obj, "maxSurge", math.ceil)


def _unavailable(obj: Json) -> int:
    least = 0 if _surge(obj) else 1
    return max(least, _share(obj, "maxUnavailable", math.floor))


def _share(obj: Json, field: str, rounded: Any) -> int:
    value = child(obj, "spec", "strategy", "rollingUpdate").get(field)
    if isinstance(value, int):
        return value
    percent = text(value).rstrip("%")
    return int(rounded(int(percent) * replicas(obj) / 100)) if percent.isdecimal() else 0


def _status(obj: Json, pods: _Pods, now: float) -> Json:
    count, ready, total = replicas(obj), pods.ready(), len(pods.active)
    status = {
        "observedGeneration": child(obj, "metadata").get("generation") or 0,
        "replicas": total,
        "updatedReplicas": len(pods.new),
        "readyReplicas": ready,
        "availableReplicas": ready,
        "unavailableReplicas": max(0, max(count, total) - ready),
    }
    before = child(obj, "status")
    return with_conditions(status, before, _conditions(obj, pods, ready), now)


def _conditions(obj: Json, pods: _Pods, ready: int) -> list[Json]:
    count = replicas(obj)
    enough = ready >= count - _unavailable(obj)
    done = len(pods.new) == count == ready and not pods.old
    waiting = sum(map(is_gated, pods.new))
    progress = f"{len(pods.new)} of {count} pods are up to date"
    if waiting:
        progress += f"; {waiting} of them wait for quota"
    return [
        {
            "type": "Available",
            "status": "True" if enough else "False",
            "reason": "MinimumReplicasAvailable" if enough else "MinimumReplicasUnavailable",
            "message": f"{ready} of {count} pods are available",
        },
        {
            "type": "Progressing",
            "status": "True",
            "reason": "NewReplicaSetAvailable" if done else "ReplicaSetUpdated",
            "message": "all pods are up to date and available" if done else progress,
        },
    ]
