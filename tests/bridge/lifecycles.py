# SPDX-License-Identifier: Apache-2.0
"""Workloads in the phases of their lifecycle."""

from __future__ import annotations

from typing import Any

import msgspec

from bridge.objects import admission, condition, pod_set, workload
from kuota.api.base import Json
from kuota.api.workload import Workload

FINALIZER = "kueue.x-k8s.io/resource-in-use"
OWNER = {"apiVersion": "batch/v1", "kind": "Job", "name": "j", "uid": "u", "controller": True}


def owned(obj: Workload, **meta: Any) -> Workload:
    """The Workload with a job above it, held by its finalizer."""
    record = msgspec.to_builtins(obj)
    held: Json = {"ownerReferences": [OWNER], "finalizers": [FINALIZER], **meta}
    return msgspec.convert(record | {"metadata": record["metadata"] | held}, Workload)


def waiting(*conditions: Json, status: Json | None = None, **spec: Any) -> Workload:
    return owned(workload("w", pod_set(gpu="4"), conditions=[*conditions], status=status, **spec))


def holding(*conditions: Json, status: Json | None = None, **spec: Any) -> Workload:
    """One that holds quota since noon."""
    held = [condition("QuotaReserved", reason="QuotaReserved"), *conditions]
    given = {"admission": admission(gpu="a100"), **(status or {})}
    return waiting(*held, status=given, **spec)


def running(*conditions: Json, status: Json | None = None, **spec: Any) -> Workload:
    """One that is admitted since noon."""
    return holding(condition("Admitted", reason="Admitted"), *conditions, status=status, **spec)
