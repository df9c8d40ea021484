# SPDX-License-Identifier: Apache-2.0
"""Suites on quantities, limit ranges, taints, tolerations and delays."""

from __future__ import annotations

import re
from typing import Any

from msgspec import to_builtins

from conformance.case import Json, Run, check, same
from conformance.recorder import convert
from conformance.registry import suite
from kuota.api.adjust import limit_range_faults, summarize
from kuota.api.backoff import Backoff
from kuota.api.core import LimitRange, LimitRangeItem, PodSpec, PodTemplateSpec, Taint, Toleration
from kuota.api.faults import FieldError
from kuota.api.match import has_taint_key, same_toleration
from kuota.api.quantity import as_float
from kuota.api.workload import PodSet, Workload, WorkloadSpec

_NANOSECONDS = {"h": 3600 * 10**9, "m": 60 * 10**9, "s": 10**9, "ms": 10**6, "us": 10**3, "ns": 1}


@suite("util/resource-TestQuantityToFloat")
def quantity_as_float(run: Run) -> None:
    same(float(run.expected["wantResult"]), as_float(run.inputs["q"]))


@suite("util/limitrange-TestSummarize")
def summary(run: Run) -> None:
    ranges = convert(run.inputs.get("ranges") or [], list[LimitRange])
    same(run.expected["expected"], to_builtins(summarize(ranges)))


@suite(
    "util/limitrange-TestValidatePodSpec",
    ignores={
        "inputs.shared.podSpecPath": "where the test says that the spec is; here in a Workload",
        "inputs.shared.podSpec": "the default for cases that have none of their own",
    },
)
def pod_spec_limits(run: Run) -> None:
    shared = run.inputs["shared"]["podSpec"]
    record = run.inputs.get("podSpec") or shared
    template = PodTemplateSpec(spec=convert(record, PodSpec))
    workload = Workload(spec=WorkloadSpec(pod_sets=[PodSet(template=template, count=1)]))
    limits = convert(run.inputs.get("summary") or {}, dict[str, LimitRangeItem])
    same(faults(run.expected["want"]), found(limit_range_faults(workload, limits)))


def faults(wanted: list[Json] | None) -> list[Any]:
    """The recorded faults without their texts."""
    return [[each["type"], each["field"]] for each in wanted or ()]


def found(errors: list[FieldError]) -> list[Any]:
    return [[error.type.value, error.path] for error in errors]


@suite("util/taints-TestTaintKeyExists")
def taint_key(run: Run) -> None:
    taints = convert(run.inputs["shared"]["testingTaints"], list[Taint])
    same(run.expected["expectedResult"], has_taint_key(taints, run.inputs["taintKeyToMatch"]))


@suite("util/tolerations-TestEqual")
def equal_tolerations(run: Run) -> None:
    a, b = (convert(run.inputs[side], Toleration) for side in "ab")
    same(run.expected["wantEq"], same_toleration(a, b))


@suite(
    "util/wait-TestBackoff_WaitTime",
    "util/wait-TestBackoff_WaitTime_Consecutive",
    ignores={"inputs.backoff.backoff.Steps": "as many as an integer of Go can hold: no limit"},
)
def wait_times(run: Run) -> None:
    record = run.inputs["backoff"]["backoff"]
    backoff = Backoff(base=record["Duration"], cap=record["Cap"], factor=record["Factor"])
    same(record["Jitter"], 0)
    if "iterations" in run.inputs:
        wanted = [nanoseconds(each) for each in run.expected["want"]]
        same(wanted, [backoff.wait(each) for each in run.inputs["iterations"]])
    else:
        same(nanoseconds(run.expected["want"]), backoff.wait(run.inputs.get("iteration", 0)))


def nanoseconds(text: str) -> int:
    """A Go duration such as `1h2m3.5s`, exactly."""
    total = 0
    check(re.fullmatch(r"([0-9.]+(h|ms|us|ns|m|s))+", text) is not None, f"no duration: {text}")
    for number, unit in re.findall(r"([0-9.]+)(h|ms|us|ns|m|s)", text):
        whole, _, part = number.partition(".")
        scale = _NANOSECONDS[unit]
        total += int(whole) * scale + (int(part) * scale // 10 ** len(part) if part else 0)
    return total
