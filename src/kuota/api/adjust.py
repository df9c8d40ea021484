# SPDX-License-Identifier: Apache-2.0
"""Completes pod templates as the API server does: defaults, overhead, and LimitRanges.

The requests of a pending Workload come from adjusted templates, which are never written back.
Values that are already set are kept. If nothing changes, the same object is returned. Maxima and
minima are checked on adjusted templates, because the API server also checks them after defaulting.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TypeVar

import msgspec

from .base import Quantity, ResourceList
from .core import Container, LimitRange, LimitRangeItem, PodSpec, ResourceRequirements, RuntimeClass
from .faults import FieldError, invalid
from .quantity import parse
from .resources import Nanos, containers, nanos, pod_requests, pod_set_path
from .workload import PodSet, Workload

CONTAINER = "Container"
POD = "Pod"

T = TypeVar("T")

Summary = Mapping[str, LimitRangeItem]
"""One merged item per type. Its own `type` is empty."""

_NO_LIMITS = LimitRangeItem()


def summarize(ranges: Iterable[LimitRange]) -> dict[str, LimitRangeItem]:
    """Merge all ranges: smallest maxima, largest minima, first defaults."""
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
    """Return a fault for every container and pod that violates a maximum or minimum.

    The ratio of limit to request is not checked. A resource that a container does not mention is
    not checked either.
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
    """Return the resources beyond their bound: above it for +1, below it for -1."""
    return sorted(
        name
        for name, bound in bounds.items()
        if name in values and sign * (values[name] - bound) > 0
    )


def _fault(path: str, names: list[str], how: str, fix: str) -> FieldError:
    message = f"requests of {', '.join(names)} are {how} of the namespace's LimitRange"
    return invalid(path, names, message, f"{fix}, or change the LimitRange")


def adjusted(
    workload: Workload,
    limit_ranges: Iterable[LimitRange] = (),
    runtime_classes: Mapping[str, RuntimeClass] | None = None,
) -> Workload:
    """Return the workload with overhead, LimitRange defaults, and requests from limits.

    `limit_ranges` are those of its namespace. RuntimeClasses are given by name; a missing one adds
    no overhead.
    """
    summary = summarize(limit_ranges)
    classes = runtime_classes or {}
    pod_sets = workload.spec.pod_sets or []
    changed = [_adjusted_pod_set(pod_set, summary, classes) for pod_set in pod_sets]
    if _same(changed, pod_sets):
        return workload
    spec = msgspec.structs.replace(workload.spec, pod_sets=changed)
    return msgspec.structs.replace(workload, spec=spec)


def _adjusted_pod_set(
    pod_set: PodSet, summary: Summary, classes: Mapping[str, RuntimeClass]
) -> PodSet:
    spec = adjusted_spec(pod_set.template.spec, summary, classes)
    if spec is pod_set.template.spec:
        return pod_set
    template = msgspec.structs.replace(pod_set.template, spec=spec)
    return msgspec.structs.replace(pod_set, template=template)


def adjusted_spec(
    spec: PodSpec, summary: Summary, runtime_classes: Mapping[str, RuntimeClass]
) -> PodSpec:
    """Adjust one pod spec, as `adjusted` does."""
    container, pod = summary.get(CONTAINER, _NO_LIMITS), summary.get(POD, _NO_LIMITS)
    overhead = spec.overhead or _overhead(spec, runtime_classes)
    first = _containers(spec.init_containers, container)
    main = _containers(spec.containers, container)
    resources = None if spec.resources is None else _filled(spec.resources, pod)
    if (
        (overhead is spec.overhead or not overhead)
        and first is spec.init_containers
        and main is spec.containers
        and resources is spec.resources
    ):
        return spec
    return msgspec.structs.replace(
        spec, overhead=overhead, init_containers=first, containers=main, resources=resources
    )


def _overhead(spec: PodSpec, classes: Mapping[str, RuntimeClass]) -> ResourceList | None:
    found = classes.get(spec.runtime_class_name or "")
    return found.overhead.pod_fixed if found and found.overhead else spec.overhead


def _containers(some: list[Container] | None, item: LimitRangeItem) -> list[Container] | None:
    if not some:
        return some
    changed = [_container(each, item) for each in some]
    return some if _same(changed, some) else changed


def _container(container: Container, item: LimitRangeItem) -> Container:
    resources = _filled(container.resources, item)
    if resources is container.resources:
        return container
    return msgspec.structs.replace(container, resources=resources)


def _filled(resources: ResourceRequirements, item: LimitRangeItem) -> ResourceRequirements:
    """Apply the defaults, then set requests for resources that have only a limit."""
    limits = _with(resources.limits, item.default)
    requests = _with(_with(resources.requests, item.default_request), limits)
    if limits is resources.limits and requests is resources.requests:
        return resources
    return msgspec.structs.replace(resources, limits=limits, requests=requests)


def _with(own: ResourceList | None, defaults: ResourceList | None) -> ResourceList | None:
    """Complete `own` from `defaults`. Return the same object if nothing is missing."""
    if not defaults or (own and defaults.keys() <= own.keys()):
        return own
    return {**defaults, **(own or {})}


def _same(some: list[T], others: list[T]) -> bool:
    return all(a is b for a, b in zip(some, others, strict=True))
