# SPDX-License-Identifier: Apache-2.0
"""Suites on a Workload's resources: adjusted templates, requests and limits."""

from __future__ import annotations

from msgspec import to_builtins

from conformance.case import Run, same
from conformance.recorder import convert
from conformance.registry import suite
from kuota.api.adjust import adjusted, limit_range_faults, summarize
from kuota.api.core import LimitRange, RuntimeClass
from kuota.api.resources import request_faults
from kuota.api.workload import Workload

from .util_values import faults, found


@suite("workload/workload-TestAdjustResources")
def adjust(run: Run) -> None:
    classes = convert(run.inputs.get("runtimeClasses") or [], list[RuntimeClass])
    workload = adjusted(
        convert(run.inputs["wl"], Workload),
        convert(run.inputs.get("limitranges") or [], list[LimitRange]),
        {each.metadata.name: each for each in classes},
    )
    same(to_builtins(convert(run.expected["wantWl"], Workload)), to_builtins(workload))


@suite("workload/workload-TestValidateResources")
def requests_within_limits(run: Run) -> None:
    workload = convert(run.inputs["workloadInfo"]["workload"], Workload)
    same(faults(run.expected["wantError"]), found(request_faults(workload)))


@suite("workload/workload-TestValidateLimitRange")
def within_limit_range(run: Run) -> None:
    record = run.inputs.get("limitRange")
    ranges = [convert(record, LimitRange)] if record else []
    workload = convert(run.inputs["workload"], Workload)
    same(faults(run.expected["wantError"]), found(limit_range_faults(workload, summarize(ranges))))
