# SPDX-License-Identifier: Apache-2.0
"""The pods of a Deployment or StatefulSet: their form, and what a step does with them. Pure."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

import msgspec

from kuota.api.base import Json
from kuota.api.canonical_json import canonical_json
from kuota.api.rules.report import child, elements, mapping, string_map, text

from .instants import time_text
from .job_pods import PodView, owner

REPLACED_AFTER_S = 10.0
"""A pod that has ended is replaced so long after its end, so that one that fails does not spin."""
_LONGEST_PREFIX = 57


class ReplicaStep(msgspec.Struct, frozen=True, kw_only=True):
    """What to do next with the pods of an object. Pods are deleted before others are created."""

    delete: list[PodView] = []
    create: list[Json] = []
    status: Json = {}
    retry_at: float | None = None


class Revision(msgspec.Struct, frozen=True, kw_only=True):
    """A recorded template. `pods` is how many pods it should have; 0 if that is not recorded."""

    template: Json
    number: int = 0
    pods: int = 0


def template_hash(obj: Json) -> str:
    """Return a short digest of the pod template, which changes with it."""
    template = child(obj, "spec", "template")
    return hashlib.sha256(canonical_json(template)).hexdigest()[:10]


def replica(obj: Json, labels: dict[str, str], *, name: str = "", prefix: str = "") -> Json:
    """Return a pod from the template of the object, with this name or prefix of its name."""
    template = child(obj, "spec", "template")
    meta, named = child(template, "metadata"), {"name": name}
    if not name:
        named = {"generateName": prefix[:_LONGEST_PREFIX] + "-"}
    spec: Json = msgspec.json.decode(msgspec.json.encode(child(template, "spec")))
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            **named,
            "namespace": text(child(obj, "metadata").get("namespace")),
            "labels": string_map(meta.get("labels")) | labels,
            "annotations": string_map(meta.get("annotations")),
            "ownerReferences": [owner(obj)],
        },
        "spec": spec,
    }


def label_of(pod: PodView, key: str) -> str:
    return string_map(child(pod.pod, "metadata").get("labels")).get(key, "")


def is_gated(pod: PodView) -> bool:
    """Whether the pod waits to be admitted."""
    return bool(elements(child(pod.pod, "spec").get("schedulingGates")))


def ended_too_recently(pods: Sequence[PodView], now: float) -> float | None:
    """Return when the last of the ended pods may be replaced; None if all may."""
    due = max((each.finished for each in pods if each.ended), default=0.0) + REPLACED_AFTER_S
    return due if due > now else None


def with_conditions(status: Json, before: Json, wanted: Sequence[Json], now: float) -> Json:
    """Return the status with these conditions. The time of an unchanged one is kept."""
    old = {mapping(each).get("type"): mapping(each) for each in elements(before.get("conditions"))}
    found = []
    for each in wanted:
        known = old.get(each["type"], {})
        moved = known.get("status") != each["status"]
        at = time_text(now) if moved else text(known.get("lastTransitionTime")) or time_text(now)
        same = all(known.get(field) == value for field, value in each.items())
        updated = text(known.get("lastUpdateTime")) if same else time_text(now)
        found.append(each | {"lastTransitionTime": at, "lastUpdateTime": updated or at})
    return status | {"conditions": found}
