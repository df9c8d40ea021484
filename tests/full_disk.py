# SPDX-License-Identifier: Apache-2.0
"""Small file systems that tests fill. Mounting them needs root."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

SIZE = 64 << 20


@contextmanager
def disk(folder: Path, image: Path | None = None, size: int = SIZE) -> Iterator[None]:
    """Mount a small file system at the folder: in memory, or in an image."""
    folder.mkdir()
    if image is None:
        command = ["mount", "-t", "tmpfs", "-o", f"size={size},mode=711", "kuota-test", str(folder)]
    else:
        image.touch()
        os.truncate(image, size)
        subprocess.run(["mkfs.ext4", "-q", str(image)], check=True)
        command = ["mount", "-o", "loop,errors=remount-ro", str(image), str(folder)]
    mounted = subprocess.run(command, capture_output=True, text=True, check=False)
    if mounted.returncode:
        pytest.skip(f"cannot mount a file system here: {mounted.stderr.strip()}")
    try:
        yield
    finally:
        subprocess.run(["umount", "--lazy", str(folder)], check=False)


def fill(path: Path) -> None:
    """Write a file until nothing more fits."""
    with open(path, "wb", buffering=0) as file:
        for size in (1 << 20, 4096, 1):
            while True:
                try:
                    if file.write(b"\1" * size) < size:
                        break
                except OSError:
                    break
