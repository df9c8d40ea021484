# SPDX-License-Identifier: Apache-2.0
"""Validates ClusterQueues on creation and update, as Kueue's webhook does."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ..base import Json
from ..faults import FieldError, forbidden, immutable, invalid, not_supported
from ..gates import Gate, Gates
from .metadata import selector_faults
from .quota import (
    RESOURCE_GROUPS,
    QuotaOwner,
    flavor_names,
    resource_group_faults,
    total_faults,
    weight_faults,
)
from .report import child, elements, mapping, same, text, texts

_CHECKS = "spec.admissionChecksStrategy.admissionChecks"
_POLICY = "spec.concurrentAdmissionPolicy"
_MAX_CONCURRENT_FLAVORS = 16


def cluster_queue_faults(obj: Json, old: Json | None, gates: Gates) -> Iterator[FieldError]:
    spec = child(obj, "spec")
    owner = QuotaOwner("cohortName", bool(spec.get("cohortName")), lends_at_most_nominal=True)
    yield from resource_group_faults(spec, owner)
    yield from selector_faults(spec.get("namespaceSelector"), "spec.namespaceSelector")
    yield from preemption_faults(spec)
    yield from fungibility_faults(spec)
    yield from weight_faults(spec)
    yield from total_faults(spec)
    yield from _check_faults(spec, child(old, "spec"), gates)
    if gates.on(Gate.ConcurrentAdmission):
        yield from _concurrent_faults(spec)
    if old is not None:
        yield from _policy_update_faults(spec, child(old, "spec"))


def preemption_faults(spec: Json) -> Iterator[FieldError]:
    preemption = child(spec, "preemption")
    borrowing = preemption.get("borrowWithinCohort")
    if borrowing is None or preemption.get("reclaimWithinCohort") != "Never":
        return
    policy = mapping(borrowing).get("policy")
    if policy != "Never":
        message = f"borrowWithinCohort.policy {policy or '(none)'} needs reclaimWithinCohort"
        fix = "set reclaimWithinCohort to LowerPriority or Any, or borrowWithinCohort to Never"
        yield invalid("spec.preemption", preemption, message, fix)


def fungibility_faults(spec: Json) -> Iterator[FieldError]:
    fungibility = child(spec, "flavorFungibility")
    preference = fungibility.get("preference")
    policies = [fungibility.get(field) for field in ("whenCanBorrow", "whenCanPreempt")]
    if preference and policies != ["TryNextFlavor", "TryNextFlavor"]:
        message = "takes effect only if every flavor is tried before one is chosen"
        fix = "set whenCanBorrow and whenCanPreempt to TryNextFlavor, or remove preference"
        yield invalid("spec.flavorFungibility.preference", preference, message, fix)


def _check_faults(spec: Json, old: Json, gates: Gates) -> Iterator[FieldError]:
    """Yield a fault for each admission check that names a flavor which the queue does not have."""
    flavors = flavor_names(spec)
    tolerated = _tolerated_checks(spec, old, gates)
    for index, each in enumerate(_checks(spec)):
        on_flavors = texts(each.get("onFlavors"))
        if tolerated.get(text(each.get("name"))) == set(on_flavors):
            continue
        for number, flavor in enumerate(on_flavors):
            if flavor not in flavors:
                at = f"{_CHECKS}[{index}].onFlavors[{number}]"
                yield not_supported(at, flavor, flavors, "a flavor of this ClusterQueue")


def _tolerated_checks(spec: Json, old: Json, gates: Gates) -> dict[str, set[str]]:
    """Return the flavors by check that an earlier Kueue accepted and that are unchanged."""
    if gates.on(Gate.RejectUpdatesToCQWithInvalidOnFlavors):
        return {}
    if set(flavor_names(old)) != set(flavor_names(spec)):
        return {}
    return {text(each.get("name")): set(texts(each.get("onFlavors"))) for each in _checks(old)}


def _checks(spec: Json) -> list[Json]:
    checks = child(spec, "admissionChecksStrategy").get("admissionChecks")
    return [mapping(each) for each in elements(checks)]


def _concurrent_faults(spec: Json) -> Iterator[FieldError]:
    if spec.get("concurrentAdmissionPolicy") is None:
        return
    groups = elements(spec.get("resourceGroups"))
    if len(groups) != 1:
        message = f"concurrent admission needs exactly one resource group, there are {len(groups)}"
        yield invalid(RESOURCE_GROUPS, len(groups), message, _policy_fix("use one group"))
    elif (count := len(flavor_names(spec))) > _MAX_CONCURRENT_FLAVORS:
        most = f"at most {_MAX_CONCURRENT_FLAVORS} are allowed with concurrent admission"
        path = f"{RESOURCE_GROUPS}[0].flavors"
        yield invalid(path, count, f"{count} flavors, {most}", _policy_fix("remove flavors"))
    if spec.get("queueingStrategy") == "StrictFIFO":
        message = "StrictFIFO cannot be combined with concurrent admission"
        fix = _policy_fix("use BestEffortFIFO")
        yield invalid("spec.queueingStrategy", "StrictFIFO", message, fix)
    yield from _migration_faults(spec)


def _migration_faults(spec: Json) -> Iterator[FieldError]:
    migration = child(spec, "concurrentAdmissionPolicy", "migration")
    mode, constraints = migration.get("mode"), migration.get("constraints")
    path = f"{_POLICY}.migration.constraints"
    if constraints is None:
        return
    if mode not in (None, "", "TryPreferredFlavors"):
        fix = "set mode to TryPreferredFlavors, or remove constraints"
        yield forbidden(path, f"mode {mode} never migrates, so nothing constrains it", fix)
        return
    last = mapping(constraints).get("lastAcceptableFlavorName")
    flavors = flavor_names(spec)
    if last is not None and last not in flavors:
        message = f"{last} is not a flavor of this ClusterQueue"
        fix = f"use one of: {', '.join(flavors)}" if flavors else "add it to resourceGroups"
        yield invalid(f"{path}.lastAcceptableFlavorName", last, message, fix)


def _policy_fix(fix: str) -> str:
    return f"{fix}, or remove {_POLICY}"


def _policy_update_faults(spec: Json, old: Json) -> Iterator[FieldError]:
    # The policy is immutable even if the gate is disabled, so that it survives a gate change.
    before: Any = old.get("concurrentAdmissionPolicy")
    after: Any = spec.get("concurrentAdmissionPolicy")
    if (before is None) != (after is None) or not same(before, after):
        fix = "create a new ClusterQueue with the policy you want"
        yield immutable(_POLICY, after, "after creation", fix)
