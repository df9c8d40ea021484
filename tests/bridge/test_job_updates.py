# SPDX-License-Identifier: Apache-2.0
"""How a pass over a Job updates the Workloads that it has."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from bridge.batch_jobs import FLAVORS, QUEUED, UNHURRIED, admitted, job_workload, queued_job
from bridge.objects import condition
from bridge.passes import worked
from kuota.api.base import Json, ObjectMeta
from kuota.api.gates import Gates
from kuota.api.kueue import WorkloadPriorityClass
from kuota.api.workload import Workload
from kuota.bridge.effects import Patch
from kuota.bridge.inbound_workload import REPLACES
from kuota.bridge.job_pass.workload import PriorityClasses
from kuota.bridge.job_pass.workload import workload as made_from
from kuota.bridge.jobs.registry import JOB

GATED = "kueue.x-k8s.io/admission-gated-by"


def _gated() -> Workload:
    meta = job_workload().metadata
    return msgspec.structs.replace(
        job_workload(), metadata=msgspec.structs.replace(meta, annotations={GATED: "example.com/a"})
    )


@pytest.mark.parametrize(("enabled", "events"), [(True, ["UpdatedWorkload"]), (False, [])])
def test_gates_removed_from_a_job_are_removed_from_its_workload(
    enabled: bool, events: list[str]
) -> None:
    config = msgspec.structs.replace(UNHURRIED, gates=Gates.of({"AdmissionGatedBy": enabled}))
    assert events == worked(queued_job(), _gated(), config=config).events


def test_gates_of_a_job_are_added_to_its_workload_before_it_has_quota() -> None:
    gated = queued_job(annotations={GATED: "example.com/a"})
    found = worked(gated, job_workload(), config=UNHURRIED)
    assert {"metadata": {"annotations": {GATED: "example.com/a"}}} == found.body
    assert ["UpdatedWorkload"] == found.events
    assert "UpdatedWorkload" not in worked(gated, admitted(), config=UNHURRIED).events


def test_a_change_of_the_workload_does_not_end_the_pass() -> None:
    gated, config = _gated(), msgspec.structs.replace(UNHURRIED, timeout_s=60)
    found = worked(queued_job(), gated, config=config)
    assert {"metadata": {"annotations": {GATED: None}}} == found.body
    assert "False/WaitForStart" == found.conditions["PodsReady"]


def _slice(name: str, class_: str, priority: int, *conditions: Json, **meta: Any) -> Workload:
    """A slice of the elastic job, with a priority class."""
    ref = {"group": "kueue.x-k8s.io", "kind": "WorkloadPriorityClass", "name": class_}
    made = made_from(JOB, _elastic())
    spec = made["spec"] | {"priority": priority, "priorityClassRef": ref}
    notes = made["metadata"]["annotations"] | meta.pop("annotations", {})
    known = made["metadata"] | {"name": name, "uid": name, "annotations": notes, **meta}
    return msgspec.convert(
        made | {"metadata": known, "spec": spec, "status": {"conditions": list(conditions)}},
        Workload,
    )


def _elastic(**labels: str) -> Json:
    notes = {"kueue.x-k8s.io/elastic-job": "true"}
    return queued_job(annotations=notes, generation=1, labels=QUEUED | labels)


def test_a_change_of_the_priority_class_repairs_slices_that_have_it_with_an_old_value() -> None:
    classes = PriorityClasses(
        workloads={"high": WorkloadPriorityClass(metadata=ObjectMeta(name="high"), value=9)}
    )
    job = _elastic(**{"kueue.x-k8s.io/priority-class": "high"})
    admitted = [condition("QuotaReserved"), condition("Admitted")]
    old = _slice("old", "high", 5, *admitted)
    new = _slice("new", "low", 1, annotations={REPLACES: "ml/old"})
    found = worked(job, old, new, config=UNHURRIED, classes=classes, flavors=FLAVORS)
    patches = [each for each in found.result.effects if isinstance(each, Patch)]
    changed = [
        (each.key.name, each.body["spec"]["priority"]) for each in patches if "spec" in each.body
    ]
    assert [("old", 9), ("new", 9)] == changed[:2]
    settled = worked(
        job, old, _slice("new", "high", 9, annotations={REPLACES: "ml/old"}), config=UNHURRIED
    )
    assert "UpdatedWorkload" not in settled.events
