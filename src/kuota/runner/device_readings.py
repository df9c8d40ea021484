# SPDX-License-Identifier: Apache-2.0
"""Reads the current utilization and memory of NVIDIA devices, by UUID."""

from __future__ import annotations

import importlib
import logging
from collections.abc import Iterable
from typing import Any

import msgspec

_log = logging.getLogger(__name__)


class DeviceReading(msgspec.Struct, frozen=True, omit_defaults=True, rename="camel"):
    """What a device reports. Values that it does not support are None."""

    utilization_percent: int | None = None
    memory_used_bytes: int | None = None
    memory_total_bytes: int | None = None


def readings(uuids: Iterable[str], nvml: Any = None) -> dict[str, DeviceReading]:
    """Return the readings of the devices that NVML knows. Takes some milliseconds per device."""
    nvml = nvml or importlib.import_module("pynvml")
    try:
        nvml.nvmlInit()
    except nvml.NVMLError as error:
        _log.debug("no readings of devices: %s", error)
        return {}
    try:
        found = {each: _reading(nvml, each) for each in uuids}
    finally:
        nvml.nvmlShutdown()
    return {uuid: each for uuid, each in found.items() if each is not None}


def _reading(nvml: Any, uuid: str) -> DeviceReading | None:
    try:
        device = nvml.nvmlDeviceGetHandleByUUID(uuid)
    except nvml.NVMLError:
        return None
    try:
        busy = int(nvml.nvmlDeviceGetUtilizationRates(device).gpu)
    except nvml.NVMLError:
        busy = None  # MIG instances have no utilization of their own.
    try:
        memory = nvml.nvmlDeviceGetMemoryInfo(device)
    except nvml.NVMLError:
        return DeviceReading(busy)
    return DeviceReading(busy, int(memory.used), int(memory.total))
