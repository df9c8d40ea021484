# SPDX-License-Identifier: Apache-2.0
"""Groups for tests of MultiKueue: a Workload, its job, and their copies in clusters."""

from __future__ import annotations

import copy
from typing import Any

from kuota.api.base import Json, Key
from kuota.api.merge_patch import merged
from kuota.bridge.draft import StoredWorkload
from kuota.bridge.effects import Delete, StatusPatch
from kuota.bridge.jobs.registry import JOB
from kuota.control.checks.multikueue.copies import copy_of
from kuota.control.checks.multikueue.group import (
    GroupResult,
    MultiKueueSettings,
    RemoteCopies,
    WorkloadGroup,
)
from kuota.control.checks.multikueue.rules import reconcile_group

NOW = 10_000.0
T = "1970-01-01T02:46:40Z"
EARLIER = "1970-01-01T02:46:30Z"
KEY = Key("ml", "wl")
SETTINGS = MultiKueueSettings(origin="here", worker_lost_timeout_s=900.0)
SPEC: Json = {"queueName": "q", "podSets": [{"name": "main", "count": 1, "template": {}}]}


def true(type_: str, reason: str = "Test", at: str = T) -> Json:
    stamp = {"lastTransitionTime": at, "message": "m"}
    return {"type": type_, "status": "True", "reason": reason, **stamp}


def local(*conditions: Json, check: str = "Pending", **status: Any) -> StoredWorkload:
    """A Workload of the manager. Without conditions it has quota."""
    states = [{"name": "mk", "state": check, "message": "", "lastTransitionTime": T}]
    held = [true("QuotaReserved"), *conditions]
    return StoredWorkload.of(
        {
            "apiVersion": "kueue.x-k8s.io/v1beta2",
            "kind": "Workload",
            "metadata": {"name": "wl", "namespace": "ml", "resourceVersion": "1", "uid": "u"},
            "spec": SPEC,
            "status": {"conditions": held, "admissionChecks": states, **status},
        }
    )


def remote(*conditions: Json, job: Json | None = None, **changes: Any) -> RemoteCopies:
    """A copy of it in a cluster."""
    made = copy_of(local(), SETTINGS)
    made["metadata"] |= {"uid": "ru", "resourceVersion": "5", "finalizers": []}
    made |= {"status": {"conditions": list(conditions)}}
    return RemoteCopies(workload=StoredWorkload.of(merged(made, changes)), jobs=(job,))


def job(*, suspend: bool = True, **status: Any) -> Json:
    manager = {"managedBy": "kueue.x-k8s.io/multikueue"}
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": "j", "namespace": "ml", "uid": "ju", "resourceVersion": "3"},
        "spec": {"suspend": suspend, "template": {}, **manager},
        "status": status,
    }


def remote_job(workload: str = "wl", **status: Any) -> Json:
    meta = {
        "name": "j",
        "namespace": "ml",
        "uid": "rju",
        "labels": {"kueue.x-k8s.io/multikueue-origin": "here"},
        "annotations": {"kueue.x-k8s.io/prebuilt-workload-name": workload},
    }
    return {"metadata": meta, "kind": "Job", "spec": {"suspend": False}, "status": status}


EMPTY = RemoteCopies(jobs=(None,))


def group(stored: StoredWorkload, **fields: Any) -> WorkloadGroup:
    remotes: dict[str, RemoteCopies] = fields.pop("remotes", {"a": EMPTY, "b": EMPTY})
    check = next(iter(stored.obj.status.admission_checks or ()), None)
    given: dict[str, Any] = {
        "settings": SETTINGS,
        "check": check,
        "owner": "Job.batch",
        "dispatch": JOB.dispatch(),
        "jobs": (job(),),
        "current": "wl",
        "clusters": ("b", "a"),
        "remotes": remotes,
        "components": (),
    }
    return WorkloadGroup(local=stored, **(given | fields))


def plan(stored: StoredWorkload, **fields: Any) -> GroupResult:
    return reconcile_group(group(stored, **fields), NOW)


def status_after(found: GroupResult, stored: StoredWorkload) -> Json:
    """The status of the Workload once the plan is carried out."""
    result = copy.deepcopy(stored.json)
    for each in (*found.first, *found.last):
        if isinstance(each, StatusPatch) and each.kind == "Workload":
            result = merged(result, {"status": each.status})
    status: Json = result["status"]
    return status


def check_after(found: GroupResult, stored: StoredWorkload) -> str:
    return str(status_after(found, stored)["admissionChecks"][0]["state"])


def deleted(found: GroupResult, cluster: str) -> list[str]:
    effects = found.remote.get(cluster, ())
    return [each.kind for each in effects if isinstance(each, Delete)]
