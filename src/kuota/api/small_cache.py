# SPDX-License-Identifier: Apache-2.0
"""Caches results for small arguments only, so that clients cannot choose the size of a cache."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache, wraps
from typing import Any, TypeVar

T = TypeVar("T", bound=Sequence[Any])
R = TypeVar("R")


def small_cache(entries: int, longest: int) -> Callable[[Callable[[T], R]], Callable[[T], R]]:
    """Cache the latest results of a function for arguments of at most this length."""

    def decorate(function: Callable[[T], R]) -> Callable[[T], R]:
        cached = lru_cache(entries)(function)

        @wraps(function)
        def call(argument: T) -> R:
            return cached(argument) if len(argument) <= longest else function(argument)

        return call

    return decorate
