# SPDX-License-Identifier: Apache-2.0
"""Feeds the suites on priorities, their classes and boosts."""

from __future__ import annotations

from typing import TypeVar

from msgspec import convert, to_builtins

from conformance.case import Difference, Json, Run, check, same
from conformance.registry import suite
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
    try:
        found = boost(_workload(run)) if _boosting(run) else 0
    except BoostError as error:
        check(run.expected["wantErr"], f"unexpected {error}")
        return 0
    check(not run.expected["wantErr"], "want an error, got a boost")
    return found


@suite("util/priority-TestDefaultWorkloadPriorityClassExist")
def default_class(run: Run) -> None:
    classes = _by_name(run.inputs["workloadPriorityClassList"], WorkloadPriorityClass)
    same(run.expected["wantExist"], DEFAULT_CLASS in classes)


@suite("util/priority-TestGetPriorityFromPriorityClass")
def pod_class(run: Run) -> None:
    classes = _by_name(run.inputs["priorityClassList"], PriorityClass)
    found: tuple[PriorityClassRef | None, int] = (None, 0)
    try:
        found = pod_priority(run.inputs["priorityClassName"], classes)
    except ClassMissing as error:
        _expect_missing(run, error)
    _same_class(run, *found)


@suite("util/priority-TestGetPriorityFromWorkloadPriorityClass")
def workload_class(run: Run) -> None:
    classes = _by_name(run.inputs["workloadPriorityClassList"], WorkloadPriorityClass)
    found: tuple[PriorityClassRef | None, int] = (None, 0)
    try:
        found = workload_priority(run.inputs["workloadPriorityClassName"], classes)
    except ClassMissing as error:
        _expect_missing(run, error)
    _same_class(run, *found)


def _expect_missing(run: Run, error: ClassMissing) -> None:
    if not run.expected["wantErr"]:
        raise Difference(f"unexpected {error}") from error


def _same_class(run: Run, reference: PriorityClassRef | None, value: int) -> None:
    same(run.expected["wantPriorityClassRef"], to_builtins(reference))
    same(run.expected["wantPriorityClassValue"], value)
    if run.expected["wantErr"]:
        check(reference is None, "want an error, got a class")
