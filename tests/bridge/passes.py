# SPDX-License-Identifier: Apache-2.0
"""Runs reconciler passes over Workloads and Jobs, and collects their results."""

from __future__ import annotations

from typing import Any

import msgspec

from bridge.objects import NOON, events, patched, summary
from kuota.api.base import Json, Key
from kuota.api.gates import Gates
from kuota.api.merge_patch import combined
from kuota.api.workload import Workload
from kuota.bridge.draft import PassResult, StoredWorkload
from kuota.bridge.effects import Create, Delete, Patch, StatusPatch
from kuota.bridge.job_pass.steps import reconcile_job
from kuota.bridge.lifecycle import reconcile_workload
from kuota.bridge.lifecycle_view import JobPassInput, LifecycleConfig, WorkloadPassInput
from kuota.engine import model

LOCAL = model.LocalQueue(key=Key("ml", "main"), cluster_queue="gpus")
QUEUE = model.ClusterQueue(name="gpus")


class Outcome:
    """A pass, and the Workload as it is after it."""

    def __init__(self, before: Workload, result: PassResult) -> None:
        self.result = result
        self.after = before
        self.body: Json = {}
        self.deleted = False
        for effect in result.effects:
            match effect:
                case StatusPatch(kind="Workload"):
                    self.after = patched(self.after, effect.status)
                case Patch(kind="Workload"):
                    self.body = combined(self.body, effect.body)
                case Delete(kind="Workload"):
                    self.deleted = True
                case _:
                    pass

    @property
    def conditions(self) -> dict[str, str]:
        return summary(self.after)

    @property
    def events(self) -> list[str]:
        return [each.split(": ")[1] for each in events(list(self.result.effects))]

    @property
    def idle(self) -> bool:
        return not self.result.effects

    @property
    def writes(self) -> int:
        kinds = (StatusPatch, Patch, Create, Delete)
        return sum(isinstance(each, kinds) for each in self.result.effects)


def passed(
    obj: Workload, now: float = NOON, config: LifecycleConfig | None = None, **view: Any
) -> Outcome:
    """One pass over a Workload whose queues are there and active, unless the view says so."""
    known: dict[str, Any] = {
        "local_queue": LOCAL,
        "cluster_queue": QUEUE,
        "cluster_queue_active": True,
    }
    stored = StoredWorkload.of(msgspec.to_builtins(obj))
    shown = WorkloadPassInput(
        stored=stored, config=config or LifecycleConfig(), **{**known, **view}
    )
    return Outcome(obj, reconcile_workload(shown, now))


def worked(
    job: Json | None,
    *workloads: Workload,
    now: float = NOON,
    config: LifecycleConfig | None = None,
    gates: dict[str, bool] | None = None,
    **view: Any,
) -> Outcome:
    """One pass over a job of namespace ml, called train, and its Workloads."""
    chosen = config or LifecycleConfig(gates=Gates.of(gates or {}, check=False))
    stored = tuple(StoredWorkload.of(msgspec.to_builtins(each)) for each in workloads)
    known: dict[str, Any] = {"namespace": {}, "workloads": stored}
    shown = JobPassInput(key=Key("ml", "train"), job=job, config=chosen, **{**known, **view})
    return Outcome(workloads[0] if workloads else Workload(), reconcile_job(shown, now))
