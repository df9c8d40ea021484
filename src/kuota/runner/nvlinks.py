# SPDX-License-Identifier: Apache-2.0
"""Asks NVML how a GPU is connected: PCI address, device file, NVLinks, and the CPUs next to it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from .host_topology import Card, pci_address

_WORD_BITS = 64
_MAX_CPUS = 8192
_CPU, _SWITCH = 1, 2
"""NVML_NVLINK_DEVICE_TYPE_IBMNPU and _SWITCH. Drivers that do not tell the type return neither."""
_MAX_LINKS = 18
"""More than any GPU has, except for those whose binding names another number."""


def connected(nvml: Any, device: Any, ids: dict[str, list[str]]) -> Card:
    """Return the card with these devices. What NVML cannot tell is left out."""
    switched = False
    peers: set[str] = set()
    for link in _active_links(nvml, device):
        kind = _asked(nvml, "nvmlDeviceGetNvLinkRemoteDeviceType", device, link)
        remote = _asked(nvml, "nvmlDeviceGetNvLinkRemotePciInfo", device, link)
        if kind == _SWITCH:
            switched = True
        elif kind != _CPU and remote is not None:
            peers.add(_address(remote))
    pci = _asked(nvml, "nvmlDeviceGetPciInfo", device)
    minor = _asked(nvml, "nvmlDeviceGetMinorNumber", device)
    return Card(
        ids=ids,
        address=_address(pci) if pci is not None else "",
        peers=tuple(sorted(peers - {""})),
        switched=switched,
        cpus=_cpus(nvml, device),
        file=f"/dev/nvidia{minor}" if isinstance(minor, int) else "",
    )


def _active_links(nvml: Any, device: Any) -> Iterator[int]:
    for link in range(getattr(nvml, "NVML_NVLINK_MAX_LINKS", _MAX_LINKS)):
        if _asked(nvml, "nvmlDeviceGetNvLinkState", device, link):
            yield link


def _cpus(nvml: Any, device: Any) -> frozenset[int]:
    words = _asked(nvml, "nvmlDeviceGetCpuAffinity", device, _MAX_CPUS // _WORD_BITS)
    return frozenset(
        at * _WORD_BITS + bit
        for at, word in enumerate(words or ())
        for bit in range(_WORD_BITS)
        if word >> bit & 1
    )


def _asked(nvml: Any, function: str, *arguments: Any) -> Any:
    """Call a function of NVML; None if device, driver or binding do not support it."""
    try:
        return getattr(nvml, function)(*arguments)
    except (AttributeError, nvml.NVMLError):
        return None


def _address(pci: Any) -> str:
    text = pci.busId
    return pci_address(text.decode() if isinstance(text, bytes) else text)
