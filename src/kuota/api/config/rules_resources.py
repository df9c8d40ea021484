# SPDX-License-Identifier: Apache-2.0
"""Rules for the resources section: what quota counts, transforms, or takes from devices."""

from __future__ import annotations

from collections.abc import Iterator

from .. import names
from ..faults import FieldError, duplicate, invalid, not_supported, quoted, required, too_many
from ..gates import Gate, Gates
from ..resources import REPLACE, RETAIN
from ..rules.report import nano
from .shapes import DeviceClassMapping, DeviceClassSource, DeviceSource, Resources
from .syntax import (
    at_most_one,
    capacity_name_faults,
    cel_complaints,
    driver_complaints,
    resource_key,
)

IGNORE_UNDECLARED = "IgnoreUndeclared"
BLOCK_UNDECLARED = "BlockUndeclared"
MOST_MAPPINGS = 16
MOST_CLASSES = 8

_PATH = "resources"
_MAPPINGS = f"{_PATH}.deviceClassMappings"
Charge = frozenset[tuple[str, str]]
"""What one mapping charges a device class for; empty: for whole devices."""


def resource_faults(resources: Resources | None, gates: Gates) -> Iterator[FieldError]:
    if resources is None:
        return
    if gates.on(Gate.QuotaCheckStrategy):
        yield from _strategy_faults(resources)
    yield from _transformation_faults(resources)
    yield from device_mapping_faults(resources.device_class_mappings or [], gates)


def _strategy_faults(resources: Resources) -> Iterator[FieldError]:
    strategy, at = resources.quota_check_strategy, f"{_PATH}.quotaCheckStrategy"
    if strategy is None:
        return
    if strategy not in (BLOCK_UNDECLARED, IGNORE_UNDECLARED):
        yield not_supported(at, strategy, (BLOCK_UNDECLARED, IGNORE_UNDECLARED))
    elif strategy == IGNORE_UNDECLARED and resources.exclude_resource_prefixes:
        fix = "remove excludeResourcePrefixes: undeclared resources are ignored anyway"
        yield invalid(at, strategy, "cannot stand beside excludeResourcePrefixes", fix)


def _transformation_faults(resources: Resources) -> Iterator[FieldError]:
    seen: set[str] = set()
    for index, rule in enumerate(resources.transformations or ()):
        at = f"{_PATH}.transformations[{index}]"
        if rule.strategy and rule.strategy not in (RETAIN, REPLACE):
            yield not_supported(f"{at}.strategy", rule.strategy, (RETAIN, REPLACE))
        if rule.input in seen:
            yield duplicate(f"{at}.input", rule.input, f"{rule.input!r} is transformed twice")
        seen.add(rule.input)
        for name, quantity in (rule.outputs or {}).items():
            if nano(quantity) is None:
                wrong = f"{quoted(quantity)} is not a quantity such as 2, 500m or 5Gi"
                yield invalid(f"{at}.outputs[{name}]", quantity, wrong)


def device_mapping_faults(mappings: list[DeviceClassMapping], gates: Gates) -> Iterator[FieldError]:
    if len(mappings) > MOST_MAPPINGS:
        message = f"has {len(mappings)} mappings, the limit is {MOST_MAPPINGS}"
        yield too_many(_MAPPINGS, len(mappings), message)
    charges: dict[str, list[Charge]] = {}
    seen: set[str] = set()
    for index, mapping in enumerate(mappings):
        at = f"{_MAPPINGS}[{index}]"
        complaints = resource_key(mapping.name)
        yield from at_most_one(f"{at}.name", mapping.name, complaints)
        if not complaints and mapping.name in seen:
            yield duplicate(f"{at}.name", mapping.name, f"{mapping.name!r} is mapped twice")
        seen.add(mapping.name)
        yield from _class_faults(mapping, f"{at}.deviceClassNames", charges)
        yield from _source_faults(mapping.sources or [], f"{at}.sources", gates)


def _class_faults(
    mapping: DeviceClassMapping, path: str, charges: dict[str, list[Charge]]
) -> Iterator[FieldError]:
    classes = mapping.device_class_names or []
    if not classes:
        yield required(path, "must name at least one device class")
    if len(classes) > MOST_CLASSES:
        message = f"names {len(classes)} classes, the limit is {MOST_CLASSES}"
        yield too_many(path, len(classes), message)
    charge = _charge(mapping)
    for index, name in enumerate(classes):
        at, complaints = f"{path}[{index}]", resource_key(name)
        if complaints:
            yield from at_most_one(at, name, complaints)
        elif name in classes[:index]:
            yield duplicate(at, name, f"{name} is named twice")
        else:
            if not all(_apart(charge, other) for other in charges.get(name, ())):
                fix = "map the class once, or charge different counters of it"
                yield invalid(at, name, f"{name} is charged by another mapping already", fix)
            charges.setdefault(name, []).append(charge)


def _charge(mapping: DeviceClassMapping) -> Charge:
    found = set()
    for source in mapping.sources or ():
        if source.counter is not None:
            found.add(("counter", source.counter.name))
        if source.capacity is not None:
            found.add(("capacity", source.capacity.name))
    return frozenset(found)


def _apart(charge: Charge, other: Charge) -> bool:
    """Whether one class may bear both charges: different parts of a device, never the whole."""
    return bool(charge and other) and not charge & other


def _source_faults(
    sources: list[DeviceClassSource], path: str, gates: Gates
) -> Iterator[FieldError]:
    kinds = {kind for source in sources for kind in _kinds(source)}
    if len(kinds) > 1 and all(len(_kinds(source)) == 1 for source in sources):
        yield invalid(path, sorted(kinds), "mixes counters and capacities", "use one of the two")
    for index, source in enumerate(sources):
        at = f"{path}[{index}]"
        if len(_kinds(source)) != 1:
            yield invalid(at, sorted(_kinds(source)), "must have either a counter or a capacity")
        elif source.counter is not None:
            yield from _counter_faults(source.counter, f"{at}.counter", gates)
        elif source.capacity is not None:
            yield from _capacity_faults(source.capacity, f"{at}.capacity", gates)


def _kinds(source: DeviceClassSource) -> list[str]:
    given = {"counter": source.counter, "capacity": source.capacity}
    return [kind for kind, value in given.items() if value is not None]


def _counter_faults(counter: DeviceSource, path: str, gates: Gates) -> Iterator[FieldError]:
    if not gates.on(Gate.KueueDRAIntegrationPartitionableDevices):
        yield _closed(path, Gate.KueueDRAIntegrationPartitionableDevices)
        return
    if counter.name:
        yield from at_most_one(f"{path}.name", counter.name, names.dns_label(counter.name))
    yield from _device_faults(counter, path)


def _capacity_faults(capacity: DeviceSource, path: str, gates: Gates) -> Iterator[FieldError]:
    if not gates.on(Gate.KueueDRAIntegrationConsumableCapacity):
        yield _closed(path, Gate.KueueDRAIntegrationConsumableCapacity)
        return
    if capacity.name:
        yield from capacity_name_faults(f"{path}.name", capacity.name)
    yield from _device_faults(capacity, path)


def _device_faults(source: DeviceSource, path: str) -> Iterator[FieldError]:
    if not source.name:
        yield required(f"{path}.name", "must be set")
    if not source.driver:
        yield required(f"{path}.driver", "must be set")
    else:
        yield from at_most_one(f"{path}.driver", source.driver, driver_complaints(source.driver))
    at = f"{path}.deviceSelector.cel.expression"
    expression = source.device_selector.cel.expression if source.device_selector.cel else ""
    if not expression:
        yield required(at, "must be set")
    else:
        yield from at_most_one(at, expression, cel_complaints(expression))


def _closed(path: str, gate: Gate) -> FieldError:
    return invalid(path, None, f"needs the feature gate {gate}", f"set {gate}=true")
