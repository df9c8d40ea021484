# SPDX-License-Identifier: Apache-2.0
"""Free memory is returned to the system."""

from __future__ import annotations

import ctypes
from pathlib import Path

import pytest

from kuota.memory import trim


def resident_mib() -> float:
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmRSS"):
            return int(line.split()[1]) / 1024
    raise AssertionError("the kernel does not report it")


@pytest.mark.skipif(not hasattr(ctypes.CDLL(None), "malloc_trim"), reason="needs glibc")
def test_memory_between_objects_in_use_is_returned() -> None:
    objects = [bytes(1000) for _ in range(100_000)]
    kept = objects[::100]
    full = resident_mib()
    del objects
    trim()
    assert resident_mib() < full - 50
    assert 1000 == len(kept)
