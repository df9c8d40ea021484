# SPDX-License-Identifier: Apache-2.0
"""Runs what a process is for, on uvloop where that is installed (extra `speed`)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


def run(main: Coroutine[Any, Any, T]) -> T:
    """As `asyncio.run`."""
    result: T = _runner()(main)
    return result


def _runner() -> Callable[[Coroutine[Any, Any, Any]], Any]:
    try:
        import uvloop
    except ImportError:
        return asyncio.run
    return uvloop.run
