# SPDX-License-Identifier: Apache-2.0
"""Records the part of sysfs that `host_topology` reads."""

from __future__ import annotations

import glob
import os
from collections.abc import Iterable

from .host_topology import CPUS, NODES, PCI

_FILES = (
    f"{NODES}/node[0-9]*/cpulist",
    f"{NODES}/node[0-9]*/meminfo",
    f"{CPUS}/cpu[0-9]*/topology/physical_package_id",
    f"{CPUS}/cpu[0-9]*/topology/thread_siblings_list",
)


def recorded(addresses: Iterable[str], root: str = "/sys") -> dict[str, str]:
    """Return the files about CPUs and memory, and about the PCI devices with these addresses.

    What cannot be read is left out: containers hide parts of sysfs.
    """
    found = {
        os.path.relpath(path, root): text
        for pattern in _FILES
        for path in glob.glob(f"{root}/{pattern}")
        if (text := _read(path)) is not None
    }
    for address in addresses:
        device = f"{PCI}/{address}"
        text = _read(f"{root}/{device}/numa_node")
        if text is not None:
            found[f"{device}/numa_node"] = text
        try:
            found[device] = os.readlink(f"{root}/{device}")
        except OSError:
            continue
    return found


def _read(path: str) -> str | None:
    try:
        with open(path) as file:
            return file.read()
    except (OSError, UnicodeDecodeError):
        return None
