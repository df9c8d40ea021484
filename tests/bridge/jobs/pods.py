# SPDX-License-Identifier: Apache-2.0
"""Pods, groups and passes over them, for tests."""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace

from kuota.api.base import Json, Key
from kuota.api.gates import Gates
from kuota.bridge.draft import PassResult, StoredWorkload
from kuota.bridge.effects import Create, Event
from kuota.bridge.job_pass.steps import reconcile_job
from kuota.bridge.jobs.ancestor import owners_of
from kuota.bridge.jobs.composable import composed
from kuota.bridge.jobs.pod_group import PodGroup
from kuota.bridge.lifecycle_view import JobPassInput, LifecycleConfig

NOON = 1_767_268_800.0
PREFIX = "kueue.x-k8s.io/"
GATE = {"name": f"{PREFIX}admission"}
GROUP = PodGroup()
KEY = Key("ml", "team")
CONFIG = LifecycleConfig(owners=owners_of(["pod"]), timeout_s=None)


def pod(name: str, *, of: int = 2, queue: str = "main", cpu: str = "1", **fields: Any) -> Json:
    """A gated Pod of the group `team`. Extra fields are `phase`, `node`, `created` and others."""
    annotations = {f"{PREFIX}pod-group-total-count": str(of)} | fields.pop("annotations", {})
    labels = {
        f"{PREFIX}queue-name": queue,
        f"{PREFIX}managed": "true",
        f"{PREFIX}pod-group-name": "team",
    }
    meta: Json = {
        "name": name,
        "namespace": "ml",
        "uid": fields.pop("uid", f"uid-{name}"),
        "labels": labels | fields.pop("labels", {}),
        "annotations": annotations,
        "finalizers": [f"{PREFIX}managed"],
        "creationTimestamp": fields.pop("created", "2026-01-01T11:00:00Z"),
    }
    deleted = fields.pop("deleted", None)
    if deleted:
        meta |= {"deletionTimestamp": deleted, "deletionGracePeriodSeconds": 30}
    gated, phase = fields.pop("gated", True), fields.pop("phase", "Pending")
    spec: Json = {"containers": [{"name": "c", "resources": {"requests": {"cpu": cpu}}}]}
    spec |= {"schedulingGates": [GATE]} if gated else {}
    spec |= {"nodeName": "n"} if fields.pop("node", False) else {}
    assert not fields, fields
    return {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": spec} | {
        "status": {"phase": phase}
    }


def passed(*pods: Json, workload: Json | None = None, gates: Gates | None = None) -> PassResult:
    """One pass over the group."""
    config = replace(CONFIG, gates=gates or Gates())
    job = composed(GROUP, KEY, pods, config.gates, NOON) if pods else None
    stored = (StoredWorkload.of(workload),) if workload is not None else ()
    view = JobPassInput(key=KEY, kind=GROUP, job=job, workloads=stored, namespace={}, config=config)
    return reconcile_job(view, NOON)


def created(result: PassResult) -> Json:
    """The Workload that a pass creates."""
    return next(each.object for each in result.effects if isinstance(each, Create))


def stored(*pods: Json, admitted: bool = False) -> Json:
    """The Workload of a group of these Pods."""
    made: Json = created(passed(*pods))
    if not admitted:
        return made
    sets = made["spec"]["podSets"]
    assigned = [{"name": e["name"], "count": e["count"], "flavors": {}} for e in sets]
    conditions = [
        {"type": type_, "status": "True", "reason": "R", "message": ""}
        for type_ in ("QuotaReserved", "Admitted")
    ]
    status = {
        "admission": {"clusterQueue": "cq", "podSetAssignments": assigned},
        "conditions": conditions,
    }
    return made | {"status": status}


def events(result: PassResult) -> list[tuple[str, str]]:
    """Object and reason of every event."""
    return [(e.key.name, e.reason) for e in result.effects if isinstance(e, Event)]
