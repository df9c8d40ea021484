# SPDX-License-Identifier: Apache-2.0
"""Suites on priorities, priority classes and boosts."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from msgspec import to_builtins

from conformance.case import Json, Run, refused, same
from conformance.jobs import stored
from conformance.recorder import convert, whole
from conformance.registry import suite
from conformance.world import gates_of
from kuota.api.base import Object
from kuota.api.core import PriorityClass
from kuota.api.kueue import WorkloadPriorityClass
from kuota.api.priority import (
    DEFAULT_CLASS,
    BoostError,
    ClassMissing,
    boost,
    effective_priority,
    pod_priority,
    priority,
    workload_priority,
)
from kuota.api.workload import PriorityClassRef, Workload
from kuota.bridge.jobs.job_webhook import with_default_labels
from kuota.bridge.lifecycle_view import LifecycleConfig

T = TypeVar("T", bound=Object)


def _workload(run: Run) -> Workload:
    return convert(run.inputs["workload"], Workload)


def _boosting(run: Run) -> bool:
    return run.gates.get("PriorityBoost", False)


def _by_name(record: Json, kind: type[T]) -> dict[str, T]:
    items = [convert(each, kind) for each in record.get("items") or ()]
    return {each.metadata.name: each for each in items}


@suite("util/priority-TestPriority")
def plain(run: Run) -> None:
    same(run.expected["want"], priority(_workload(run)))


@suite("util/priority-TestEffectivePriority", "util/priority-TestParseEffectivePriority")
def effective(run: Run) -> None:
    found = effective_priority(_workload(run), boosting=_boosting(run))
    same(run.expected["wantPriority"], found)
    if "wantErr" in run.expected:
        _boost(run)


@suite("util/priority-TestPriorityBoost")
def boosted(run: Run) -> None:
    same(run.expected["wantBoost"], _boost(run))


def _boost(run: Run) -> int:
    """The boost, having checked that it is unreadable exactly when it should be."""
    workload, found, error = _workload(run), 0, None
    try:
        found = boost(workload) if _boosting(run) else 0
    except BoostError as unreadable:
        error = unreadable
    refused(run.expected["wantErr"], error)
    return found


_LIST = {
    "inputs.shared": "the scheme of the Go client",
    **{
        f"inputs.*.{name}": "the list around the classes"
        for name in ("kind", "apiVersion", "metadata")
    },
}


@suite("util/priority-TestDefaultWorkloadPriorityClassExist", ignores=_LIST)
def default_class(run: Run) -> None:
    """Seen in the label that a Job without a class is given."""
    kind = {"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "WorkloadPriorityClass"}
    listed = whole(run.inputs["workloadPriorityClassList"]["items"]) or []
    job = {"metadata": {"name": "job", "namespace": "ns"}}
    look_up = stored([each | kind for each in listed])
    found = with_default_labels(job, look_up, LifecycleConfig(gates=gates_of(run)))
    label = (found["metadata"].get("labels") or {}).get("kueue.x-k8s.io/priority-class")
    same(run.expected["wantExist"], label == DEFAULT_CLASS)


@suite("util/priority-TestGetPriorityFromPriorityClass", ignores=_LIST)
def pod_class(run: Run) -> None:
    classes = _by_name(run.inputs["priorityClassList"], PriorityClass)
    _same_class(run, lambda: pod_priority(run.inputs["priorityClassName"], classes))


@suite("util/priority-TestGetPriorityFromWorkloadPriorityClass", ignores=_LIST)
def workload_class(run: Run) -> None:
    classes = _by_name(run.inputs["workloadPriorityClassList"], WorkloadPriorityClass)
    _same_class(run, lambda: workload_priority(run.inputs["workloadPriorityClassName"], classes))


def _same_class(run: Run, find: Callable[[], tuple[PriorityClassRef | None, int]]) -> None:
    reference, value, error = None, 0, None
    try:
        reference, value = find()
    except ClassMissing as missing:
        error = missing
    refused(run.expected["wantErr"], error, reason="NotFound" if error else "")
    same(run.expected["wantPriorityClassRef"], to_builtins(reference))
    same(run.expected["wantPriorityClassValue"], value)
