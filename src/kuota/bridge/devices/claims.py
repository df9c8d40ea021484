# SPDX-License-Identifier: Apache-2.0
"""The devices that the pods of a Workload request, as amounts of quota resources."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

from kuota.api.base import Json, Key
from kuota.api.gates import Gate, Gates
from kuota.api.quantity import UNLIMITED
from kuota.api.rules.report import child, elements, integer, mapping, text
from kuota.api.workload import PodSet, Workload
from kuota.engine.model import Struct

from .charges import DeviceFault, capacity_charge, counter_charge, pools
from .extended import extended_names, extended_requests
from .mappings import ClassMapping, Source

Selector = Callable[[str, Json], bool]
"""Whether a device of a driver matches. Raises DeviceFault."""

CompileSelector = Callable[[str], Selector]
"""Compiles a CEL expression. Raises DeviceFault."""

# Kueue's DRA tests match these messages.
_FIRST_AVAILABLE = "FirstAvailable device selection is not supported"
_TOO_FEW = "insufficient matching devices for CEL selector"


def _no_cel(expression: str) -> Selector:
    raise DeviceFault("", "selectors of devices need CEL; install the extra kuota[policies]")


class Devices(Struct):
    """What the cluster offers, and how it is charged.

    `classes` are the DeviceClasses by name, `extended` those by their extended resource name,
    `templates` the ResourceClaimTemplates, `slices` the ResourceSlices.
    """

    mappings: Mapping[str, ClassMapping] = {}
    classes: Mapping[str, Json] = {}
    extended: Mapping[str, Json] = {}
    templates: Mapping[Key, Json] = {}
    slices: tuple[Json, ...] = ()
    compile_selector: CompileSelector = _no_cel


class DeviceRequests(Struct):
    """The amounts of one pod, the requests that they replace, and why that is unknown."""

    amounts: Mapping[str, int] = {}
    replaced: frozenset[str] = frozenset()
    faults: tuple[str, ...] = ()


def with_devices(amounts: Mapping[str, int], claimed: DeviceRequests | None) -> dict[str, int]:
    """Return the amounts of one pod with those of its devices, which replace some of them."""
    if claimed is None:
        return dict(amounts)
    kept = {name: amount for name, amount in amounts.items() if name not in claimed.replaced}
    for name, amount in claimed.amounts.items():
        kept[name] = min(kept.get(name, 0) + amount, UNLIMITED)
    return kept


def uses_claims(obj: Workload) -> bool:
    """Whether pods of the Workload name ResourceClaims or templates of them."""
    return any(each.template.spec.resource_claims for each in obj.spec.pod_sets or ())


def needs_devices(obj: Workload, extended: Mapping[str, object], gates: Gates) -> bool:
    """Whether the requests of the Workload depend on devices."""
    if not gates.on(Gate.KueueDRAIntegration):
        return gates.on(Gate.KueueDRARejectWorkloadsWhenDRADisabled) and uses_claims(obj)
    if uses_claims(obj):
        return True
    if not gates.on(Gate.KueueDRAIntegrationExtendedResource):
        return False
    return any(
        name in extended
        for each in obj.spec.pod_sets or ()
        for name in extended_names(each.template.spec)
    )


def device_requests(obj: Workload, devices: Devices, gates: Gates) -> dict[str, DeviceRequests]:
    """Return the device requests of each pod set that has some, or the faults of the first."""
    if not gates.on(Gate.KueueDRAIntegration):
        rejects = gates.on(Gate.KueueDRARejectWorkloadsWhenDRADisabled)
        message = "uses ResourceClaims, but the KueueDRAIntegration feature gate is not enabled"
        return _rejected(obj, message) if rejects else {}
    if any(each.get("resourceClaimName") for each in _claims(obj)):
        return _rejected(obj, "ResourceClaims are not supported; use ResourceClaimTemplates")
    found: dict[str, DeviceRequests] = {}
    for index, pod_set in enumerate(obj.spec.pod_sets or ()):
        path = f"spec.podSets[{index}].template.spec"
        requests = _PodSetDevices(pod_set, path, obj.metadata.namespace, devices, gates).requests()
        if requests != DeviceRequests():
            found[pod_set.name] = requests
    return found


def _rejected(obj: Workload, message: str) -> dict[str, DeviceRequests]:
    rejected = DeviceRequests(faults=(message,))
    return {
        each.name: rejected
        for each in obj.spec.pod_sets or ()
        if each.template.spec.resource_claims
    }


def _claims(obj: Workload) -> Iterator[Json]:
    for each in obj.spec.pod_sets or ():
        yield from map(mapping, each.template.spec.resource_claims or ())


class _PodSetDevices:
    """The devices of one pod of a pod set."""

    def __init__(
        self, pod_set: PodSet, path: str, namespace: str, devices: Devices, gates: Gates
    ) -> None:
        self._spec = pod_set.template.spec
        self._path = path
        self._namespace = namespace
        self._devices = devices
        self._gates = gates
        self._amounts: dict[str, int] = {}

    def requests(self) -> DeviceRequests:
        replaced: frozenset[str] = frozenset()
        try:
            for index, claim in enumerate(map(mapping, self._spec.resource_claims or ())):
                name = text(claim.get("resourceClaimTemplateName"))
                if name:
                    self._add_template(name, f"{self._path}.resourceClaims[{index}]")
            if self._gates.on(Gate.KueueDRAIntegrationExtendedResource):
                replaced = self._add_extended()
        except DeviceFault as fault:
            return DeviceRequests(faults=(str(fault),))
        return DeviceRequests(amounts=self._amounts, replaced=replaced)

    def _add(self, resource: str, amount: int) -> None:
        self._amounts[resource] = min(self._amounts.get(resource, 0) + amount, UNLIMITED)

    def _add_extended(self) -> frozenset[str]:
        known = self._devices
        amounts, replaced, faults = extended_requests(
            self._spec, self._path, known.extended, known.mappings, self._gates
        )
        if faults:
            raise faults[0]
        for resource, amount in amounts.items():
            self._add(resource, amount)
        return replaced

    def _add_template(self, name: str, path: str) -> None:
        template = self._devices.templates.get(Key(self._namespace, name))
        if template is None:
            raise DeviceFault(path, f"ResourceClaimTemplate {name} does not exist", retry=True)
        requests = elements(child(template, "spec", "spec", "devices").get("requests"))
        taken: set[int] = set()
        for index, request in enumerate(map(mapping, requests)):
            at = f"{path}.devices.requests[{index}]"
            exactly = exact_request(request, at)
            if not exactly.get("deviceClassName"):
                continue
            self._check_offer(exactly, at, taken)
            if exactly.get("adminAccess") is not True:
                self._charge(exactly, at)

    def _charge(self, exactly: Json, at: str) -> None:
        name, count = text(exactly.get("deviceClassName")), integer(exactly.get("count")) or 1
        known = self._devices.mappings.get(name)
        if known is None:
            raise DeviceFault(
                at, f"DeviceClass {name} is not mapped; add it to resources.deviceClassMappings"
            )
        counters, capacities = self._sources(known)
        if not counters and not capacities:
            self._add(known.resource, count)
        for source in counters:
            matched = self._matched(source.driver, source.selector, exactly, count, at)
            charge = counter_charge(source, matched, count)
            if charge is None:
                message = f'the matching devices consume no counter "{source.name}"'
                raise DeviceFault(at, message, retry=True)
            self._add(source.resource, charge)
        for source in capacities:
            matched = self._matched(source.driver, source.selector, exactly, count, at)
            asked = child(exactly, "capacity", "requests").get(source.name)
            charge = capacity_charge(source, matched, count, asked, at)
            self._add(known.resource, charge)

    def _sources(self, known: ClassMapping) -> tuple[Sequence[Source], Sequence[Source]]:
        counts = self._gates.on(Gate.KueueDRAIntegrationPartitionableDevices)
        consumes = self._gates.on(Gate.KueueDRAIntegrationConsumableCapacity)
        return known.counters if counts else (), known.capacities if consumes else ()

    def _check_offer(self, exactly: Json, at: str, taken: set[int]) -> None:
        """Raise DeviceFault unless enough devices match the selectors of a request.

        A device that satisfies a request of a claim satisfies no other. `taken` has their numbers.
        Only a request with admin access may ask for all devices, of which there may be none.
        """
        if not any(_expressions(exactly)):
            return
        selectors = self._selectors(exactly, at)
        every = exactly.get("allocationMode") == "All"
        found, count = 0, 0 if every else integer(exactly.get("count")) or 1
        for number, (driver, device) in enumerate(self._offered()):
            if number not in taken and all(matches(driver, device) for matches in selectors):
                taken.add(number)
                found += 1
                if found >= count:
                    break
        if found < count:
            message = f"{_TOO_FEW}: found {found}, requested {count}"
            raise DeviceFault(at, message, retry=True)

    def _offered(self) -> Iterator[tuple[str, Json]]:
        for each in self._devices.slices:
            spec = child(each, "spec")
            for device in elements(spec.get("devices")):
                yield text(spec.get("driver")), mapping(device)

    def _matched(
        self, driver: str, selector: str, exactly: Json, count: int, at: str
    ) -> list[Json]:
        """Return the devices of a driver that match, from complete pools. Raises DeviceFault."""
        own = [self._devices.compile_selector(selector)] if selector else []
        selectors = [*own, *self._selectors(exactly, at)]
        matched = [
            device
            for pool in pools(self._devices.slices, driver).values()
            if pool.complete
            for device in pool.devices()
            if all(matches(driver, device) for matches in selectors)
        ]
        if len(matched) < count:
            message = f"{len(matched)} devices of driver {driver} match, and {count} are requested"
            raise DeviceFault(at, message, retry=True)
        return matched

    def _selectors(self, exactly: Json, at: str) -> list[Selector]:
        """Return the selectors of a request and its class. Raises DeviceFault.

        They are compiled before any device is examined, so that an expression that does not compile
        is reported whether or not there are devices.
        """
        name = text(exactly.get("deviceClassName"))
        known = self._devices.classes.get(name)
        if known is None:
            raise DeviceFault(at, f"DeviceClass {name} does not exist", retry=True)
        expressions = [*_expressions(child(known, "spec")), *_expressions(exactly)]
        return [self._devices.compile_selector(each) for each in expressions]


def _expressions(obj: Json) -> Iterator[str]:
    for each in elements(obj.get("selectors")):
        expression = text(child(mapping(each), "cel").get("expression"))
        if expression:
            yield expression


def exact_request(request: Json, path: str) -> Json:
    """Return the exact part of a device request. Raises DeviceFault if quota cannot express it."""
    if request.get("firstAvailable"):
        raise DeviceFault(path, f"{_FIRST_AVAILABLE}; request a device class exactly")
    exactly = mapping(request.get("exactly"))
    if not exactly:
        raise DeviceFault(path, "must have exactly")
    mode = exactly.get("allocationMode") or "ExactCount"
    if exactly.get("adminAccess") is not True and mode != "ExactCount":
        raise DeviceFault(
            f"{path}.exactly.allocationMode",
            f"AllocationMode '{mode}' is not supported; use ExactCount",
        )
    return exactly
