# SPDX-License-Identifier: Apache-2.0
"""Validates the amounts of resources that pods request.

Quota is charged for the sum of all amounts of a pod. An amount that reduces this sum, or a device
that is only partly charged, would let a process use more than its quota.
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from kuota.api import names, quantity
from kuota.api.adjust import adjusted_spec
from kuota.api.base import Json
from kuota.api.core import PodSpec
from kuota.api.faults import FieldError, forbidden, invalid, required
from kuota.api.resources import is_pod_level, nanos, pod_requests

from .columns import listed, mapped

_HUGE_PAGES = "hugepages-"


def container_amount_faults(container: Json, path: str) -> Iterator[FieldError]:
    yield from _requirement_faults(mapped(container.get("resources")), f"{path}.resources")


def pod_amount_faults(spec: Json, path: str) -> Iterator[FieldError]:
    """Validate the amounts of a pod as a whole: its overhead and its own resources."""
    yield from _amount_faults(mapped(spec.get("overhead")), f"{path}.overhead")
    resources = mapped(spec.get("resources"))
    if not resources:
        return
    below = f"{path}.resources"
    yield from _requirement_faults(resources, below)
    for field in ("requests", "limits"):
        for name in mapped(resources.get(field)):
            if not is_pod_level(name):
                message = f"{name} cannot be set for a pod as a whole; set it for its containers"
                yield forbidden(f"{below}.{field}", message)
    yield from _total_faults(spec, resources, below)


def _requirement_faults(resources: Json, path: str) -> Iterator[FieldError]:
    requests, limits = mapped(resources.get("requests")), mapped(resources.get("limits"))
    yield from _amount_faults(requests, f"{path}.requests")
    yield from _amount_faults(limits, f"{path}.limits")
    for name, value in requests.items():
        limit, fixed = limits.get(name), not _is_overcommitted(name)
        if limit is None:
            if fixed:
                message = f"a limit must be set for {name}"
                yield required(f"{path}.limits[{name}]", message, f"set it to {value}")
        elif fixed and quantity.parse(value) != quantity.parse(limit):
            message = f"must be equal to the limit of {name}, {limit}"
            yield invalid(f"{path}.requests[{name}]", value, message)
        elif quantity.parse(value) > quantity.parse(limit):
            message = f"must be less than or equal to the limit of {name}, {limit}"
            yield invalid(f"{path}.requests[{name}]", value, message)


def _amount_faults(amounts: Json, path: str) -> Iterator[FieldError]:
    for name, value in amounts.items():
        for complaint in names.qualified_name(name):
            yield invalid(f"{path}[{name[:100]}]", name[:100], complaint)
        nano = quantity.parse(value)
        if nano < 0:
            yield invalid(f"{path}[{name}]", value, "must be 0 or more")
        if _is_extended(name) and nano % quantity.NANO:
            yield invalid(f"{path}[{name}]", value, "must be an integer")


def _total_faults(spec: Json, resources: Json, path: str) -> Iterator[FieldError]:
    """Compare the resources of the pod, which replace those of its containers, with these."""
    own = {**mapped(resources.get("limits")), **mapped(resources.get("requests"))}
    fields = {name: spec[name] for name in ("containers", "initContainers") if spec.get(name)}
    total = pod_requests(adjusted_spec(msgspec.convert(fields, PodSpec), {}, {}))
    for name, value in own.items():
        if is_pod_level(name) and quantity.parse(value) < total.get(name, 0):
            message = f"must be at least the total of the containers' requests of {name}"
            yield invalid(f"{path}.requests[{name}]", value, message)
    most = nanos(mapped(resources.get("limits")))
    for field in ("initContainers", "containers"):
        for at, container in enumerate(listed(spec.get(field))):
            limits = mapped(mapped(container.get("resources")).get("limits"))
            for name, value in limits.items():
                if name in most and quantity.parse(value) > most[name]:
                    place = f"{path.removesuffix('.resources')}.{field}[{at}].resources"
                    message = f"must be less than or equal to the limit of the pod for {name}"
                    yield invalid(f"{place}.limits[{name}]", value, message)


def _is_extended(name: str) -> bool:
    """Whether this is a resource of a device plugin, which only exists in whole units."""
    return "/" in name and "kubernetes.io/" not in name


def _is_overcommitted(name: str) -> bool:
    """Whether a container may use more of the resource than it requests."""
    return not _is_extended(name) and not name.startswith(_HUGE_PAGES)
