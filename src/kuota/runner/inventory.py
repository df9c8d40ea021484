# SPDX-License-Identifier: Apache-2.0
"""Detects the hardware of this machine: CPUs, memory, and NVIDIA devices by UUID.

NVML is queried once, at start, through NVIDIA's Python binding.
"""

from __future__ import annotations

import importlib
import logging
import os
from collections.abc import Iterator
from typing import Any

import msgspec

from .host_topology import Card, device_ids
from .nvlinks import connected

GPU = "nvidia.com/gpu"
_MIG = "nvidia.com/mig-"
_PRETENDED = "GPU-pretend-"
_CONTROL_FILE = "/dev/nvidiactl"
"""Exists if the NVIDIA driver is loaded."""
_log = logging.getLogger(__name__)


class Gpus(msgspec.Struct, frozen=True):
    """The physical GPUs, and node labels that describe them."""

    cards: tuple[Card, ...] = ()
    labels: dict[str, str] = {}

    @property
    def ids(self) -> dict[str, list[str]]:
        """The ids of all devices by resource: GPUs, and MIG instances of partitioned ones."""
        return device_ids(self.cards)

    @property
    def files(self) -> dict[str, str]:
        """The device file of each device by id. MIG instances have that of their GPU."""
        return {
            id: card.file
            for card in self.cards
            if card.file
            for ids in card.ids.values()
            for id in ids
        }


class Machine(msgspec.Struct, frozen=True):
    """The resources of this machine."""

    cpu_milli: int
    memory_bytes: int
    disk_bytes: int
    gpus: Gpus = Gpus()


def machine(state_dir: str = "/", *, pretend_gpus: int = 0) -> Machine:
    """The resources of this machine.

    A positive `pretend_gpus` replaces real GPUs by simulated ones.
    """
    disk = os.statvfs(state_dir)
    return Machine(
        cpu_milli=1000 * len(os.sched_getaffinity(0)),
        memory_bytes=os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"),
        disk_bytes=disk.f_blocks * disk.f_frsize,
        gpus=pretended(pretend_gpus) if pretend_gpus else found_gpus(),
    )


def pretended(count: int, node: str = "") -> Gpus:
    """Simulated GPUs. CUDA finds no device with these names."""
    prefix = f"{_PRETENDED}{node}-" if node else _PRETENDED
    return Gpus(tuple(Card({GPU: [f"{prefix}{number}"]}) for number in range(count)))


def is_pretended(device: str) -> bool:
    """Whether the device is simulated."""
    return device.startswith(_PRETENDED)


def found_gpus(nvml: Any = None) -> Gpus:
    """The NVIDIA devices of the machine: whole GPUs, and the MIG instances of partitioned ones."""
    nvml = nvml or importlib.import_module("pynvml")
    try:
        nvml.nvmlInit()
    except nvml.NVMLError as error:
        if os.path.exists(_CONTROL_FILE):
            _log.warning("this machine has NVIDIA devices that cannot be read: %s", error)
        return Gpus()
    try:
        return _listed(nvml)
    finally:
        nvml.nvmlShutdown()


def _listed(nvml: Any) -> Gpus:
    cards: list[Card] = []
    labels: dict[str, str] = {}
    for number in range(nvml.nvmlDeviceGetCount()):
        device = nvml.nvmlDeviceGetHandleByIndex(number)
        ids: dict[str, list[str]] = {}
        for resource, uuid in _instances(nvml, device):
            ids.setdefault(resource, []).append(uuid)
        if not _is_split(nvml, device):
            ids[GPU] = [_text(nvml.nvmlDeviceGetUUID(device))]
        cards.append(connected(nvml, device, ids))
        name = _text(nvml.nvmlDeviceGetName(device))
        labels.setdefault("nvidia.com/gpu.product", "-".join(name.split()))
        memory = nvml.nvmlDeviceGetMemoryInfo(device).total
        labels.setdefault("nvidia.com/gpu.memory", str(memory >> 20))
    return Gpus(tuple(cards), labels)


def _is_split(nvml: Any, device: Any) -> bool:
    try:
        current, _ = nvml.nvmlDeviceGetMigMode(device)
    except nvml.NVMLError:
        return False  # The device does not support MIG.
    return bool(current)


def _instances(nvml: Any, device: Any) -> Iterator[tuple[str, str]]:
    """The MIG instances of a device, each with its resource and UUID."""
    if not _is_split(nvml, device):
        return
    for number in range(nvml.nvmlDeviceGetMaxMigDeviceCount(device)):
        try:
            part = nvml.nvmlDeviceGetMigDeviceHandleByIndex(device, number)
        except nvml.NVMLError:
            continue  # Not every index has an instance.
        # The name ends with the profile: "NVIDIA A100-SXM4-40GB MIG 1g.5gb".
        profile = _text(nvml.nvmlDeviceGetName(part)).rpartition(" ")[2]
        yield _MIG + profile.replace("+", "."), _text(nvml.nvmlDeviceGetUUID(part))


def _text(value: str | bytes) -> str:
    return value.decode() if isinstance(value, bytes) else value
