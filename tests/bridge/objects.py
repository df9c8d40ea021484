# SPDX-License-Identifier: Apache-2.0
"""Builders of Workloads and of decisions about them."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import msgspec

from kuota.api.base import Json, Key
from kuota.api.merge_patch import merged
from kuota.api.workload import Workload
from kuota.bridge.effects import Effect, Event, StatusPatch
from kuota.bridge.inbound_workload import workload as inbound
from kuota.engine import model
from kuota.engine.amounts import FlavorResource
from kuota.engine.assignment import (
    AssignmentMode,
    FlavorAssignment,
    PodSetAssignment,
    WorkloadAssignment,
)
from kuota.engine.reasons import Reason

NOON = datetime(2026, 1, 2, 12, tzinfo=UTC).timestamp()


def at(seconds: float) -> str:
    """That many seconds after noon, as Kubernetes writes it."""
    return datetime.fromtimestamp(NOON + seconds, UTC).isoformat().replace("+00:00", "Z")


def condition(
    type_: str, status: bool = True, reason: str = "Test", message: str = "", since: float = 0
) -> Json:
    return {
        "type": type_,
        "status": str(status),
        "reason": reason,
        "message": message,
        "lastTransitionTime": at(since),
    }


def pod_set(
    name: str = "main", count: int = 1, requests: dict[str, str] | None = None, **more: str
) -> Json:
    """Pods of one container; its requests by name, or as a mapping where names have slashes."""
    container = {"name": "c", "resources": {"requests": {**(requests or {}), **more}}}
    return {"name": name, "count": count, "template": {"spec": {"containers": [container]}}}


def workload(
    name: str = "train",
    *pod_sets: Json,
    created: float = 0,
    conditions: list[Json] | None = None,
    status: Json | None = None,
    annotations: dict[str, str] | None = None,
    **spec: Any,
) -> Workload:
    """A Workload of namespace `ml`, generation 3; fields of the spec may be given by name."""
    record: Json = {
        "metadata": {
            "name": name,
            "namespace": "ml",
            "uid": f"uid-{name}",
            "generation": 3,
            "resourceVersion": "7",
            "creationTimestamp": at(created),
            "annotations": annotations,
        },
        "spec": {"podSets": list(pod_sets), **spec},
        "status": {"conditions": conditions or [], **(status or {})},
    }
    return msgspec.convert(record, Workload)


def admission(queue: str = "gpus", **flavors: str) -> Json:
    return {
        "clusterQueue": queue,
        "podSetAssignments": [
            {
                "name": "main",
                "flavors": flavors,
                "resourceUsage": dict.fromkeys(flavors, "4"),
                "count": 1,
            }
        ],
    }


def reserved(name: str = "train", *conditions: Json, status: Json | None = None) -> Workload:
    """A workload that holds 4 GPUs of flavor a100 since noon."""
    return workload(
        name,
        pod_set(gpu="4"),
        conditions=[condition("QuotaReserved"), *conditions],
        status={"admission": admission(gpu="a100"), **(status or {})},
    )


def check(name: str, state: str, **fields: Any) -> Json:
    return {"name": name, "state": state, "message": "", "lastTransitionTime": at(0), **fields}


def fitting(count: int = 1, gpus: int = 4) -> WorkloadAssignment:
    return WorkloadAssignment(
        pod_sets=(
            PodSetAssignment(
                name="main",
                count=count,
                requests={"gpu": gpus},
                flavors={"gpu": FlavorAssignment(flavor="a100", mode=AssignmentMode.FIT)},
            ),
        ),
        usage={FlavorResource("a100", "gpu"): gpus},
        mode=AssignmentMode.FIT,
    )


def refused(*reasons: Reason, error: str = "") -> WorkloadAssignment:
    pod_set = PodSetAssignment(
        name="main", count=1, requests={"gpu": 4}, reasons=reasons, error=error
    )
    return WorkloadAssignment(pod_sets=(pod_set,), usage={}, mode=AssignmentMode.NO_FIT)


def believed(obj: Workload) -> model.Workload:
    return inbound(obj)


def patches(effects: list[Effect]) -> dict[Key, StatusPatch]:
    """The patches by the object they change, having made sure that there is one each."""
    found = [effect for effect in effects if isinstance(effect, StatusPatch)]
    assert len(found) == len({patch.key for patch in found})
    return {patch.key: patch for patch in found}


def events(effects: list[Effect]) -> list[str]:
    """The events as `name: Reason`, in order; warnings end in an exclamation mark."""
    return [
        f"{effect.key.name}: {effect.reason}{'!' if effect.warning else ''}"
        for effect in effects
        if isinstance(effect, Event)
    ]


def patched(obj: Workload, status: Json) -> Workload:
    """The object after a patch of its status."""
    record = msgspec.to_builtins(obj)
    return msgspec.convert(record | {"status": merged(record.get("status", {}), status)}, Workload)


def summary(obj: Workload) -> dict[str, str]:
    """Conditions by type, as `True/Reason`."""
    return {each.type: f"{each.status}/{each.reason}" for each in obj.status.conditions or ()}
