# SPDX-License-Identifier: Apache-2.0
"""Pod templates as they will be once the API server has filled them in.

A pending Workload is counted by these, never written back. Whatever is set already stays; where
nothing changes, the very same object is returned.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TypeVar

import msgspec

from .base import ResourceList
from .core import Container, LimitRange, LimitRangeItem, PodSpec, ResourceRequirements, RuntimeClass
from .limit_range import CONTAINER, POD, Summary, summarize
from .workload import PodSet, Workload

T = TypeVar("T")

_NO_LIMITS = LimitRangeItem()


def adjusted(
    workload: Workload,
    limit_ranges: Iterable[LimitRange] = (),
    runtime_classes: Mapping[str, RuntimeClass] | None = None,
) -> Workload:
    """The workload with overhead, LimitRange defaults and requests taken from limits.

    `limit_ranges` are those of its namespace; RuntimeClasses go by name, and one that is missing
    adds no overhead.
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
    """One pod spec, adjusted as `adjusted` does."""
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
    """Defaults first, then requests for whatever has a limit only."""
    limits = _with(resources.limits, item.default)
    requests = _with(_with(resources.requests, item.default_request), limits)
    if limits is resources.limits and requests is resources.requests:
        return resources
    return msgspec.structs.replace(resources, limits=limits, requests=requests)


def _with(own: ResourceList | None, defaults: ResourceList | None) -> ResourceList | None:
    """`own` completed from `defaults`; the same object when nothing is missing."""
    if not defaults or (own and defaults.keys() <= own.keys()):
        return own
    return {**defaults, **(own or {})}


def _same(some: list[T], others: list[T]) -> bool:
    return all(a is b for a, b in zip(some, others, strict=True))
