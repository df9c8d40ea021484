# SPDX-License-Identifier: Apache-2.0
"""LimitRanges of a namespace merged into one, and what they say about pods.

Faults are found on adjusted templates (see `kuota.api.adjust`): defaults are filled in before
maxima and minima are checked, as an API server would.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from .base import Quantity, ResourceList
from .core import LimitRange, LimitRangeItem
from .faults import ErrorType, FieldError
from .quantity import parse
from .resources import Nanos, containers, nanos, pod_requests, pod_set_path
from .workload import Workload

CONTAINER = "Container"
POD = "Pod"

Summary = Mapping[str, LimitRangeItem]
"""One merged item per type. The item's own `type` is left empty."""


def summarize(ranges: Iterable[LimitRange]) -> dict[str, LimitRangeItem]:
    """The limits of all ranges together: smallest maxima, largest minima, first defaults."""
    merged: dict[str, LimitRangeItem] = {}
    for limit_range in ranges:
        for item in limit_range.spec.limits or ():
            merged[item.type] = _merged(merged.get(item.type, LimitRangeItem()), item)
    return merged


def _merged(one: LimitRangeItem, other: LimitRangeItem) -> LimitRangeItem:
    return LimitRangeItem(
        max=_joined(one.max, other.max, _smaller),
        min=_joined(one.min, other.min, _larger),
        default=_joined(one.default, other.default, _first),
        default_request=_joined(one.default_request, other.default_request, _first),
        max_limit_request_ratio=_joined(
            one.max_limit_request_ratio, other.max_limit_request_ratio, _smaller
        ),
    )


def _joined(
    one: ResourceList | None,
    other: ResourceList | None,
    choice: Callable[[Quantity, Quantity], Quantity],
) -> ResourceList | None:
    if not one or not other:
        return one or other
    return {
        **other,
        **{name: choice(value, other.get(name, value)) for name, value in one.items()},
    }


def _smaller(a: Quantity, b: Quantity) -> Quantity:
    return min(a, b, key=parse)


def _larger(a: Quantity, b: Quantity) -> Quantity:
    return max(a, b, key=parse)


def _first(a: Quantity, b: Quantity) -> Quantity:
    return a


def limit_range_faults(workload: Workload, summary: Summary) -> list[FieldError]:
    """Every container and pod of the workload that breaks a maximum or minimum.

    The ratio of limit to request is not checked, nor is a resource that is not mentioned.
    """
    faults: list[FieldError] = []
    for index, pod_set in enumerate(workload.spec.pod_sets or ()):
        path, spec = pod_set_path(index), pod_set.template.spec
        if item := summary.get(CONTAINER):
            for at, container in containers(spec, path):
                requests = nanos(container.resources.requests)
                limits = nanos(container.resources.limits)
                highest = {**limits, **requests, **_both(max, requests, limits)}
                lowest = {**limits, **requests, **_both(min, requests, limits)}
                faults += _faults(at, item, highest, lowest)
        if item := summary.get(POD):
            total = pod_requests(spec)
            faults += _faults(path, item, total, total)
    return faults


def _both(choice: Callable[[int, int], int], a: Nanos, b: Nanos) -> Nanos:
    return {name: choice(a[name], b[name]) for name in a.keys() & b.keys()}


def _faults(path: str, item: LimitRangeItem, highest: Nanos, lowest: Nanos) -> list[FieldError]:
    found = []
    if above := _beyond(nanos(item.max), highest, 1):
        found.append(_fault(path, above, "above the maximum", "lower them"))
    if below := _beyond(nanos(item.min), lowest, -1):
        found.append(_fault(path, below, "below the minimum", "raise them"))
    return found


def _beyond(bounds: Nanos, values: Nanos, sign: int) -> list[str]:
    """The resources whose value lies beyond its bound, upwards for +1, downwards for -1."""
    return sorted(
        name
        for name, bound in bounds.items()
        if name in values and sign * (values[name] - bound) > 0
    )


def _fault(path: str, names: list[str], how: str, fix: str) -> FieldError:
    return FieldError(
        path=path,
        type=ErrorType.INVALID,
        message=f"requests of {', '.join(names)} are {how} of the namespace's LimitRange",
        value=names,
        fix=f"{fix}, or change the LimitRange",
    )
