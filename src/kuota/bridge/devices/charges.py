# SPDX-License-Identifier: Apache-2.0
"""Charges for device requests that are measured by what the devices consume, not by their number.

A request may be satisfied by any matching device, so the largest amount among them is charged.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from kuota.api.base import Json
from kuota.api.quantity import NANO, UNLIMITED, QuantityError, parse
from kuota.api.rules.report import child, elements, integer, mapping, text

from .mappings import Source


class DeviceFault(Exception):
    """Why devices cannot be charged. With `retry`, a change in the cluster may resolve it."""

    def __init__(self, path: str, message: str, *, retry: bool = False) -> None:
        super().__init__(f"{path}: {message}" if path else message)
        self.path, self.retry = path, retry


def counter_charge(source: Source, matched: Iterable[Json], count: int) -> int | None:
    """Return the largest value of a counter among the devices, times their number.

    None if no device consumes the counter.
    """
    values = [
        whole(child(consumed, "counters", source.name).get("value"))
        for device in matched
        for consumed in map(mapping, elements(device.get("consumesCounters")))
        if source.name in child(consumed, "counters")
    ]
    return times(max(values), count) if values else None


def capacity_charge(
    source: Source, matched: Iterable[Json], count: int, requested: str | None, path: str
) -> int:
    """Return the largest capacity that the request takes of a device, times their number.

    Raises DeviceFault if no device has this capacity or can satisfy the request.
    """
    offered = [child(device, "capacity").get(source.name) for device in matched]
    offers = [mapping(each) for each in offered if each is not None]
    if not offers:
        message = f'the matching devices have no capacity "{source.name}"'
        raise DeviceFault(path, message, retry=True)
    taken = [each for each in (_taken(offer, requested) for offer in offers) if each is not None]
    if not taken:
        message = f'no matching device allows the requested capacity "{source.name}"'
        raise DeviceFault(path, message)
    return times(max(taken), count)


def _taken(offer: Json, requested: str | None) -> int | None:
    """Return what a request takes of a device: itself, the device's default, or all of it.

    It is rounded as the device requires; None if the device does not allow it.
    """
    policy = child(offer, "requestPolicy")
    default = policy.get("default")
    amount = requested if requested is not None else default if default else offer.get("value")
    valid = elements(policy.get("validValues"))
    if valid:
        chosen = rounded_to_values(nano(amount), [nano(each) for each in valid])
        return None if chosen is None else _rounded_up(chosen)
    limits = mapping(policy.get("validRange"))
    least, most, step = (_optional(limits.get(name)) for name in ("min", "max", "step"))
    return rounded_to_range(whole(amount), least, most, step)


def _optional(quantity: object) -> int | None:
    return whole(quantity) if quantity else None


def rounded_to_values(amount: int, valid: Sequence[int]) -> int | None:
    """Return the first of the ascending values that is sufficient; None if there is none.

    Values are exact, so they are compared in nano-units.
    """
    return next((each for each in valid if each >= amount), None)


def rounded_to_range(
    amount: int, least: int | None, most: int | None, step: int | None
) -> int | None:
    """Return the amount, at least `least` and rounded up to whole steps above it.

    None if that is above `most`.
    """
    if least is not None:
        amount = max(amount, least)
        if step is not None and step > 0:
            amount = min(least + -(-(amount - least) // step) * step, UNLIMITED)
    return None if most is not None and amount > most else amount


def times(amount: int, count: int) -> int:
    """Return the product, between 0 and the largest amount."""
    return min(max(amount, 0) * max(count, 1), UNLIMITED)


def whole(quantity: object) -> int:
    """Return a quantity in whole units, rounded up. One that is invalid counts as 0."""
    return _rounded_up(nano(quantity))


def nano(quantity: object) -> int:
    """Return a quantity in nano-units. One that is invalid counts as 0."""
    try:
        return parse(quantity if isinstance(quantity, (str, int, float)) else 0)
    except (QuantityError, ValueError):
        return 0


def _rounded_up(nano: int) -> int:
    return min(-(-nano // NANO), UNLIMITED)


class Pool:
    """The newest generation of the ResourceSlices of one pool of devices."""

    def __init__(self, generation: int, size: int) -> None:
        self.generation = generation
        self.slices: list[Json] = []
        self._size = size

    @property
    def complete(self) -> bool:
        """Whether all slices of the pool are known."""
        return len(self.slices) == self._size

    def devices(self) -> list[Json]:
        found = (elements(child(each, "spec").get("devices")) for each in self.slices)
        return [mapping(device) for devices in found for device in devices]


def pools(slices: Iterable[Json], driver: str) -> dict[str, Pool]:
    """Return the pools of a driver by name."""
    found: dict[str, Pool] = {}
    for each in slices:
        spec = child(each, "spec")
        pool = child(spec, "pool")
        name, generation = text(pool.get("name")), integer(pool.get("generation")) or 0
        if spec.get("driver") != driver:
            continue
        if name not in found or generation > found[name].generation:
            found[name] = Pool(generation, integer(pool.get("resourceSliceCount")) or 0)
        if generation == found[name].generation:
            found[name].slices.append(each)
    return found
