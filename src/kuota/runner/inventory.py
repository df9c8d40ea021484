# SPDX-License-Identifier: Apache-2.0
"""What this machine has: processors, memory, and NVIDIA devices by their UUID.

NVML is asked once, at the start, through NVIDIA's own binding, which is imported only here and
only then: a machine without GPUs needs neither.
"""

from __future__ import annotations

import importlib
import logging
import os
from collections.abc import Iterator
from typing import Any

import msgspec

GPU = "nvidia.com/gpu"
_MIG = "nvidia.com/mig-"
_log = logging.getLogger(__name__)


class Gpus(msgspec.Struct, frozen=True):
    """Device ids by resource, and what there is to tell about them as node labels."""

    ids: dict[str, list[str]] = {}
    labels: dict[str, str] = {}


class Machine(msgspec.Struct, frozen=True):
    """The whole of what may be given to pods here."""

    cpu_milli: int
    memory_bytes: int
    disk_bytes: int
    gpus: Gpus = Gpus()


def machine(state_dir: str = "/", *, pretend_gpus: int = 0) -> Machine:
    """This machine, with so many pretend GPUs in place of whatever it has if there are any."""
    disk = os.statvfs(state_dir)
    return Machine(
        cpu_milli=1000 * len(os.sched_getaffinity(0)),
        memory_bytes=os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"),
        disk_bytes=disk.f_blocks * disk.f_frsize,
        gpus=pretended(pretend_gpus) if pretend_gpus else found_gpus(),
    )


def pretended(count: int, node: str = "") -> Gpus:
    """GPUs that exist in name only; CUDA finds nothing under such a name."""
    prefix = f"GPU-pretend-{node}-" if node else "GPU-pretend-"
    return Gpus({GPU: [f"{prefix}{number}" for number in range(count)]}) if count else Gpus()


def found_gpus(nvml: Any = None) -> Gpus:
    """The machine's NVIDIA devices: whole GPUs, and the instances of those that are split."""
    if nvml is None:
        try:
            nvml = importlib.import_module("pynvml")
        except ImportError:
            if os.path.exists("/dev/nvidiactl"):
                _log.warning("there are NVIDIA devices; install kuota[gpu] to offer them")
            return Gpus()
    try:
        nvml.nvmlInit()
    except nvml.NVMLError as error:
        _log.debug("no NVIDIA devices: %s", error)
        return Gpus()
    try:
        return _listed(nvml)
    finally:
        nvml.nvmlShutdown()


def _listed(nvml: Any) -> Gpus:
    ids: dict[str, list[str]] = {}
    labels: dict[str, str] = {}
    for number in range(nvml.nvmlDeviceGetCount()):
        device = nvml.nvmlDeviceGetHandleByIndex(number)
        parts = list(_instances(nvml, device))
        for resource, uuid in parts:
            ids.setdefault(resource, []).append(uuid)
        if not parts and not _is_split(nvml, device):
            ids.setdefault(GPU, []).append(_text(nvml.nvmlDeviceGetUUID(device)))
        name = _text(nvml.nvmlDeviceGetName(device))
        labels.setdefault("nvidia.com/gpu.product", "-".join(name.split()))
        memory = nvml.nvmlDeviceGetMemoryInfo(device).total
        labels.setdefault("nvidia.com/gpu.memory", str(memory >> 20))
    if ids.get(GPU):
        labels["nvidia.com/gpu.count"] = str(len(ids[GPU]))
    return Gpus(ids, labels)


def _is_split(nvml: Any, device: Any) -> bool:
    try:
        current, _ = nvml.nvmlDeviceGetMigMode(device)
    except nvml.NVMLError:
        return False  # a device that cannot be split
    return bool(current)


def _instances(nvml: Any, device: Any) -> Iterator[tuple[str, str]]:
    """The MIG instances of a device, each as its resource and its UUID."""
    if not _is_split(nvml, device):
        return
    for number in range(nvml.nvmlDeviceGetMaxMigDeviceCount(device)):
        try:
            part = nvml.nvmlDeviceGetMigDeviceHandleByIndex(device, number)
        except nvml.NVMLError:
            continue  # numbers without an instance
        # The name ends with the profile: "NVIDIA A100-SXM4-40GB MIG 1g.5gb".
        profile = _text(nvml.nvmlDeviceGetName(part)).rpartition(" ")[2]
        yield _MIG + profile.replace("+", "."), _text(nvml.nvmlDeviceGetUUID(part))


def _text(value: str | bytes) -> str:
    return value.decode() if isinstance(value, bytes) else value
