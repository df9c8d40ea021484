# SPDX-License-Identifier: Apache-2.0
"""Suites on devices that are requested through dynamic resource allocation."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from conformance.case import Json, Run, same
from conformance.recorder import convert, whole
from conformance.registry import suite
from conformance.world import gates_of
from kuota.api.config.shapes import DeviceClassMapping
from kuota.api.gates import Gate, Gates
from kuota.api.quantity import UNLIMITED, units
from kuota.api.rules.report import child
from kuota.api.workload import Workload
from kuota.bridge.devices.charges import (
    DeviceFault,
    capacity_charge,
    counter_charge,
    nano,
    pools,
    rounded_to_range,
    rounded_to_values,
)
from kuota.bridge.devices.charges import whole as amount_of
from kuota.bridge.devices.claims import exact_request, needs_devices
from kuota.bridge.devices.extended import extended_requests, is_extended, selected_class
from kuota.bridge.devices.mappings import Source, class_mappings


@suite(
    "workload/dra-TestComputeCapacityCharge",
    ignores={"inputs.shared": "a path of Go, which the record does not print"},
)
def capacity(run: Run) -> None:
    source = Source(resource="gpu", driver="d", name="memory")
    asked = run.inputs.get("explicitRequest")
    matched, count = whole(run.inputs["matched"]), run.inputs["count"]
    charge: int | str = ""
    error = ""
    try:
        charge = capacity_charge(source, matched, count, asked, "")
    except DeviceFault as fault:
        error = "InternalError" if fault.retry else "FieldValueInvalid"
    same(run.expected["wantErrType"], error)
    wanted = run.expected["wantCharge"]
    same(units(wanted, "gpu") if wanted else "", charge)


@suite("workload/dra-TestComputeCounterCharges")
def counters(run: Run) -> None:
    given, resource = run.inputs["cc"], run.inputs["quotaResource"]
    same({}, whole(given["deviceSelector"]))
    same("", given["quotaResource"])
    source = Source(resource=resource, driver=given["driver"], name=given["counterName"])
    found = counter_charge(source, whole(run.inputs["matched"]) or (), run.inputs["count"])
    wanted = whole(run.expected["want"])
    expected = {name: units(value, name) for name, value in (wanted or {}).items()}
    same(expected, {} if found is None else {source.resource: found})


@suite("workload/dra-TestCreateMapperFromConfiguration")
def mappings(run: Run) -> None:
    found = class_mappings(convert(run.inputs["deviceClassMappings"], list[DeviceClassMapping]))
    sources = {name: [_counter(each) for each in known.counters] for name, known in found.items()}
    same(whole(run.expected["wantCounterConfigsList"]), sources)
    lookup = whole(run.expected["wantDeviceLookup"])
    if lookup is not None:
        same(lookup, {name: known.resource for name, known in found.items()})


def _counter(source: Source) -> Json:
    return {
        "counterName": source.name,
        "driver": source.driver,
        "quotaResource": source.resource,
    }


@suite("workload/dra-TestGroupSlicesByPool")
def slices_by_pool(run: Run) -> None:
    found = pools(whole(run.inputs["slices"]) or (), run.inputs["driver"])
    same(run.expected["wantPools"], len(found))
    complete, generations = run.expected["wantComplete"], run.expected["wantGeneration"]
    same(whole(complete) or {}, {name: pool.complete for name, pool in found.items()})
    same(whole(generations) or {}, {name: pool.generation for name, pool in found.items()})


@suite(
    "workload/dra-TestIsExtendedResourceName",
    ignores={"inputs.resourceName": "the name of the case"},
)
def extended_name(run: Run) -> None:
    same(run.expected["want"], is_extended(run.inputs["resource"]))


@suite("workload/dra-TestNeedsDRAReconcile")
def depends_on_devices(run: Run) -> None:
    gates = gates_of(run)
    same(run.inputs["draGate"], gates.on("KueueDRAIntegration"))  # type: ignore[arg-type]
    same(run.inputs["erGate"], gates.on("KueueDRAIntegrationExtendedResource"))  # type: ignore[arg-type]
    extended = whole(run.inputs.get("cachedResources")) or {}
    workload = convert(run.inputs["workload"], Workload)
    same(run.expected["want"], needs_devices(workload, extended, gates))


@suite("workload/dra-TestResolveExtendedResourceQuota")
def extended_quota(run: Run) -> None:
    # The input enables a gate; it never disables one that is on by default.
    enabled = {Gate.KueueDRAIntegrationPartitionableDevices} if run.inputs["enablePD"] else set()
    gates = Gates(gates_of(run).enabled | enabled)
    configured = convert(run.inputs.get("mapperMappings") or [], list[DeviceClassMapping])
    workload = convert(run.inputs["workload"], Workload)
    classes = by_extended_name(whole(run.inputs["deviceClasses"]))
    amounts, replaced, faults = {}, {}, []
    for index, each in enumerate(workload.spec.pod_sets or ()):
        path = f"spec.podSets[{index}].template.spec"
        found = extended_requests(
            each.template.spec, path, classes, class_mappings(configured), gates
        )
        amounts[each.name], replaced[each.name] = found[0], sorted(found[1])
        faults += [fault.path for fault in found[2]]
    wanted = [each["field"] for each in run.expected["wantErr"] or ()]
    types = {each["type"] for each in run.expected["wantErr"] or ()}
    same(set(), types - {"FieldValueInvalid"})
    same(wanted, faults)
    if not faults:
        same(_amounts(run.expected["want"]), {name: each for name, each in amounts.items() if each})
        kept = {name: each for name, each in replaced.items() if each}
        same(whole(run.expected["wantReplaced"]) or {}, kept)
    else:
        same((None, None), (run.expected["want"], run.expected["wantReplaced"]))


def _amounts(recorded: Any) -> dict[str, dict[str, int]]:
    return {
        pod_set: {name: units(value, name) for name, value in amounts.items()}
        for pod_set, amounts in (whole(recorded) or {}).items()
    }


def by_extended_name(classes: Iterable[Json]) -> dict[str, Json]:
    named: dict[str, list[Json]] = {}
    for each in classes:
        name = child(each, "spec").get("extendedResourceName")
        if name:
            named.setdefault(name, []).append(each)
    return {name: selected_class(each) for name, each in named.items()}


@suite("workload/dra-TestRoundToValidRange")
def valid_range(run: Run) -> None:
    given = run.inputs
    limits = (amount_of(given[name]) if given[name] else None for name in ("min", "max", "step"))
    found = rounded_to_range(amount_of(given["value"]), *limits)
    _rounded(run, found)


@suite("workload/dra-TestRoundToValidValues")
def valid_values(run: Run) -> None:
    valid = [nano(each) for each in run.inputs["validValues"]]
    _rounded(run, rounded_to_values(nano(run.inputs["value"]), valid), nano)


def _rounded(run: Run, found: int | None, unit: Callable[[object], int] = amount_of) -> None:
    same(run.expected["wantErr"], found is None)
    wanted = run.expected["want"]
    if found is not None:
        same(unit(wanted), found)
    else:
        same("", wanted or "")


@suite("workload/dra-TestSelectedDeviceClass")
def selected(run: Run) -> None:
    same(run.expected["want"], selected_class(whole(run.inputs["items"]))["metadata"]["name"])


@suite("workload/dra-Test_countDevicesPerClass_overflow")
def device_counts(run: Run) -> None:
    total = sum(exact_request(each, "")["count"] for each in whole(run.inputs["requests"]))
    same(run.expected["wantCount"], min(total, UNLIMITED))
