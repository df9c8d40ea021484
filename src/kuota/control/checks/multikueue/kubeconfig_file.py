# SPDX-License-Identifier: Apache-2.0
"""Reads kubeconfigs from files, which must lie in one folder unless a gate is disabled."""

from __future__ import annotations

import os
from pathlib import Path

from .kubeconfig import BAD, ClusterUnusable

PREFIX = Path("/etc/multikueue/kubeconfigs")
"""The folder of kubeconfigs that are read from files."""
MAX_BYTES = 1 << 20


def file_content(location: str, *, confined: bool, prefix: Path = PREFIX) -> str:
    """Return the content of a kubeconfig file. Raises ClusterUnusable.

    If `confined`, the file must lie below `prefix` after symbolic links have been followed.
    """
    path = _confined(location, prefix) if confined else Path(location)
    try:
        if path.exists() and not path.is_file():
            raise ClusterUnusable(BAD, "the path of the kubeconfig is no file")
        with path.open("rb") as file:
            raw = file.read(MAX_BYTES + 1)
        if len(raw) > MAX_BYTES:
            raise ClusterUnusable(BAD, f"the kubeconfig file has over {MAX_BYTES} bytes")
        return _decoded(raw)
    except (OSError, ValueError) as error:
        why = (error.strerror if isinstance(error, OSError) else "") or type(error).__name__
        raise ClusterUnusable(BAD, f"cannot read the kubeconfig file: {why}; create it") from None


def _decoded(raw: bytes) -> str:
    try:
        return raw.decode()
    except UnicodeDecodeError:
        raise ClusterUnusable(BAD, "the kubeconfig file is not UTF-8 text") from None


def _confined(location: str, prefix: Path) -> Path:
    cleaned = os.path.normpath(location) if location else ""
    if not cleaned or not os.path.isabs(cleaned):
        raise ClusterUnusable(BAD, f"the path of the kubeconfig is not absolute; use {prefix}/NAME")
    try:
        folder = prefix.resolve(strict=True)
        resolved = Path(cleaned).resolve(strict=True)
    except (OSError, RuntimeError, ValueError) as error:
        why = error.strerror if isinstance(error, OSError) else "the path cannot be resolved"
        raise ClusterUnusable(
            BAD, f"cannot read the kubeconfig file below {prefix}: {why}"
        ) from None
    if not resolved.is_relative_to(folder) or resolved == folder:
        raise ClusterUnusable(
            BAD, f"the kubeconfig file does not lie below {prefix}; move it there"
        )
    return resolved


def file_version(location: str) -> tuple[int, int, int] | None:
    """Return a value that changes with the file; None if it does not exist."""
    try:
        found = os.stat(location)
    except (OSError, ValueError):
        return None
    return found.st_ino, found.st_mtime_ns, found.st_size
