# SPDX-License-Identifier: Apache-2.0
"""Paths to values of a document, put into words only when there is something to report."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

Path = tuple[Any, ...]
"""Where a value is: () for the whole, else the path of its parent and a step from there.

A step is the name of a field, an index of a list, or the key of a map in a tuple of its own.
"""


def spelt(path: Path) -> str:
    """ "spec.containers[0].name" of a path."""
    return "".join(_steps(path)).removeprefix(".")


def _steps(path: Path) -> Iterator[str]:
    if path:
        parent, step = path
        yield from _steps(parent)
        key = step[0] if isinstance(step, tuple) else step
        yield f".{key}" if isinstance(step, str) else f"[{key}]"
