# SPDX-License-Identifier: Apache-2.0
"""A batch Job of the queue "main", and its Workload."""

from __future__ import annotations

from typing import Any

import msgspec

from bridge.objects import condition
from kuota.api.base import Json
from kuota.api.kueue import ResourceFlavor
from kuota.api.workload import Workload
from kuota.bridge.job_pass.workload import workload as made_from
from kuota.bridge.jobs.registry import JOB
from kuota.bridge.lifecycle_view import LifecycleConfig

QUEUED = {"kueue.x-k8s.io/queue-name": "main"}
FLAVORS = {"a100": ResourceFlavor()}
UNHURRIED = LifecycleConfig(timeout_s=None, recovery_timeout_s=None)


def queued_job(*, suspend: bool = True, status: Json | None = None, **meta: Any) -> Json:
    container = {"name": "c", "resources": {"requests": {"gpu": "4"}}}
    template = {"metadata": {}, "spec": {"containers": [container], "restartPolicy": "Never"}}
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": "train", "namespace": "ml", "uid": "u", "labels": QUEUED, **meta},
        "spec": {"suspend": suspend, "parallelism": 1, "template": template},
        "status": status or {},
    }


def job_workload(*conditions: Json, status: Json | None = None, **spec: Any) -> Workload:
    """The Workload of the job."""
    record = made_from(JOB, queued_job())
    given = {"conditions": list(conditions), **(status or {})}
    return msgspec.convert(record | {"spec": record["spec"] | spec, "status": given}, Workload)


def admitted(*conditions: Json, **spec: Any) -> Workload:
    usage = {"flavors": {"gpu": "a100"}, "resourceUsage": {"gpu": "4"}}
    assigned = [{"name": "main", "count": 1, **usage}]
    held = [condition(each, reason=each) for each in ("QuotaReserved", "Admitted")]
    admission = {"clusterQueue": "gpus", "podSetAssignments": assigned}
    return job_workload(*held, *conditions, status={"admission": admission}, **spec)
