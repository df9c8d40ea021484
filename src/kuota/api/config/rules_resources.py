# SPDX-License-Identifier: Apache-2.0
"""Validates the resources section: exclusions, transformations and device class mappings."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from .. import names
from ..faults import (
    FieldError,
    at_most_one,
    duplicate,
    invalid,
    not_supported,
    quoted,
    required,
    too_many,
)
from ..gates import Gate, Gates
from ..resources import REPLACE, RETAIN
from ..rules.report import nano
from .cel_syntax import cel_complaints
from .shapes import DeviceClassMapping, DeviceClassSource, DeviceSource, Resources
from .syntax import capacity_name_faults, driver_complaints

IGNORE_UNDECLARED = "IgnoreUndeclared"
BLOCK_UNDECLARED = "BlockUndeclared"
MOST_MAPPINGS = 16
MOST_CLASSES = 8

_PATH = "resources"
_MAPPINGS = f"{_PATH}.deviceClassMappings"
_GATES = {
    "counter": Gate.KueueDRAIntegrationPartitionableDevices,
    "capacity": Gate.KueueDRAIntegrationConsumableCapacity,
}


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
        fix = "remove excludeResourcePrefixes: undeclared resources are ignored"
        yield invalid(at, strategy, "cannot be combined with excludeResourcePrefixes", fix)


def _transformation_faults(resources: Resources) -> Iterator[FieldError]:
    seen: set[str] = set()
    for index, rule in enumerate(resources.transformations or ()):
        at = f"{_PATH}.transformations[{index}]"
        if rule.strategy not in (RETAIN, REPLACE):
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
    charges: dict[str, _Charges] = {}
    seen: set[str] = set()
    for index, mapping in enumerate(mappings):
        at = f"{_MAPPINGS}[{index}]"
        yield from _key_faults(f"{at}.name", mapping.name)
        if mapping.name in seen:
            yield duplicate(f"{at}.name", mapping.name, f"{mapping.name!r} is mapped twice")
        seen.add(mapping.name)
        yield from _class_faults(mapping, f"{at}.deviceClassNames", charges)
        yield from _source_faults(mapping.sources or [], f"{at}.sources", gates)


def _key_faults(path: str, text: str) -> Iterator[FieldError]:
    """Yield the faults of a quota resource or device class: a label key of at most 253 bytes."""
    yield from at_most_one(path, text, names.qualified_name(text))
    if len(text.encode()) > names.MAX_SUBDOMAIN:
        yield invalid(path, text, f"is longer than {names.MAX_SUBDOMAIN} characters")


def _class_faults(
    mapping: DeviceClassMapping, path: str, charges: dict[str, _Charges]
) -> Iterator[FieldError]:
    classes = mapping.device_class_names or []
    if not classes:
        yield required(path, "must name at least one device class")
    if len(classes) > MOST_CLASSES:
        message = f"names {len(classes)} classes, the limit is {MOST_CLASSES}"
        yield too_many(path, len(classes), message)
    counter = _first_counter(mapping)
    for index, name in enumerate(classes):
        at = f"{path}[{index}]"
        yield from _key_faults(at, name)
        if name in classes[:index]:
            yield duplicate(at, name, f"{name} is named twice")
        known = charges.get(name)
        if known is None:
            charges[name] = _Charges(mapping.name, {counter} if counter else set())
        elif known.resource == mapping.name:
            continue
        elif not counter or not known.counters or counter in known.counters:
            fix = "map the class once, or charge different counters of it"
            yield invalid(at, name, f"{name} is charged to {known.resource} already", fix)
        else:
            known.counters.add(counter)


class _Charges(NamedTuple):
    """The first resource that a device class is charged to, and the counters that are charged.

    Without counters, the whole device or its capacities are charged.
    """

    resource: str
    counters: set[str]


def _first_counter(mapping: DeviceClassMapping) -> str:
    """Return the counter that distinguishes mappings of one class, or "" if there is none."""
    counter = mapping.sources[0].counter if mapping.sources else None
    return counter.name if counter is not None else ""


def _source_faults(
    sources: list[DeviceClassSource], path: str, gates: Gates
) -> Iterator[FieldError]:
    kinds: set[str] = set()
    for index, source in enumerate(sources):
        at, given = f"{path}[{index}]", _given(source)
        if not given:
            yield required(at, "must have either a counter or a capacity")
        elif len(given) > 1:
            yield invalid(at, sorted(given), "must have either a counter or a capacity, not both")
        else:
            kinds.update(given)
            for kind, device in given.items():
                yield from _device_faults(device, kind, f"{at}.{kind}", gates)
    if len(kinds) > 1:
        yield invalid(path, sorted(kinds), "mixes counters and capacities", "use one of the two")


def _given(source: DeviceClassSource) -> dict[str, DeviceSource]:
    """Return the counter and the capacity that are set, by kind. Exactly one is valid."""
    given = {"counter": source.counter, "capacity": source.capacity}
    return {kind: device for kind, device in given.items() if device is not None}


def _device_faults(
    source: DeviceSource, kind: str, path: str, gates: Gates
) -> Iterator[FieldError]:
    if not gates.on(gate := _GATES[kind]):
        yield invalid(path, None, f"needs the feature gate {gate}", f"set {gate}=true")
        return
    if kind == "capacity":
        yield from capacity_name_faults(f"{path}.name", source.name)
    elif not source.name:
        yield required(f"{path}.name", "must be set")
    else:
        yield from at_most_one(f"{path}.name", source.name, names.dns_label(source.name))
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
