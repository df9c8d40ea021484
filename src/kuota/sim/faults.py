# SPDX-License-Identifier: Apache-2.0
"""Faults of a Job or Workload that only show when it is to be counted with."""

from __future__ import annotations

from collections.abc import Iterator

from kuota.api.base import Json
from kuota.api.faults import FieldError, invalid
from kuota.api.quantity import QuantityError, parse
from kuota.api.rules.report import child, elements, mapping

from .times import time_faults


def manifest_faults(obj: Json) -> Iterator[FieldError]:
    """Every duration and every quantity of its pods that cannot be read."""
    yield from time_faults(obj)
    if obj.get("kind") == "Job":
        yield from _template_faults(child(obj, "spec", "template"), "spec.template")
    for index, pod_set in enumerate(elements(child(obj, "spec").get("podSets"))):
        yield from _template_faults(child(pod_set, "template"), f"spec.podSets[{index}].template")


def _template_faults(template: Json, at: str) -> Iterator[FieldError]:
    spec = child(template, "spec")
    yield from _resource_faults(child(spec, "resources"), f"{at}.spec.resources")
    yield from _amount_faults(child(spec, "overhead"), f"{at}.spec.overhead")
    for field in ("containers", "initContainers"):
        for index, each in enumerate(elements(spec.get(field))):
            path = f"{at}.spec.{field}[{index}].resources"
            yield from _resource_faults(child(mapping(each), "resources"), path)


def _resource_faults(resources: Json, at: str) -> Iterator[FieldError]:
    for field in ("requests", "limits"):
        yield from _amount_faults(child(resources, field), f"{at}.{field}")


def _amount_faults(amounts: Json, at: str) -> Iterator[FieldError]:
    for name, amount in amounts.items():
        try:
            parse(amount)
        except (QuantityError, TypeError) as error:
            yield invalid(f"{at}[{name}]", amount, str(error))
