# SPDX-License-Identifier: Apache-2.0
"""Which quota resource the devices of each DeviceClass are charged to."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from kuota.api.config.shapes import DeviceClassMapping, DeviceSource
from kuota.engine.model import Struct


class Source(Struct):
    """A counter or a capacity of the devices of one driver, and the quota resource it counts for.

    `selector` is a CEL expression that the devices match; "" for all.
    """

    resource: str
    driver: str
    name: str
    selector: str = ""


class ClassMapping(Struct):
    """How the devices of a class are charged: as a number of devices, or by their sources."""

    resource: str
    counters: tuple[Source, ...] = ()
    capacities: tuple[Source, ...] = ()


def class_mappings(configured: Iterable[DeviceClassMapping]) -> Mapping[str, ClassMapping]:
    """Return the mapping of each DeviceClass.

    Several mappings may name one class if they have different sources. The first one names the
    resource for the number of devices.
    """
    found: dict[str, ClassMapping] = {}
    for each in configured:
        sources = each.sources or ()
        counters = [_source(each.name, s.counter) for s in sources if s.counter is not None]
        capacities = [_source(each.name, s.capacity) for s in sources if s.capacity is not None]
        for name in each.device_class_names or ():
            before = found.get(name) or ClassMapping(resource=each.name)
            found[name] = ClassMapping(
                resource=before.resource,
                counters=(*before.counters, *counters),
                capacities=(*before.capacities, *capacities),
            )
    return found


def _source(resource: str, given: DeviceSource) -> Source:
    cel = given.device_selector.cel
    selector = cel.expression if cel is not None else ""
    return Source(resource=resource, driver=given.driver, name=given.name, selector=selector)
