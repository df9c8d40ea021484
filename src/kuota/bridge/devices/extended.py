# SPDX-License-Identifier: Apache-2.0
"""Extended resources that DRA provides: a DeviceClass names the resource it stands for."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping

from kuota.api.base import Json
from kuota.api.core import Container, PodSpec
from kuota.api.gates import Gate, Gates
from kuota.api.quantity import NANO, UNLIMITED, parse
from kuota.api.rules.report import child, text

from .charges import DeviceFault
from .mappings import ClassMapping


def is_extended(name: str) -> bool:
    """Whether Kubernetes treats a resource of this name as an extended resource."""
    native = "/" not in name or "kubernetes.io/" in name
    return not native and not name.startswith("requests.")


def selected_class(classes: Iterable[Json]) -> Json:
    """Return the class that Kubernetes selects among those with one extended resource name.

    It is the one that was created last; of several, the first by name.
    """
    by_name = sorted(classes, key=lambda each: text(child(each, "metadata").get("name")))
    return max(by_name, key=lambda each: text(child(each, "metadata").get("creationTimestamp")))


def extended_names(spec: PodSpec) -> Collection[str]:
    """Return the extended resources that the containers of a pod request."""
    return _requests(spec, "").keys()


def extended_requests(
    spec: PodSpec,
    path: str,
    classes: Mapping[str, Json],
    mappings: Mapping[str, ClassMapping],
    gates: Gates,
) -> tuple[dict[str, int], frozenset[str], list[DeviceFault]]:
    """Return the amounts of one pod by quota resource, the requests they replace, and faults.

    `classes` are the DeviceClasses by extended resource name.
    """
    amounts: dict[str, int] = {}
    replaced: set[str] = set()
    faults: list[DeviceFault] = []
    for name, listed in sorted(_requests(spec, path).items()):
        if name not in classes:
            continue
        wrong = list(_faults(name, listed, classes[name], mappings, gates))
        if wrong:
            faults += wrong
            continue
        known = mappings.get(_name(classes[name]))
        resource = known.resource if known is not None else name
        amounts[resource] = min(amounts.get(resource, 0) + _total(listed) // NANO, UNLIMITED)
        replaced.add(name)
    return amounts, frozenset(replaced), faults


class _Request:
    """The request of one container, in nano-units."""

    def __init__(self, path: str, init: bool, nano: int) -> None:
        self.path, self.init, self.nano = path, init, nano


def _requests(spec: PodSpec, path: str) -> dict[str, list[_Request]]:
    found: dict[str, list[_Request]] = {}
    for at, init, container in _containers(spec, path):
        for name, quantity in (container.resources.requests or {}).items():
            nano = parse(quantity)
            if nano > 0 and is_extended(name):
                found.setdefault(name, []).append(_Request(at, init, nano))
    return found


def _containers(spec: PodSpec, path: str) -> Iterator[tuple[str, bool, Container]]:
    for index, each in enumerate(spec.init_containers or ()):
        yield f"{path}.initContainers[{index}]", True, each
    for index, each in enumerate(spec.containers or ()):
        yield f"{path}.containers[{index}]", False, each


def _total(listed: list[_Request]) -> int:
    """Return the larger of the largest init container and the sum of the others."""
    largest = max((each.nano for each in listed if each.init), default=0)
    return max(largest, sum(each.nano for each in listed if not each.init))


def _faults(
    name: str,
    listed: list[_Request],
    device_class: Json,
    mappings: Mapping[str, ClassMapping],
    gates: Gates,
) -> Iterator[DeviceFault]:
    known = mappings.get(_name(device_class))
    for gate, sources in (
        (Gate.KueueDRAIntegrationPartitionableDevices, known.counters if known else ()),
        (Gate.KueueDRAIntegrationConsumableCapacity, known.capacities if known else ()),
    ):
        if sources and gates.on(gate):
            yield DeviceFault(
                listed[0].path,
                f"{name} stands for DeviceClass {_name(device_class)}, which is charged by what "
                "its devices consume; request it through a ResourceClaimTemplate",
            )
            return
    parts = [each for each in listed if each.nano % NANO]
    for each in parts:
        yield DeviceFault(f"{each.path}.resources.requests.{name}", "must be a whole number")
    if not parts and _total(listed) // NANO > UNLIMITED:
        yield DeviceFault(f"{listed[0].path}.resources.requests.{name}", "is too large in total")


def _name(device_class: Json) -> str:
    return text(child(device_class, "metadata").get("name"))


def by_extended_name(classes: Iterable[Json]) -> dict[str, Json]:
    """Return the class that Kubernetes selects for each extended resource name."""
    named: dict[str, list[Json]] = {}
    for each in classes:
        named.setdefault(text(child(each, "spec").get("extendedResourceName")), []).append(each)
    named.pop("", None)
    return {name: selected_class(each) for name, each in named.items()}
