# SPDX-License-Identifier: Apache-2.0
"""What the kernel counts about a process: CPU and memory."""

from __future__ import annotations

import os
from pathlib import Path


def cpu_s(pid: int) -> float:
    """The processor time that the process has used, its children not included."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def memory_mib(pid: int, *, peak: bool = False) -> float:
    """What it holds in memory now, or held at the most. Raises LookupError once it has ended."""
    wanted = "VmHWM" if peak else "VmRSS"
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith(wanted):
            return int(line.split()[1]) / 1024
    raise LookupError(f"process {pid} has ended")
