# SPDX-License-Identifier: Apache-2.0
"""Validates resource groups and fair-sharing weights, which ClusterQueue and Cohort share."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec

from .. import names
from ..base import Json
from ..faults import FieldError, duplicate, invalid, malformed
from .report import child, elements, mapping, nano, objects, text, texts

RESOURCE_GROUPS = "spec.resourceGroups"
_MAX_FLAVORS = 256
_MAX_RESOURCES = 256
_MAX_PAIRS = 512


class QuotaOwner(msgspec.Struct, frozen=True):
    """The owner of the resource groups. `parent_field` names the parent that it can borrow from."""

    parent_field: str
    has_parent: bool
    lends_at_most_nominal: bool


def flavor_names(spec: Json) -> list[str]:
    """Return the flavors of all resource groups in order of preference, including duplicates."""
    return [text(flavor.get("name")) for _, _, _, flavor in each_flavor(spec)]


def each_flavor(spec: Json) -> Iterator[tuple[str, Json, str, Json]]:
    """Yield the path of the group, the group, the path of the flavor, and the flavor, for each."""
    for path, group in objects(spec.get("resourceGroups"), RESOURCE_GROUPS):
        for at, flavor in objects(group.get("flavors"), f"{path}.flavors"):
            yield path, group, at, flavor


def resource_group_faults(spec: Json, owner: QuotaOwner) -> Iterator[FieldError]:
    resources: set[str] = set()
    flavors: set[str] = set()
    for path, group in objects(spec.get("resourceGroups"), RESOURCE_GROUPS):
        yield from _covered_faults(group, path, resources)
        for at, flavor in objects(group.get("flavors"), f"{path}.flavors"):
            yield from _name_faults(flavor, at, flavors)
            yield from _quota_faults(flavor, group, at, owner)


def _covered_faults(group: Json, path: str, seen: set[str]) -> Iterator[FieldError]:
    for index, name in enumerate(elements(group.get("coveredResources"))):
        if not isinstance(name, str):
            continue
        at = f"{path}.coveredResources[{index}]"
        yield from malformed(at, name, names.qualified_name(name))
        if name in seen:
            fix = "a resource can be in one resource group only: keep it in one of them"
            yield duplicate(at, name, f"resource {name} is already covered above", fix)
        seen.add(name)


def _name_faults(flavor: Json, path: str, seen: set[str]) -> Iterator[FieldError]:
    name = text(flavor.get("name"))
    if name in seen:
        fix = "a flavor can be in one resource group only; make a second ResourceFlavor if needed"
        yield duplicate(f"{path}.name", name, f"flavor {name} is already used above", fix)
    seen.add(name)


def _quota_faults(flavor: Json, group: Json, path: str, owner: QuotaOwner) -> Iterator[FieldError]:
    """Yield the faults of the quotas of covered resources. The schema rejects others."""
    covered = elements(group.get("coveredResources"))
    for index, (each, name) in enumerate(
        zip(elements(flavor.get("resources")), covered, strict=False)
    ):
        quota, at = mapping(each), f"{path}.resources[{index}]"
        if quota.get("name", "") != name:
            fix = f"list resources in the order of coveredResources: {', '.join(texts(covered))}"
            message = f"expected {name} here, found {quota.get('name')}"
            yield invalid(f"{at}.name", quota.get("name"), message, fix)
        yield from _amount_faults(quota, at, owner)


def _amount_faults(quota: Json, path: str, owner: QuotaOwner) -> Iterator[FieldError]:
    nominal, lending = nano(quota.get("nominalQuota")), nano(quota.get("lendingLimit"))
    yield from _negative_faults(quota, "nominalQuota", path)
    yield from _limit_faults(quota, "borrowingLimit", path, owner)
    yield from _limit_faults(quota, "lendingLimit", path, owner)
    if owner.lends_at_most_nominal and lending is not None and lending > (nominal or 0):
        message = f"is {quota['lendingLimit']}, above nominalQuota {quota.get('nominalQuota', 0)}"
        fix = "only nominal quota can be lent: lower lendingLimit or raise nominalQuota"
        yield invalid(f"{path}.lendingLimit", quota["lendingLimit"], message, fix)


def _limit_faults(quota: Json, field: str, path: str, owner: QuotaOwner) -> Iterator[FieldError]:
    if quota.get(field) is None:
        return
    yield from _negative_faults(quota, field, path)
    if not owner.has_parent:
        message = f"has no effect without spec.{owner.parent_field}"
        fix = f"set spec.{owner.parent_field}, or remove {field}"
        yield invalid(f"{path}.{field}", quota[field], message, fix)


def _negative_faults(quota: Json, field: str, path: str) -> Iterator[FieldError]:
    amount = nano(quota.get(field))
    if amount is not None and amount < 0:
        yield invalid(f"{path}.{field}", quota[field], f"must be 0 or more, is {quota[field]}")


def total_faults(spec: Json) -> Iterator[FieldError]:
    """Yield a fault for each limit on flavors, resources or quotas that the groups exceed."""
    groups = [mapping(each) for each in elements(spec.get("resourceGroups"))]
    flavors = sum(len(elements(group.get("flavors"))) for group in groups)
    resources = sum(len(elements(group.get("coveredResources"))) for group in groups)
    yield from _above(RESOURCE_GROUPS, flavors, _MAX_FLAVORS, "flavors in all groups together")
    yield from _above(RESOURCE_GROUPS, resources, _MAX_RESOURCES, "resources in all groups")
    for index, group in enumerate(groups):
        flavored = (mapping(each).get("resources") for each in elements(group.get("flavors")))
        pairs = sum(len(elements(each)) for each in flavored)
        yield from _above(f"{RESOURCE_GROUPS}[{index}]", pairs, _MAX_PAIRS, "quotas in one group")


def _above(path: str, count: int, most: int, what: str) -> Iterator[FieldError]:
    if count > most:
        yield invalid(path, count, f"{count} {what}, at most {most} are allowed")


def weight_faults(spec: Json) -> Iterator[FieldError]:
    weight: Any = child(spec, "fairSharing").get("weight")
    amount = nano(weight)
    if amount is None:
        return
    if amount < 0:
        fix = "use 0 to be served last, or a positive weight"
        yield invalid("spec.fairSharing", weight, f"weight must be 0 or more, is {weight}", fix)
    elif 0 < amount <= 1:
        fix = "use 0, or a weight above 1n (a billionth)"
        yield invalid("spec.fairSharing", weight, f"weight {weight} is too close to 0", fix)
