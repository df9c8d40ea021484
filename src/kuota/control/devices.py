# SPDX-License-Identifier: Apache-2.0
"""The devices that a cluster offers through dynamic resource allocation (DRA)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from kuota.api.base import Json
from kuota.bridge.devices.claims import Devices
from kuota.bridge.devices.extended import by_extended_name
from kuota.bridge.devices.mappings import ClassMapping
from kuota.kube import resources as kinds
from kuota.kube.client import Client
from kuota.kube.clock import Clock
from kuota.kube.informer import Informer
from kuota.kube.resources import key_of

from .device_selectors import compile_selector

Changed = Callable[[str], None]
"""Receives the namespace in which claims change; "" if those of all namespaces may."""


class OfferedDevices:
    """DeviceClasses, ResourceSlices and ResourceClaimTemplates."""

    def __init__(self, client: Client, clock: Clock) -> None:
        self._classes = Informer[Json](client, kinds.DEVICE_CLASSES, clock=clock)
        self._slices = Informer[Json](client, kinds.RESOURCE_SLICES, clock=clock)
        self._templates = Informer[Json](client, kinds.RESOURCE_CLAIM_TEMPLATES, clock=clock)

    def informers(self) -> Iterator[Informer[Json]]:
        yield from (self._classes, self._slices, self._templates)

    def observe(self, changed: Changed) -> None:
        """Call `changed` after every change."""
        self._classes.observe(lambda old, new: changed(""))
        self._slices.observe(lambda old, new: changed(""))
        self._templates.observe(lambda old, new: changed(key_of(new or old or {}).namespace))

    def offered(self, mappings: Mapping[str, ClassMapping]) -> Devices:
        classes = {key_of(each).name: each for each in self._classes.values()}
        return Devices(
            mappings=mappings,
            classes=classes,
            extended=by_extended_name(classes.values()),
            templates={key_of(each): each for each in self._templates.values()},
            slices=tuple(self._slices.values()),
            compile_selector=compile_selector,
        )
