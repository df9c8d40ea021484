# SPDX-License-Identifier: Apache-2.0
"""The gauges of one scrape, read from the engine and gone when they are told."""

from __future__ import annotations

from collections.abc import Iterable

from kuota.api.quantity import NANO, UNLIMITED, nano_of
from kuota.engine.engine import Engine

from .catalog import METRICS
from .custom import CustomLabels, Objects
from .series import Labels
from .setup import Setup, measured


class Board:
    """Takes readings. What nobody asked for is dropped.

    `measured` tells which LocalQueues have metrics of their own.
    """

    def __init__(
        self, engine: Engine, objects: Objects, custom: CustomLabels, setup: Setup
    ) -> None:
        self.engine = engine
        self.objects = objects
        self.custom = custom
        self.measured = measured(setup, objects)
        self.readings: dict[str, dict[Labels, float]] = {
            name: {} for name, each in METRICS.items() if setup.shows(each)
        }

    def shows(self, name: str) -> bool:
        return name in self.readings

    def put(self, name: str, value: float, labels: Iterable[str], custom: Labels = ()) -> None:
        """Say what a gauge stands at."""
        readings = self.readings.get(name)
        if readings is not None:
            readings[(*labels, *custom)] = value

    def put_each(
        self, name: str, values: dict[str, float], prefix: Labels, custom: Labels = ()
    ) -> None:
        """The same for several values of one more label."""
        for last, value in values.items():
            self.put(name, value, (*prefix, last), custom)


def in_units(amount: int | None, resource: str) -> float:
    """An amount as people write it; no limit is infinity."""
    if amount is None or amount >= UNLIMITED:
        return float("inf")
    return nano_of(amount, resource) / NANO
